"""The text of a buffer assignment, summed by memory space."""

from __future__ import annotations

from hloom.targets.compiler import spaces_in
from tests.targets.compiler.fake_compiler import ASSIGNMENT


def test_spaces_are_apart():
    hbm, vmem = spaces_in(ASSIGNMENT, "tpu")
    assert (hbm.name, hbm.arguments, hbm.outputs, hbm.temporaries) == ("HBM", 4096, 4096, 96)
    assert (hbm.thread_local, hbm.constants, hbm.total) == (512, 4096, 12896)
    assert (vmem.space, vmem.name, vmem.temporaries) == (1, "VMEM", 8192)


def test_spaces_have_the_names_of_their_platform():
    assert [space.name for space in spaces_in(ASSIGNMENT, "cuda")] == ["device", "collective"]
    assert [space.name for space in spaces_in(ASSIGNMENT, "cpu")] == ["memory", "S(1)"]


def test_other_text_has_no_spaces():
    assert spaces_in("allocation\nallocation x: size y\n", "tpu") == ()
