"""Measured times: read, matched with modules, added up.

Covers `trace.py`, `program_match.py`, `measurement.py`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest

import hloom
from hloom.analysis import device
from hloom.inspection.profile import Measurement, RunTimes, measured_change, measured_noise, measurement, read_trace
from hloom.inspection.profile.measurement import noise_of
from hloom.text import HloomError
from tests.inspection.profile.traces import BEFORE, MODULE, RUNS, Event, TraceWriter, written


def measured(folder: Path, text: str = MODULE, name: str | None = None) -> Measurement:
    return measurement(hloom.parse(text), folder, None if name is None else device(name))


def test_what_is_no_trace(tmp_path: Path):
    with pytest.raises(HloomError, match="no such file or directory"):
        read_trace(tmp_path / "none")
    with pytest.raises(HloomError, match="holds no trace"):
        read_trace(tmp_path)
    folder = tmp_path / "plugins" / "profile" / "s"
    folder.mkdir(parents=True)
    (folder / "h.xplane.pb").write_bytes(b"")
    with pytest.raises(HloomError, match="no events of XLA's instructions"):
        read_trace(tmp_path)
    (folder / "h.xplane.pb").write_bytes(b"\x0a\xff\xff\xff\xff")
    with pytest.raises(HloomError, match="damaged, or is not a trace"):
        read_trace(tmp_path)
    (folder / "h.xplane.pb").unlink()
    (folder / "h.xplane.pb").symlink_to("/etc/hostname")
    with pytest.raises(HloomError, match="symbolic link out of the directory"):
        read_trace(tmp_path)


def test_a_file_cut_anywhere_is_an_error_or_less_of_a_trace(tmp_path: Path):
    folder = written(tmp_path)
    file = next(folder.rglob("*.xplane.pb"))
    data = file.read_bytes()
    for length in range(0, len(data), 37):
        file.write_bytes(data[:length])
        try:
            measured(folder)
        except HloomError:
            continue


def test_times_are_means_over_runs(tmp_path: Path):
    report = measured(written(tmp_path))
    assert (report.runs, report.devices, report.program, report.is_given) == (2, 1, "jit_step", True)
    by_name = {row.node.name: row for row in report.instructions}
    assert by_name["d"].seconds == pytest.approx(15e-6) and by_name["d"].events == 1
    assert by_name["d"].flop_rate == pytest.approx(2 * 64**3 / 15e-6)
    assert by_name["d"].ratio == pytest.approx(15e-6 / by_name["d"].model_seconds)  # pyright: ignore
    assert report.seconds == pytest.approx(35e-6) and report.busy_seconds == pytest.approx(25e-6)
    assert report.idle_seconds == pytest.approx(10e-6)
    assert (report.gaps[0].after, report.gaps[0].before) == ("a", "t")
    assert report.gaps[0].seconds == pytest.approx(10e-6)


def test_collectives_that_nothing_overlaps(tmp_path: Path):
    (row,) = measured(written(tmp_path)).collectives
    assert (row.node.name, row.seconds, row.exposed_seconds) == ("a", pytest.approx(10e-6), pytest.approx(8e-6))


def test_times_by_scope_source_and_opcode(tmp_path: Path):
    report = measured(written(tmp_path))
    assert [row["scope"] for row in report.by("scope")] == ["layer_0", "layer_1"]
    assert next(iter(report.by("source")))["source"] == "m.py:3"
    assert {row["opcode"] for row in report.by("opcode")} == {"dot", "all-reduce", "tanh"}
    with pytest.raises(ValueError, match="cannot be added up by 'colour'"):
        report.by("colour")
    assert json.loads(json.dumps(report.to_json()))["runs"] == 2


def test_a_module_before_optimisation_is_matched_through_the_traces_own(tmp_path: Path):
    report = measured(written(tmp_path), BEFORE)
    assert not report.is_given and {row.node.name for row in report.instructions} == {"d", "a", "t"}
    with pytest.raises(HloomError, match="the trace holds no program that it may have been compiled to"):
        measured(written(tmp_path / "bare", text=None), BEFORE)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("HloModule jit_step", "HloModule jit_other"), "it is not a program called jit_other"),
        (("f32[64,64]", "f32[32,32]"), "its parameters or results have other types"),
        (("layer_", "block_"), "0% of its op_names are in jit_step"),
    ],
)
def test_a_trace_of_another_module_is_refused(tmp_path: Path, change: tuple[str, str], reason: str):
    folder = written(tmp_path)
    with pytest.raises(HloomError) as error:
        measured(folder, BEFORE.replace(*change))
    assert f"{folder} is a trace of other programs than jit_" in str(error.value) and reason in str(error.value)


def test_an_optimised_module_of_other_instructions_is_refused(tmp_path: Path):
    with pytest.raises(HloomError, match="0% of its measured instructions are in jit_step"):
        measured(written(tmp_path), BEFORE.replace("HloModule jit_step", "HloModule jit_step, is_scheduled=true"))
    same_names = MODULE.replace("f32[64,64]", "f32[8,8]")
    with pytest.raises(HloomError, match="0% of its measured instructions"):
        measured(written(tmp_path / "types"), same_names)


def test_of_several_programs_the_one_that_is_meant(tmp_path: Path):
    writer = TraceWriter()
    writer.cpu([("other", 1, 0, 500)], module="jit_other", number=3)
    writer.cpu(RUNS)
    writer.program(MODULE, tmp_path)
    assert measured(writer.write(tmp_path / "trace")).runs == 2


def test_runs_that_the_trace_cut_are_left_out(tmp_path: Path):
    report = measured(written(tmp_path, [("t", 0, 0, 2), *RUNS]))
    assert report.runs == 2 and "1 of 3 runs were not traced from beginning to end" in report.notes[0]


def test_several_devices(tmp_path: Path):
    writer = TraceWriter()
    writer.cpu(RUNS)
    writer.cpu(
        [(name, run, start, start + 2 * (end - start)) for name, run, start, end in RUNS if name != "x"], device=1
    )
    writer.program(MODULE, tmp_path)
    report = measured(writer.write(tmp_path / "trace"))
    assert (report.runs, report.devices) == (2, 2)
    assert next(row for row in report.instructions if row.node.name == "d").seconds == pytest.approx(22.5e-6)


def test_loops_are_the_time_of_what_is_inside(tmp_path: Path):
    looped = (
        "HloModule jit_step, is_scheduled=true\n"
        "cond { s = (s32[], f32[8]) parameter(0) n = s32[] get-tuple-element(s), index=0 k = s32[] constant(3) ROOT l = pred[] compare(n, k), direction=LT }\n"
        "body { b = (s32[], f32[8]) parameter(0) m = s32[] get-tuple-element(b), index=0 one = s32[] constant(1) i = s32[] add(m, one) "
        "v = f32[8] get-tuple-element(b), index=1 w = f32[8] tanh(v) ROOT o = (s32[], f32[8]) tuple(i, w) }\n"
        "ENTRY e { x = f32[8] parameter(0) z = s32[] constant(0) t = (s32[], f32[8]) tuple(z, x) ROOT loop = (s32[], f32[8]) while(t), condition=cond, body=body }"
    )
    events = [("loop", 1, 0, 100), *[("w", 1, start, start + 10) for start in (0, 30, 60)]]
    report = measured(written(tmp_path, events, looped), looped)
    assert [(row.node.name, row.events) for row in report.instructions] == [("w", 3)]
    assert report.measured_seconds == pytest.approx(30e-6)


def test_a_tpus_lines(tmp_path: Path):
    writer = TraceWriter()
    plane = writer.plane("/device:TPU:0")
    plane.event_metadata[1].name = "jit_step(7)"
    for key, name in enumerate(("d", "a", "t"), 2):
        plane.event_metadata[key].name = f"%{name} = f32[64,64] opcode(%x)"
    modules, ops = plane.lines.add(), plane.lines.add()
    modules.name, ops.name = "XLA Modules", "XLA Ops"
    for run in (0, 1):
        event = modules.events.add()
        event.metadata_id, event.offset_ps, event.duration_ps = 1, run * 1000, 900
        for key in (2, 3, 4):
            event = ops.events.add()
            event.metadata_id, event.offset_ps, event.duration_ps = key, run * 1000 + key * 100, 50
    report = measured(writer.write(tmp_path), name="tpu-v5e")
    assert (report.runs, len(report.instructions)) == (2, 3)
    assert report.instructions[0].seconds == pytest.approx(50e-12)


@pytest.mark.parametrize("derives", [False, True], ids=["kernels", "kernels and lines derived of them"])
def test_a_gpus_kernels(tmp_path: Path, derives: bool):
    """As CUPTI's collector writes them; made by hand, since no GPU wrote them."""
    writer = TraceWriter()
    writer.gpu(RUNS, derives)
    writer.program(MODULE, tmp_path)
    report = measured(writer.write(tmp_path / "trace"), name="h100")
    assert (report.runs, report.devices) == (2, 1)
    seconds = {row.node.name: (row.seconds, row.events) for row in report.instructions}
    assert seconds == {"d": (pytest.approx(15e-6), 2), "a": (pytest.approx(10e-6), 1), "t": (pytest.approx(2e-6), 1)}


def test_the_last_session_counts(tmp_path: Path):
    written(tmp_path, [(name, run, start, end) for name, run, start, end in RUNS if run == 1])
    writer = TraceWriter()
    writer.cpu(RUNS)
    folder = writer.write(tmp_path / "trace", session="2026_02_01")
    assert measured(folder).runs == 2
    assert (
        os.listdir(folder / "plugins" / "profile") and measured(next(folder.glob("plugins/profile/*02_01"))).runs == 2
    )


def runs_of(length: int, *, jitter: int = 0, count: int = 5) -> list[Event]:
    """Runs of one dot each, which take a few microseconds more or less."""
    return [("d", run, 1000 * run, 1000 * run + length + jitter * (run % 3)) for run in range(1, count + 1)]


def test_times_have_the_median_the_least_and_the_spread_over_runs(tmp_path: Path):
    report = measured(written(tmp_path, runs_of(10, jitter=4)))
    (row,) = report.instructions
    assert report.times is not None and row.times == report.times
    assert report.times.to_json() == pytest.approx({"runs": 5, "median": 14e-6, "least": 10e-6, "spread": 4e-6})
    assert report.to_json()["instructions"][0]["times"]["least"] == pytest.approx(10e-6)
    assert report.to_json()["times"]["spread"] == pytest.approx(4e-6)


@pytest.mark.parametrize(
    ("before", "after", "is_above"),
    [(runs_of(10, jitter=1), runs_of(20, jitter=1), True), (runs_of(10, jitter=9), runs_of(12, jitter=9), False)],
    ids=["above", "within"],
)
def test_the_noise_of_two_programs(tmp_path: Path, before: list[Event], after: list[Event], is_above: bool):
    one, other = measured(written(tmp_path / "a", before)), measured(written(tmp_path / "b", after))
    noise = measured_noise(one, other)
    assert noise is not None and one.times is not None and other.times is not None
    assert (abs(other.times.median - one.times.median) > noise) == is_above
    (row,) = measured_change(one, other, "opcode")
    assert row["noise"] == pytest.approx(noise)


def test_few_runs_of_one_program_are_rarely_two(tmp_path: Path):
    """Quartiles of three runs are too close together: the noise allows for that."""
    random = Random(1)
    above = 0
    for _ in range(200):
        times = [RunTimes.of([round(random.gauss(10_000, 500)) for _ in range(3)]) for _ in range(2)]
        noise = noise_of([time.error for time in times], 3)
        above += noise is not None and abs(times[0].median - times[1].median) > noise
    assert above <= 20


def test_a_single_run_says_nothing_of_the_noise(tmp_path: Path):
    once = measured(written(tmp_path / "a", runs_of(10, count=1)))
    assert measured_noise(once, measured(written(tmp_path / "b", runs_of(10)))) is None


def test_what_jax_writes(tmp_path: Path):
    jax = pytest.importorskip("jax")

    def step(x):
        with jax.named_scope("layer"):
            return (jax.numpy.tanh(x @ x) @ x).sum()

    function = jax.jit(step)
    x = jax.numpy.ones((128, 128))
    lowered = function.lower(x)
    jax.block_until_ready(function(x))
    with jax.profiler.trace(tmp_path):
        for _ in range(3):
            jax.block_until_ready(function(x))
    for module in (hloom.load(lowered), hloom.load(lowered.compile())):
        report = measurement(module, tmp_path)
        assert report.runs == 3 and report.is_given == module.is_scheduled
        assert 0 < report.busy_seconds <= report.seconds and report.unknown_seconds == 0
        assert any(row["scope"] == "layer" for row in report.by("scope"))
        assert all(0.9 < row.events < 1.1 for row in report.instructions)
    with pytest.raises(HloomError, match="is a trace of other programs than jit_"):
        measurement(hloom.load(jax.jit(lambda x: x + 1).lower(x)), tmp_path)
