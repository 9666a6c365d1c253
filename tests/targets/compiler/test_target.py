"""Names of targets, and what exists where a name is wrong."""

from __future__ import annotations

import math
import re

import pytest

from hloom.analysis import device, devices
from hloom.targets.compiler import GPUS, RATES, TPUS, parse_sized_target, parse_target, rates_for, slices
from hloom.text import HloomError


@pytest.mark.parametrize(
    ("name", "devices", "canonical", "count"),
    [
        ("v5e:4x4", 1, "v5e:4x4", 16),
        ("V5P:2x2x2 ", 1, "v5p:2x2x2", 8),
        ("v4:2x2x1", 1, "v4:2x2x1", 4),
        ("v7x:2x2x1", 1, "v7x:2x2x1", 8),
        ("v6e", 1, "v6e:1x1", 1),
        ("v6e", 16, "v6e:4x4", 16),
        ("v5p", 64, "v5p:4x4x4", 64),
        ("v3", 1, "v3:1x1", 2),
        ("h100x8", 1, "h100x8", 8),
        ("h100", 4, "h100x4", 4),
        ("b200x72", 1, "b200x72", 72),
        ("a100", 1, "a100", 1),
        ("cpu", 1, "cpu", 1),
        ("cpux4", 1, "cpux4", 4),
    ],
)
def test_a_name_has_devices(name: str, devices: int, canonical: str, count: int):
    target = parse_target(name, devices)
    assert (target.name, target.devices) == (canonical, count)
    assert parse_target(target.name) == target


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v9", "there is no target 'v9'; known are v2, v3, v4, v5e"),
        ("", "there is no target ''"),
        ("v5e\x1b[31m", r"there is no target 'v5e\\033\[31m'"),
        ("h100:2x2", "'h100:2x2' is not a number of h100 devices"),
        ("v5e:3x3", "'v5e:3x3' is not a slice of TPU v5e\n  slices: 1x1, 2x2, 2x4, 4x4"),
        ("v5e:2x2x2", "is not a slice of TPU v5e"),
        ("v5p:2x2", "is not a slice of TPU v5p\n  slices: 1x1x1, 2x2x1, .* and multiples of 4 up to 16x20x28"),
        ("v5p:4x4x32", "is not a slice"),
        ("v5e:99999x99999", "is not a slice"),
        ("h100x0", "'h100x0' is not a number of h100 devices"),
        ("h100x99999", "from 1 to 4,096"),
        ("h100x12", "12 GPUs are no whole hosts"),
        ("cpux1000", "from 1 to 256"),
    ],
)
def test_an_unknown_name_says_what_exists(name: str, message: str):
    with pytest.raises(HloomError, match=message):
        parse_target(name)


def test_no_slice_has_the_devices_of_a_program():
    with pytest.raises(HloomError, match="no slice of TPU v5e has 6 devices"):
        parse_target("v5e", 6)
    with pytest.raises(HloomError, match="the program asks for 5,000 devices, and 4,096 of h100 are the most"):
        parse_target("h100", 5000)


@pytest.mark.parametrize("generation", TPUS)
def test_slices_are_within_the_largest(generation: str):
    largest = math.prod(TPUS[generation].largest)
    sizes = [math.prod(map(int, name.split("x"))) for name in slices(generation)]
    assert max(sizes) == largest
    assert len(set(slices(generation))) == len(sizes)


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_has_its_specification(name: str):
    target = parse_target(f"{name}x16")
    assert target.topology["topology"] == "1x2x8"
    assert re.search(r"cuda_compute_capability", target.topology["target_config"])
    assert target.memory is not None
    assert target.memory > 79e9


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("v5e:2x4", {"y": 4, "x": 2}),  # libtpu numbers devices along x first
        ("v5p:2x2x1", {"y": 2, "x": 2}),
        ("v5p:2x2x4", {"z": 4, "y": 2, "x": 2}),
        ("v7x:2x2x1", {"y": 2, "x": 2, "core": 2}),
        ("v6e:1x1", {"x": 1}),
        ("h100x8", {"gpu": 8}),
        ("h100x16", {"host": 2, "gpu": 8}),
        ("a100", {"x": 1}),
        ("cpux4", {"cpu": 4}),
    ],
)
def test_the_mesh_of_a_targets_links(name: str, axes: dict[str, int]):
    target = parse_target(name)
    assert list(target.axes.items()) == [*axes.items()]
    assert math.prod(target.axes.values()) == target.devices


def test_a_target_for_a_program_that_will_be_split():
    assert parse_sized_target("v5e:2x2", None).devices == parse_sized_target("v5e", 4).devices == 4
    with pytest.raises(HloomError, match="v5e alone does not say how many devices there are"):
        parse_sized_target("v5e", None)
    with pytest.raises(HloomError, match="v5e:2x2 has 4 devices, and 8 are asked for"):
        parse_sized_target("v5e:2x2", 8)
    with pytest.raises(HloomError, match="no slice of TPU v5e has 6 devices"):
        parse_sized_target("v5e", 6)


def test_the_rates_of_a_target():
    assert set(RATES.values()) <= set(devices())
    assert set(RATES) <= {*TPUS, *GPUS, "cpu"}
    a100 = parse_target("a100")
    own = rates_for(a100, None)
    assert own is not None and own.name == "a100-80"
    assert rates_for(a100, device("a100-40")) == device("a100-40")
    assert rates_for(parse_target("v7x"), None) is None
    for other in ("tpu-v5e", "h100", "cpu"):
        with pytest.raises(HloomError, match=f"{other} is no device of a100"):
            rates_for(a100, device(other))
