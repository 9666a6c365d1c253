"""The device that a trace was made on: by the titles and figures that profilers write, and never by a guess.

Covers `trace_device.py`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import hloom
from hloom.analysis import Device, device
from hloom.inspection.profile import Measurement, measurement
from hloom.text import HloomError
from tests.inspection.profile.traces import MODULE, RUNS, TraceWriter, written

TITLES = {
    "NVIDIA A100-SXM4-40GB": "a100-40", "NVIDIA A100-SXM4-80GB": "a100-80", "A100-SXM-80GB": "a100-80",
    "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H100": "h100", "NVIDIA H200": "h200", "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "AMD Instinct MI300X": "mi300x",
    "TPU v4": "tpu-v4", "TPU v5 lite": "tpu-v5e", "TPU v5 Lite": "tpu-v5e", "TPU v5e": "tpu-v5e", "TPU v5": "tpu-v5p",
    "TPU v5p": "tpu-v5p", "TPU v6 lite": "tpu-v6e", "TPU v6 Lite": "tpu-v6e", "TPU v6e": "tpu-v6e",
}  # fmt: skip
"""Titles by CUDA, ROCm and libtpu, and the device whose rates are those of it."""
UNKNOWN = (
    *("NVIDIA A10", "NVIDIA A10G", "NVIDIA A30", "NVIDIA A40", "NVIDIA A800-SXM4-80GB", "NVIDIA A100-PCIE-40GB"),
    *("NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA H100 PCIe", "NVIDIA H100 NVL"),
    *("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA H800", "NVIDIA H20", "NVIDIA H200 NVL", "NVIDIA GH200 480GB"),
    *("NVIDIA B300 SXM6 AC", "NVIDIA GB300", "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"),
    *("Tesla P100-PCIE-16GB", "Tesla T4", "NVIDIA L4", "NVIDIA L40S", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 4090"),
    *("AMD Instinct MI300A", "AMD Instinct MI250X", "AMD Instinct MI325X", "gfx942", "Graphics Device", "unknown"),
    *("TPU v2", "TPU v3", "TPU v4 lite", "TPU7x", "TPU v7x", "TPU", "NVIDIA A100", "\x1b[31mH\x00"),
)
HARDWARE = {
    ("Nvidia", 8, 0, 108, 42_505_273_344): "a100-40", ("Nvidia", 8, 0, 108, 84_987_740_160): "a100-80",
    ("Nvidia", 9, 0, 132, 85_045_936_128): "h100", ("Nvidia", 9, 0, 132, 150_754_820_096): "h200",
    ("Nvidia", 10, 0, 148, 191_503_499_264): "b200", ("AMD", 9, 4, 304, 206_141_652_992): "mi300x",
    ("Nvidia", 9, 0, 114, 85_045_936_128): None, ("Nvidia", 9, 0, 132, 100_000_000_000): None,
    ("Nvidia", 9, 0, 16, 10_468_982_784): None, ("Nvidia", 7, 0, 80, 16_935_682_048): None,
    ("Nvidia", 7, 5, 40, 15_835_660_288): None, ("Nvidia", 8, 0, 56, 25_000_000_000): None,
    ("AMD", 9, 0, 104, 68_702_699_520): None, ("", 9, 0, 132, 85_045_936_128): None, ("Nvidia", 0, 0, 0, 0): None,
}  # fmt: skip
"""What XLA's own traces of GPUs say instead of a title, and the device of these rates: not PCIe, NVL, MIG, V100, T4, A30."""


def of_device(folder: Path, stats: dict[str, str | int], plane: str = "/device:GPU:0") -> Path:
    writer = TraceWriter()
    writer.gpu(RUNS)
    written_plane = writer.space.planes[0]
    written_plane.name = plane
    for name, value in stats.items():
        writer.stat(written_plane, written_plane, name, value)
    writer.program(MODULE, folder)
    return writer.write(folder / "trace")


def titled(folder: Path, title: str, stat: str = "device_type_string") -> Path:
    return of_device(folder, {stat: title}, "/device:TPU:0" if title.startswith("TPU") else "/device:GPU:3")


def described(vendor: str, major: int, minor: int, cores: int, memory: int) -> dict[str, str | int]:
    figures = {"compute_cap_major": major, "compute_cap_minor": minor, "core_count": cores, "memory_size": memory}
    return {"clock_rate": 1_980_000, "device_vendor": vendor, **figures}


def measured(folder: Path, given: Device | str | None = None) -> Measurement:
    return measurement(hloom.parse(MODULE), folder, device(given) if isinstance(given, str) else given)


@pytest.mark.parametrize("title", TITLES)
def test_the_device_comes_from_the_trace(tmp_path: Path, title: str):
    report = measured(titled(tmp_path, title))
    assert report.device.name == TITLES[title] and not report.notes


@pytest.mark.parametrize("title", UNKNOWN)
def test_what_is_not_known_by_its_title_is_refused(tmp_path: Path, title: str):
    with pytest.raises(HloomError, match="whose rates are not known"):
        measured(titled(tmp_path, title))


def test_another_statistic_has_the_title_too(tmp_path: Path):
    assert measured(titled(tmp_path, "NVIDIA H100 80GB HBM3", "gpu_device_name")).device.name == "h100"


@pytest.mark.parametrize("figures", HARDWARE, ids=str)
def test_gpus_are_known_by_their_figures(tmp_path: Path, figures: tuple[str, int, int, int, int]):
    folder = of_device(tmp_path, described(*figures))
    name = HARDWARE[figures]
    if name is not None:
        assert measured(folder).device.name == name
        return
    with pytest.raises(HloomError, match="whose rates are not known"):
        measured(folder)


@pytest.mark.parametrize(
    ("stats", "name", "message"),
    [
        ({}, None, "a trace of a device of the gpu backend, whose rates are not known"),
        ({"device_type_string": "NVIDIA H100 80GB HBM3"}, "cpu", "is a trace of a GPU, and .* is a CPU: their times"),
        ({"device_type_string": "NVIDIA H100 80GB HBM3"}, "tpu-v5e", "is a trace of a GPU, and .* is a TPU"),
        ({"device_type_string": "NVIDIA H100 80GB HBM3"}, "a100-80", "HBM3, not of NVIDIA A100"),
        ({"device_type_string": "Tesla T4"}, "h100", "a trace of Tesla T4, not of NVIDIA H100"),
        ({"device_type_string": "NVIDIA H100 PCIe"}, "a100-80", "a trace of NVIDIA H100 PCIe, not of NVIDIA A100"),
        (described("Nvidia", 9, 0, 132, 85_045_936_128), "a100-80", "not of NVIDIA A100"),
        (described("Nvidia", 7, 5, 40, 15_835_660_288), "h100", "Nvidia GPU of compute capability 7.5, 40 cores"),
        (described("AMD", 9, 4, 304, 206_141_652_992), "h100", "not of NVIDIA H100"),
    ],
)
def test_another_device_than_the_trace_s_is_refused(
    tmp_path: Path, stats: dict[str, str | int], name: str | None, message: str
):
    with pytest.raises(HloomError, match=message):
        measured(of_device(tmp_path, stats), name)


def test_a_relative_of_the_named_device_is_said(tmp_path: Path):
    """An H100 on PCIe beside the rates of the SXM5 module: the user's wish, and a note."""
    report = measured(titled(tmp_path, "NVIDIA H100 PCIe"), "h100")
    assert report.notes == ("this is a trace of NVIDIA H100 PCIe, beside the rates of NVIDIA H100 SXM5, 80 GB",)


def test_a_user_s_own_device_is_taken(tmp_path: Path):
    own = replace(device("h100"), name="lab-gpu2", title="ours")
    assert measured(titled(tmp_path, "Tesla T4"), own).device == own


def test_devices_that_differ_are_refused(tmp_path: Path):
    writer = TraceWriter()
    for number, title in enumerate(("NVIDIA H100 80GB HBM3", "NVIDIA H200")):
        writer.gpu(RUNS)
        plane = writer.space.planes[number]
        plane.name = f"/device:GPU:{number}"
        writer.stat(plane, plane, "device_type_string", title)
    writer.program(MODULE, tmp_path)
    with pytest.raises(HloomError, match="a trace of NVIDIA H100 80GB HBM3 and NVIDIA H200, whose rates are not known"):
        measured(writer.write(tmp_path / "trace"))


def test_a_program_that_the_host_runs_beside_says_nothing(tmp_path: Path):
    writer = TraceWriter()
    writer.gpu(RUNS)
    writer.stat(writer.space.planes[0], writer.space.planes[0], "device_type_string", "NVIDIA H200")
    writer.cpu([("add.1", 1, 0, 1)], module="jit_other", number=9)
    writer.program(MODULE, tmp_path)
    assert measured(writer.write(tmp_path / "trace")).device.name == "h200"


def test_a_trace_of_a_cpu_is_not_compared_with_a_gpu(tmp_path: Path):
    assert measured(written(tmp_path)).device.name == "cpu"
    with pytest.raises(HloomError, match="is a trace of a CPU, and NVIDIA H100 SXM5, 80 GB is a GPU"):
        measured(written(tmp_path), "h100")
