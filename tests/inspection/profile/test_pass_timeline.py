"""Timelines of XLA's passes: real dumps, made ones, and damaged ones.

Covers `pass_states.py`, `state_figures.py`, `compiled_passes.py`.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hloom.formats.hlo import parse
from hloom.inspection.profile import PassState, PassTimeline, changing_passes
from hloom.inspection.profile import pass_timeline as timeline_of
from hloom.runtime import close
from hloom.text import HloomError

FIRST = "HloModule jit_f\nENTRY e { x = f32[4] parameter(0) y = f32[4] negate(x) z = f32[4] negate(y) ROOT t = f32[4] tanh(z) }"
SECOND = "HloModule jit_f\nENTRY e { x = f32[4] parameter(0) ROOT t = f32[4] tanh(x) }"
NAMES = {
    "before_optimizations": FIRST,
    "0000.first.after_pipeline-start.before_algsimp": FIRST,
    "0001.first.after_algsimp.before_dce": SECOND,
    "0002.copy-insertion.after_adding_copies": SECOND,
    "cpu_after_optimizations": SECOND,
}


def dump(folder: Path, texts: dict[str, str] = NAMES, module: str = "module_0003.jit_f") -> Path:
    for stage, text in texts.items():
        (folder / f"{module}.{stage}.txt").write_text(text)
    return folder


def test_the_states_in_order(tmp_path: Path):
    timeline = timeline_of(dump(tmp_path))
    rows = list(timeline.rows())
    assert [(row.state.label, row.state.pipeline, row.state.last_pass, row.state.next_pass) for row in rows] == [
        ("before_optimizations", "", "", ""),
        ("0000", "first", "", "algsimp"),
        ("0001", "first", "algsimp", "dce"),
        ("0002", "copy-insertion", "adding_copies", ""),
        ("cpu_after_optimizations", "", "", ""),
    ]
    assert [row.is_changed for row in rows] == [False, False, True, False, False]
    assert [row.figures.instructions for row in rows if row.figures] == [4, 4, 2, 2, 2]
    assert rows[2].changes == {"negate": -2} and not rows[3].changes
    assert (
        rows[0].figures
        and rows[0].figures.flops == 8
        and rows[0].figures.peak_bytes
        and not rows[0].figures.collectives
    )


def test_the_states_of_a_tpu_and_a_gpu_in_order(tmp_path: Path):
    tpu = {"after_codegen": SECOND, "after_optimizations": SECOND, **dict(list(NAMES.items())[:4])}
    stages = [row.state.stage for row in timeline_of(dump(tmp_path, tpu, "module_0000.jit_f.cl_1")).rows()]
    assert stages == [*list(NAMES)[:4], "after_optimizations", "after_codegen"]
    gpu = {"after_spmd_partitioner": SECOND, **dict(list(NAMES.items())[:4]), "sm_9.0a_gpu_after_optimizations": SECOND}
    timeline = timeline_of(dump(tmp_path, gpu, "module_0001.jit_g"), module="jit_g")
    assert [row.state.stage for row in timeline.rows()] == [*list(NAMES)[:4], "sm_9.0a_gpu_after_optimizations"]


def test_each_distinct_text_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    loads: list[str] = []
    original = PassState.module

    def counted(state: PassState):
        loads.append(state.label)
        return original(state)

    monkeypatch.setattr(PassState, "module", counted)
    timeline = timeline_of(dump(tmp_path))
    assert loads == []
    assert len(list(timeline.rows())) == len(list(timeline.rows())) == 5
    assert loads == ["before_optimizations", "0001"]


def test_thousands_of_states(tmp_path: Path):
    texts = {f"{n:04}.p.after_a{n}.before_b": FIRST if n % 50 else SECOND for n in range(2_000)}
    texts["10000.p.after_last.before_b"] = SECOND
    timeline = timeline_of(dump(tmp_path, texts))
    rows = list(timeline.rows())
    assert len(rows) == 2_001 and rows[-1].state.last_pass == "last"
    assert len(timeline._figures) == 2


def test_differences(tmp_path: Path):
    timeline = timeline_of(dump(tmp_path))
    assert len(timeline.diff("before", "after").removed) == 2
    assert timeline.diff(1, "0002").is_equal
    assert timeline[2].last_pass == "adding_copies"
    for wanted in ("7", "frob", "99999999999", ""):
        with pytest.raises(HloomError, match=f"no state is called '{wanted}'"):
            timeline[wanted]


def test_several_modules(tmp_path: Path):
    dump(tmp_path)
    dump(tmp_path, {"0000.p.after_a.before_b": FIRST + " " * 3000}, "module_0007.jit_g")
    (tmp_path / "module_0009.jit_h.before_optimizations.txt").write_text(FIRST)
    with pytest.raises(HloomError, match=r"holds 2 modules: name one, as in --module module_0007.jit_g\n  module_0007"):
        timeline_of(tmp_path)
    assert timeline_of(tmp_path, "jit_f").name == timeline_of(tmp_path, "module_0003").name == "module_0003.jit_f"
    with pytest.raises(HloomError, match="holds no states of a module 'jit_x'"):
        timeline_of(tmp_path, "jit_x")
    with pytest.raises(HloomError, match="holds no states of a module 'jit_h'"):
        timeline_of(tmp_path, "jit_h")


def test_directories_without_states(tmp_path: Path):
    with pytest.raises(HloomError, match=r"holds no modules that XLA dumped\n  XLA writes them with XLA_FLAGS="):
        timeline_of(tmp_path)
    (tmp_path / "module_0009.jit_h.before_optimizations.txt").write_text(FIRST)
    with pytest.raises(HloomError, match=r"holds no states between passes\n  .*--xla_dump_hlo_pass_re=\.\*"):
        timeline_of(tmp_path)
    with pytest.raises(HloomError, match="no such file or directory"):
        timeline_of(tmp_path / "absent")


def test_damaged_files(tmp_path: Path):
    """Truncated, empty, packed and damaged, of another format, a link that leads out: a row each, and all others are there."""
    dump(tmp_path, {f"000{n}.p.after_a.before_b": FIRST for n in range(6)})
    state = "module_0003.jit_f.000{}.p.after_a.before_b.txt"
    (tmp_path / state.format(1)).write_text(FIRST[:60])
    (tmp_path / state.format(2)).write_text("")
    (tmp_path / state.format(3)).rename(tmp_path / "moved")
    packed = gzip.compress((SECOND + "\n").encode())
    (tmp_path / (state.format(3) + ".gz")).write_bytes(packed)
    (tmp_path / state.format(4)).unlink()
    (tmp_path / (state.format(4) + ".gz")).write_bytes(packed[:-12])
    outside = tmp_path.parent / "outside.txt"
    outside.write_text(FIRST)
    (tmp_path / state.format(5)).unlink()
    (tmp_path / state.format(5)).symlink_to(outside)
    rows = list(timeline_of(tmp_path).rows())
    assert [row.figures is not None for row in rows] == [True, False, False, True, False, False]
    assert rows[3].is_changed and rows[3].changes == {"negate": -2}
    problems = [row.problem for row in rows]
    assert "damaged" in problems[4] and "symbolic link out of the directory" in problems[5]
    json.dumps(timeline_of(tmp_path).to_json())


def test_a_state_that_cannot_be_followed_has_instructions_alone(tmp_path: Path):
    huge = "f32[1099511627776,1048576]"
    text = f"ENTRY e {{ y = {huge} parameter(0)\n ROOT x = {huge} negate(y) }}"
    rows = list(timeline_of(dump(tmp_path, {"0000.p.after_a.before_b": text})).rows())
    assert rows[0].figures is not None and rows[0].figures.instructions == 2 and rows[0].problem


PROGRAM = """
import jax, jax.numpy as jnp
def step(w, x):
    loss = lambda w: jnp.mean(jax.nn.softmax(jnp.tanh(x @ w) + 0.0) ** 2)
    return w - 0.1 * jax.grad(loss)(w)
jax.jit(step).lower(jnp.ones((8, 4)), jnp.ones((2, 8))).compile()
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> PassTimeline:
    """What jax's XLA dumps of a step, on the CPU."""
    folder = tmp_path_factory.mktemp("dump")
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment, capture_output=True)
    return timeline_of(folder, "jit_step")


def test_a_real_dump(real: PassTimeline):
    rows = list(real.rows())
    assert len(rows) > 20
    assert all(row.figures is not None and not row.problem for row in rows), [row.problem for row in rows]
    assert rows[0].state.stage == "before_optimizations" and rows[-1].state.stage == "cpu_after_optimizations"
    changed = [row.state.last_pass for row in rows if row.is_changed]
    assert "algsimp" in changed and "fusion" in changed and len(changed) < len(rows) / 1.5
    fused = next(row for row in rows if row.state.last_pass == "fusion")
    assert fused.changes["fusion"] > 0
    assert len(real.diff("before", "after").added) > 0


def test_the_passes_that_change_a_module():
    text = "ENTRY e { x = f32[4] parameter(0) y = f32[4] negate(x) z = f32[4] negate(y) t = f32[4] tanh(z) ROOT s = f32[4] sine(t) }"
    names = changing_passes(parse(text))
    assert "algsimp" in names and "dce" not in names and len(set(names)) == len(names)
    unknown = 'ENTRY e { x = f32[4] parameter(0) ROOT z = f32[4] custom-call(x), custom_call_target="no_such_target" }'
    with pytest.raises(HloomError, match="XLA does not compile module_e: its passes are not known"):
        changing_passes(parse(unknown))
    close()
