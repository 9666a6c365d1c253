"""Why a module does not fit: what is live, why, and what was tried.

Covers `diagnosis.py`, `module_report.py`, `held_buffers.py`, `remedies.py`, `report.py`, `half_precision.py`.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.analysis import NO_SCOPE
from hloom.inspection.why_oom import OomReport, module_report, remedies, why_oom
from hloom.inspection.why_oom.half_precision import in_half_precision
from hloom.inspection.why_oom.held_buffers import repeated_scope
from hloom.ir import Module
from hloom.sharding import Mesh
from hloom.text import HloomError, listening

LAYERS, ROWS, WIDTH = 3, 1024, 32


def step(weights: Any, inputs: Any, targets: Any) -> Any:
    def loss(weights: Any) -> Any:
        hidden = inputs
        for number, (up, down) in enumerate(weights):
            with jax.named_scope(f"layer_{number}"):
                hidden = hidden + jnp.tanh(hidden @ up) @ down
        return ((hidden - targets) ** 2).mean()

    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))


@pytest.fixture(scope="module")
def module() -> Module:
    layer = jax.ShapeDtypeStruct((WIDTH, 4 * WIDTH), jnp.float32), jax.ShapeDtypeStruct((4 * WIDTH, WIDTH), jnp.float32)
    batch = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
    return hloom.load(jax.jit(step).lower([layer] * LAYERS, batch, batch))


@pytest.fixture(scope="module")
def report(module: Module) -> OomReport:
    return why_oom(module, memory=hloom.memory(module).peak // 2, file="step.hlo")


@pytest.fixture(scope="module")
def all_tried(module: Module) -> OomReport:
    return why_oom(module, file="step.hlo")


def test_an_empty_module_and_what_is_no_module_are_refused():
    with pytest.raises(HloomError, match="has no instructions"):
        why_oom(Module())
    with pytest.raises(HloomError, match="cannot load a module from list"):
        why_oom([])  # pyright: ignore
    with pytest.raises(HloomError, match="cannot hold"):
        why_oom(Module(), memory=0)


def test_a_module_that_fits_has_nothing_tried(module: Module):
    report = why_oom(module, memory="1GiB")
    assert (report.fits, report.missing, report.remedies) == (True, 0, ())


def test_what_is_live_says_who_needs_it(report: OomReport):
    tanhs = [buffer for buffer in report.buffers if buffer.made_by == "tanh"]
    assert [buffer.scope for buffer in tanhs] == [f"forward/layer_{number}" for number in range(LAYERS)]
    assert all(buffer.reason.startswith("forward value kept for the backward pass: last needed by") for buffer in tanhs)
    assert {buffer.last_user_scope for buffer in tanhs} == {f"backward/layer_{number}" for number in range(LAYERS)}
    weights = next(buffer for buffer in report.buffers if buffer.scope == "inputs/weights/0")
    assert (
        weights.reason.startswith("argument: the caller keeps it; result {")
        and "could take its memory" in weights.reason
    )
    assert sum(buffer.bytes for buffer in report.buffers) <= report.peak


def test_groups_are_of_repeated_layers_and_of_reasons(report: OomReport):
    assert repeated_scope("forward/layer_11/attention") == "forward/layer_*/attention"
    scopes = {group.name: group for group in report.by_scope()}
    assert scopes["forward/layer_*"].reason == "forward value kept for the backward pass"
    assert report.by_reason()[0].name == "forward value kept for the backward pass"
    assert sum(group.bytes for group in report.by_source()) == sum(buffer.bytes for buffer in report.buffers)


def test_everything_is_tried_and_says_its_price(all_tried: OomReport, module: Module):
    tried = {remedy.what: remedy for remedy in all_tried.remedies}
    assert {remedy.name for remedy in all_tried.remedies} == {"donate", "remat", "microbatch", "shard", "half"}
    sliced = tried["cut the batch into 4 slices"]
    same = hloom.microbatch(module, 4, batch={"inputs.1": 0})
    assert sliced.peak == hloom.memory(same).peak
    assert sliced.command == "hloom opt step.hlo -p 'microbatch(n=4, batch=inputs.1:0)'"
    assert 1 <= sliced.flops_factor < 1.05
    shards = {remedy.devices: remedy for remedy in all_tried.remedies if remedy.name == "shard"}
    assert shards[8].comm_bytes > 0 and shards[8].saved > shards[4].saved > shards[2].saved > 0
    assert all(0.999 < remedy.flops_factor < 1.05 for remedy in shards.values()), "elementwise work counts on both sides"
    donated = tried["results take the memory of parameters"]
    assert donated.command == "hloom opt step.hlo -p donate"
    changed, _ = hloom.opt(module, "donate")
    assert donated.peak == hloom.memory(changed).peak < donated.original_peak


def test_more_devices_and_slices_are_tried_until_it_fits(
    module: Module, all_tried: OomReport, monkeypatch: pytest.MonkeyPatch
):
    planned: list[int] = []
    search = remedies.search_plans

    def counted(module: Module, mesh: Mesh) -> Any:
        planned.append(mesh.device_count)
        return search(module, mesh)

    monkeypatch.setattr(remedies, "search_plans", counted)
    peaks = {remedy.devices: remedy.peak or 0 for remedy in all_tried.remedies if remedy.name == "shard"}
    assert peaks[4] > all_tried.peak // 4
    for limit, counts in ((peaks[2], [2]), (peaks[2] - 1, [2, 4]), (peaks[4], [4]), (peaks[8] // 8, [8])):
        planned.clear()
        report = why_oom(module, memory=limit)
        assert planned == counts, "none that even an equal share of the peak rules out"
        assert [one.what for one in report.remedies if one.name == "remat"] == [f"compute again, within {limit:,} B"]
    said: list[str] = []
    with listening(lambda done, total: None, said.append):
        assert why_oom(module, memory=peaks[2]).helpful[0].fits(peaks[2]), "what is enough comes first"
    assert any(text.startswith("split over 2 devices: ") for text in said), "before all is tried"


def test_what_does_not_help_says_why(report: OomReport):
    (halved,) = [remedy for remedy in report.remedies if remedy.name == "half"]
    assert halved in report.useless and halved.saved < 0, "XLA's CPU computes bf16 in f32"
    small = why_oom(hloom.parse("ENTRY e { x = f32[64,8] parameter(0) ROOT y = f32[64,8] tanh(x) }"))
    problems = {remedy.name: remedy.problem for remedy in small.useless}
    assert problems.get("remat")


def test_json_is_plain(report: OomReport):
    plain = json.loads(json.dumps(report.to_json()))
    assert plain["missing"] == report.peak - plain["memory"] and plain["fits"] is False
    assert plain["remedies"][0]["saved"] == report.helpful[0].saved
    assert str(report).startswith("jit_step: ")


def test_quick_tries_nothing(module: Module):
    assert why_oom(module, memory=1, quick=True).remedies == ()


def test_an_optimised_module_is_not_changed():
    optimised = hloom.parse(
        "HloModule m, is_scheduled=true\n"
        "fused { p = f32[256] parameter(0) t = f32[256] tanh(p) ROOT n = f32[256] negate(t) }\n"
        "ENTRY e { x = f32[256] parameter(0) ROOT y = f32[256] fusion(x), kind=kLoop, calls=fused }"
    )
    report = why_oom(optimised)
    assert report.remedies == () and any("before optimisation" in note for note in report.notes)
    assert next(buffer for buffer in report.buffers if buffer.name == "y").made_by == "fusion of 2: tanh, negate"


def test_a_donated_argument_becomes_a_result():
    donated = hloom.parse(
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
        "ENTRY e { x = f32[256] parameter(0) y = f32[256] parameter(1) ROOT z = f32[256] add(x, y) }"
    )
    reasons = {buffer.name: buffer.reason for buffer in why_oom(donated, quick=True).buffers}
    assert set(reasons.values()) == {"argument: its memory becomes a result's", "argument: the caller keeps it"}


def test_tiles_are_padded():
    tiled = hloom.parse(
        "HloModule m, is_scheduled=true\n"
        "ENTRY e { x = s32[64,8,4]{2,1,0:T(8,128)} parameter(0) y = s32[64,8,4]{2,1,0:T(8,128)S(1)} negate(x) "
        "w = s32[64,8,4]{2,1,0:T(8,128)} add(x, y) ROOT z = s32[64,8,4]{2,1,0:T(8,128)} add(w, y) }"
    )
    report = why_oom(tiled)
    x = next(buffer for buffer in report.buffers if buffer.name == "x")
    assert (x.bytes, x.unpadded_bytes) == (64 * 8 * 128 * 4, 64 * 8 * 4 * 4)
    assert report.peak == sum(buffer.bytes for buffer in report.buffers)
    assert "y" not in [buffer.name for buffer in report.buffers]  # it is on the chip
    assert any("in VMEM, S(1)" in note for note in report.notes)


def test_half_precision_keeps_the_interface_and_the_bits():
    module = hloom.parse(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[4,8] parameter(0) i = s32[4,8] bitcast-convert(x) f = f32[4,8] bitcast-convert(i) "
        "t = f32[4,8] tanh(f) c = f32[] constant(0) r = f32[4] reduce(t, c), dimensions={1}, to_apply=add "
        "ROOT o = (f32[4], s32[4,8], f32[4,8]) tuple(r, i, t) }"
    )
    half = in_half_precision(module)
    assert half.entry.type is module.entry.type
    assert str(half.entry["t"].type) == "bf16[4,8]" and str(half.entry["f"].type) == "f32[4,8]"
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    exact, rounded = hloom.evaluate(module, [x]), hloom.evaluate(half, [x])
    np.testing.assert_array_equal(exact[1], rounded[1])
    np.testing.assert_allclose(exact[2], rounded[2], atol=0.01)


def test_half_precision_in_loops():
    module = hloom.parse(
        "cond { s = (s32[], f32[8]) parameter(0) n = s32[] get-tuple-element(s), index=0 k = s32[] constant(3) "
        "ROOT l = pred[] compare(n, k), direction=LT }\n"
        "body { s = (s32[], f32[8]) parameter(0) n = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) "
        "m = s32[] add(n, one) v = f32[8] get-tuple-element(s), index=1 w = f32[8] tanh(v) "
        "ROOT t = (s32[], f32[8]) tuple(m, w) }\n"
        "ENTRY e { x = f32[8] parameter(0) z = s32[] constant(0) t = (s32[], f32[8]) tuple(z, x) "
        "w = (s32[], f32[8]) while(t), condition=cond, body=body ROOT r = f32[8] get-tuple-element(w), index=1 }"
    )
    half = in_half_precision(module)
    assert half.entry.root.opcode == "convert"
    assert any(str(node.type) == "bf16[8]" and node.opcode == "tanh" for node in half.nodes())


def test_instructions_without_metadata_have_no_scope():
    report = why_oom(
        hloom.parse("ENTRY e { x = f32[64] parameter(0) y = f32[64] tanh(x) ROOT z = f32[64] negate(y) }"), quick=True
    )
    assert {buffer.scope for buffer in report.buffers} <= {"inputs", NO_SCOPE, "outputs"}


def test_what_is_not_tried_on_a_large_program_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module_report, "MOST_TRIED", 1)
    monkeypatch.setattr(remedies, "MOST_TRIED", 1)
    small = hloom.parse("ENTRY e { x = f32[8,1024] parameter(0) ROOT y = f32[8,1024] tanh(x) }")
    report = why_oom(small, memory="50KiB")
    (note,) = (note for note in report.notes if note.startswith("not tried"))
    assert "over 2 and 4 devices" in note and "batch is not looked for" in note
    assert {remedy.devices for remedy in report.remedies if remedy.name == "shard"} == {8}
    assert len([remedy for remedy in report.remedies if remedy.name == "remat"]) == 1
    assert "say it" in next(remedy for remedy in report.remedies if remedy.name == "microbatch").problem
    given = why_oom(small, memory="50KiB", batch="x:0")
    assert not any("batch" in note for note in given.notes)
    assert len([remedy for remedy in given.remedies if remedy.name == "microbatch"]) == 3
