"""Devices: the package's own, users' files, and what is said of what is wrong in one.

Covers `device_files.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.analysis import check_devices, device, devices
from hloom.ir import dtype
from hloom.text import HloomError

NAMED = ("a100-40", "a100-80", "h100", "h200", "b200", "mi300x", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "cpu")

MINE = """\
[mine]
title = "a machine"
memory_bytes = 1e9
memory_bandwidth = 1e10
launch_seconds = 0

[mine.matrix]
f32 = 1e12
bf16 = 4e12

[mine.vector]
f32 = 1e11

[mine.sources]
memory_bytes = "me"
memory_bandwidth = "me"
launch_seconds = "me"
matrix = "me"
vector = "me"

[[mine.links]]
name = "near"
technology = "PCIe"
topology = "switch"
bandwidth = 1e9
latency = 1e-6
sources = { bandwidth = "me", latency = "me" }
"""


@pytest.mark.parametrize("name", NAMED)
def test_every_device_is_complete_and_every_figure_has_a_source(name: str):
    model = device(name)
    assert model.title
    assert model.memory_bytes >= 1e9
    assert model.memory_bandwidth >= 1e9
    assert {"f32", "bf16"} <= set(model.matrix)
    assert "f32" in model.vector
    assert model.sources
    for table in ("matrix", "vector", "transcendental", "opcodes"):
        for key in getattr(model, table):
            assert model.sources.get(table) or model.sources.get(f"{table}.{key}"), f"{table}.{key}"
    for field in ("memory_bytes", "memory_bandwidth", "launch_seconds", "devices_per_host"):
        assert field in model.sources or name == "cpu"
    assert model.links
    for link in model.links:
        assert link.sources
        assert {"bandwidth", "latency"} <= set(link.sources)


def test_the_links_of_accelerators_lead_to_neighbours_to_others_and_to_the_host():
    for name, model in devices().items():
        if name != "cpu":
            *near, far, host = model.links
            assert all(link.devices and link.devices >= model.devices_per_host for link in near)
            assert far.devices is None
            assert all(link.bandwidth > far.bandwidth for link in near)
            assert host.topology == "host"


def test_peaks_are_dense():
    assert device("h100").matrix["bf16"] == 989.4e12  # with sparsity twice as much
    assert device("a100-80").matrix["f16"] == 312e12
    assert device("b200").matrix["f8"] == 4.5e15


def test_names_are_found_whatever_their_case_and_near_misses_are_named():
    assert device("H100") is device("h100")
    with pytest.raises(HloomError, match=r"no device is called 'h10'\n.*did you mean h100"):
        device("h10")


def test_a_rate_that_is_not_stated_is_that_of_the_nearest_wider_type():
    h100 = device("h100")
    assert h100.matrix_rate(dtype("f8e4m3fn")) == h100.matrix["f8"]
    assert h100.vector_rate(dtype("f8e4m3fn")) == h100.vector["f16"]
    assert h100.vector_rate(dtype("c64")) == h100.vector["f32"]
    assert h100.vector_rate(dtype("s8")) == h100.vector["s32"]
    assert device("tpu-v5e").vector_rate(dtype("f64")) == device("tpu-v5e").vector["f32"]


def test_a_dot_of_f32_runs_at_tf32_unless_its_precision_is_high():
    h100 = device("h100")
    assert h100.matrix_rate(dtype("f32")) == 494.7e12
    assert h100.matrix_rate(dtype("f32"), is_fast=False) == 66.9e12


def test_a_file_adds_and_overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "mine.toml"
    path.write_text(MINE + MINE.replace("mine", "h100").replace("a machine", "not NVIDIA's"))
    assert device("mine", path).matrix == {"f32": 1e12, "bf16": 4e12}
    assert device("h100", path).title == "not NVIDIA's"
    assert device("h100").title.startswith("NVIDIA")
    monkeypatch.setenv("HLOOM_DEVICES", str(path))
    assert device("mine").links[0].name == "near"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "memory_bytes = 1e9",
            'memory_bytes = "much"',
            "mine.toml:3:1: memory_bytes of 'mine' should be a number, not 'much'",
        ),
        ("memory_bytes = 1e9", "memory_bytes = -1", "mine.toml:3:1: memory_bytes of 'mine' should be positive, not -1"),
        ("memory_bytes = 1e9", "memory_byte = 1e9", "mine.toml:3:1: 'mine' has no field 'memory_byte'"),
        ("memory_bandwidth = 1e10\n", "", "mine.toml:1:1: the device 'mine' has no memory_bandwidth"),
        ('title = "a machine"', "title = 3", "mine.toml:2:1: the title of 'mine' should be a string"),
        ("bf16 = 4e12", "bf16 = 0", "mine.toml:9:1: bf16 of 'mine.matrix' should be positive, not 0"),
        (
            "[mine.vector]",
            "[mine.matmul]\nbf16 = { rate = 1e12 }\n[mine.vector]",
            "the device 'mine' has rates of matmul, so it should have multiprocessors",
        ),
        (
            "latency = 1e-6\n",
            'latency = 1e-6\ncollectives = { all-gather = { step_seconds = 1e-6 } }\n',
            "'mine.links.collectives.all-gather' has no launch_seconds",
        ),
        (
            "latency = 1e-6\n",
            "latency = 1e-6\ncollectives = { all-gather = 3 }\n",
            "'mine.links.collectives.all-gather' should be a table of figures",
        ),
        (
            "[mine.matrix]",
            "multiprocessors = 4\nmatmul = { bf16 = { rate = true } }\n[mine.matrix]",
            "'mine.matmul.bf16' has no launch_seconds",
        ),
        (
            "latency = 1e-6\n",
            'latency = 1e-6\ncollectives = { broadcast = { step_seconds = 1e-6 } }\n',
            "'mine.links.collectives' has no field 'broadcast'",
        ),
        ("bf16 = 4e12", "half = 4e12", "mine.toml:9:1: 'half' is not an element type"),
        (
            "[mine.vector]\nf32 = 1e11",
            "[mine.vector]\nf64 = 1e11",
            "mine.toml:11:1: the vector rates of 'mine' should have one for f32",
        ),
        ('vector = "me"\n', "", "vector.f32 of 'mine' has no source"),
        ('topology = "switch"', 'topology = "star"', "mine.toml:24:1: no topology is called 'star'"),
        ('bandwidth = "me", latency', "latency", "bandwidth of the link 'near' has no source"),
        ("latency = 1e-6\n", "", "a link of 'mine' has no latency"),
        ("[mine]", "[mine", "mine.toml: this is not TOML"),
        ("[mine]\n", "mine = 3\n[other]\n", "mine.toml:1:1: 'mine' should be a table"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(old: str, new: str, message: str):
    assert old in MINE
    text = MINE.replace(old, new, 1)
    if new.startswith("mine = 3"):
        text = "mine = 3\n"
    with pytest.raises(HloomError) as raised:
        check_devices(text, "mine.toml")
    assert message in str(raised.value)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(HloomError, match=r"cannot read .*nowhere\.toml: no such file"):
        device("h100", "nowhere.toml")


def test_a_link_may_have_the_field_that_technology_was_called(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace("technology = ", "kind = "))
    assert device("mine", path).links[0].technology == "PCIe"
