"""`hloom roofline` and `hloom calibrate` as programs: tables, plots, JSON, devices of one's own.

Covers `plots/svg.py`, `timeline_tables.py`, `runtime/calibration.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hloom.analysis import check_devices, device
from hloom.cli.calibrate import to_toml
from hloom.cli.plots.roofline import SLOPE
from hloom.runtime.calibration import MeasuredRates, calibrate
from tests.cli.conftest import Call

MINE = """
[mine]
title = "my machine"
memory_bytes = 1e9
memory_bandwidth = 1e10
launch_seconds = 0
matrix = { f32 = 1e12, bf16 = 1e12 }
vector = { f32 = 1e11 }
sources = { memory_bytes = "me", memory_bandwidth = "me", launch_seconds = "me", matrix = "me", vector = "me" }
"""


def test_the_page_says_what_takes_the_time_and_that_it_is_an_estimate(call: Call, step: Path):
    output = call("roofline", step, "--device", "h100").output
    for words in (
        "NVIDIA H100 SXM5",
        "total (estimate)",
        "dot",
        "bound by",
        "An estimate: assumes peak rates",
        "flop/byte",
        SLOPE,
    ):
        assert words in output


def test_times_by_scope(call: Call, step: Path):
    output = call("roofline", step, "--by", "scope", "--depth", "1").output
    assert "time by scope" in output
    assert "(no scope)" in output


def test_json_holds_every_instruction(call: Call, step: Path):
    record = json.loads(call("roofline", step, "--json", "--by", "opcode").stdout)
    assert record["is_estimate"] is True
    assert {instruction["name"] for instruction in record["instructions"]} == {"dot", "total"}
    assert record["seconds"] == pytest.approx(sum(instruction["total"] for instruction in record["instructions"]))
    assert record["seconds"] == pytest.approx(sum(group["seconds"] for group in record["groups"]))


def test_a_picture(call: Call, step: Path, tmp_path: Path):
    path = tmp_path / "plot.svg"
    assert call("roofline", step, "-o", path).exit_code == 0
    picture = ElementTree.parse(path).getroot()
    titles = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("main/dot dot:") for title in titles)
    assert "matrix bf16" in path.read_text()


def test_devices_of_ones_own(call: Call, step: Path, tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    assert "my machine" in call("roofline", step, "--devices", path, "--device", "mine").output
    path.write_text(MINE.replace("1e10", "fast"))
    result = call("roofline", step, "--devices", path, "--device", "mine")
    assert result.exit_code == 2
    assert "this is not TOML" in result.output


def test_an_unknown_device_is_refused_with_near_misses(call: Call, step: Path):
    result = call("roofline", step, "--device", "h10")
    assert result.exit_code == 2
    assert "did you mean h100" in result.output


def test_the_devices_are_listed(call: Call):
    output = call("roofline", "--list").output
    assert "tpu-v5e" in output
    assert "989.4 TFLOP/s" in output


def measured() -> MeasuredRates:
    """What calibrating gives on a machine that takes a microsecond for each byte of a program's text."""
    return calibrate(lambda text: len(text) * 1e-6)


def test_what_is_measured_is_a_file_of_devices(tmp_path: Path):
    text = to_toml(measured(), "here")
    assert set(check_devices(text, "here.toml")) == {"here"}
    path = tmp_path / "here.toml"
    path.write_text(text)
    known = device("here", path)
    assert known.start_seconds == pytest.approx(
        len("HloModule calibrate\n\nENTRY main {\n  p0 = f32[8] parameter(0)\n  ROOT r = f32[8] negate(p0)\n}\n") * 1e-6
    )
    assert known.matrix["f32"] > 0
    assert known.transcendental["sine"] > 0
    assert known.links[0].technology == "memory"


def test_calibrating_says_what_it_does_and_writes_whole_or_not_at_all(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hloom.cli.calibrate.calibrate", lambda on_step: (on_step("copies"), measured())[1])
    path = tmp_path / "here.toml"
    result = call("calibrate", "-o", path)
    assert result.exit_code == 0
    assert "measuring: copies" in result.output
    assert "[cpu.matrix]" in path.read_text()
    assert json.loads(call("calibrate", "--json").stdout)["devices"] == 2
    assert call("calibrate", "-o", tmp_path / "nowhere" / "here.toml").exit_code == 2


def test_pictures_that_are_not_made_are_bad_usage(call: Call, step: Path, tmp_path: Path):
    result = call("roofline", step, "-o", tmp_path / "plot.png")
    assert result.exit_code == 2
    assert "must end in .svg to hold the plot" in result.output
    assert not (tmp_path / "plot.png").exists()


def test_calibrating_measures_nothing_that_it_could_not_write(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hloom.cli.calibrate.calibrate", lambda on_step: pytest.fail("measured"))
    result = call("calibrate", "-o", tmp_path / "nowhere" / "here.toml")
    assert result.exit_code == 2
    assert "no such file or directory" in result.output
    result = call("calibrate", "--name", "my cpu")
    assert result.exit_code == 2
    assert "letters, digits, - and _" in result.output


def test_a_count_below_zero_is_not_plotted(call: Call, tmp_path: Path):
    """A reduction to more elements than it is given, in a module that was damaged."""
    path = tmp_path / "damaged.hlo"
    path.write_text(
        """a { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
        ENTRY e { x = f32[8] parameter(0)
        ROOT r = f32[800] reduce-scatter(x), dimensions={0}, replica_groups={{0,1}}, to_apply=a }"""
    )
    assert call("roofline", path).exit_code == 0


def test_the_timeline_as_tables_and_json(call: Call, step: Path):
    output = call("roofline", step, "--device", "h100", "--timeline").output
    for words in ("step (estimate)", "critical path", "the module is not scheduled", "streams do not slow"):
        assert words in output
    record = json.loads(call("roofline", step, "--device", "h100", "--timeline", "--json").stdout)
    seconds = json.loads(call("roofline", step, "--device", "h100", "--json").stdout)["seconds"]
    assert record["serial_seconds"] == pytest.approx(seconds)
    assert [stream["name"] for stream in record["streams"]] == ["compute"]


@pytest.mark.parametrize(("suffix", "key"), [("perfetto", "traceEvents"), ("speedscope", "profiles")])
def test_the_timeline_as_a_trace(call: Call, step: Path, tmp_path: Path, suffix: str, key: str):
    output = tmp_path / f"step.{suffix}.json"
    call("roofline", step, "--timeline", "-o", output)
    assert json.loads(output.read_text())[key]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timeline", "--by", "scope"), "--timeline does not go with --by"),
        (("--timeline", "--profile", "trace"), "--timeline does not go with --profile"),
        (("--timeline", "-o", "step.svg"), "a timeline is written to .perfetto.json or .speedscope.json, not to .svg"),
        (("-o", "step.perfetto.json"), "add --timeline"),
    ],
)
def test_options_that_a_timeline_does_not_take(call: Call, step: Path, arguments: tuple[str, ...], message: str):
    result = call("roofline", step, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
