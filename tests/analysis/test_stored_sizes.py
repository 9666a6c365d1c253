"""What values take in a device's memory: whole tiles, pointer tables, each memory space by itself.

Covers `stored_sizes.py`.
"""

from __future__ import annotations

import pytest

import hloom
from hloom.analysis import liveness, stored_bytes
from hloom.inspection.why_oom import why_oom
from hloom.targets.memory import memory

SCHEDULED = "HloModule m, is_scheduled=true\n"
OFFLOADED = f"""{SCHEDULED}
ENTRY main {{
  x = f32[1024]{{0}} parameter(0)
  s = f32[1024]{{0}} sine(x)
  out = (f32[1024]{{0:S(5)}}, f32[1024]{{0}}, u32[]) copy-start(s)
  kept = f32[1024]{{0:S(5)}} copy-done(out)
  e = f32[1024]{{0}} exponential(x)
  back = (f32[1024]{{0}}, f32[1024]{{0:S(5)}}, u32[]) copy-start(kept)
  again = f32[1024]{{0}} copy-done(back)
  ROOT a = f32[1024]{{0}} add(e, again)
}}"""
"""A value waits in the host's memory while another is computed."""


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("f32[8,128]{1,0:T(8,128)}", 8 * 128),
        ("f32[9,129]{1,0:T(8,128)}", 16 * 256),
        ("f32[129,9]{0,1:T(8,128)}", 16 * 256),
        ("f32[100]{0:T(256)}", 256),
        ("bf16[3,100]{1,0:T(8,128)(2,1)}", 8 * 128),
        ("f32[2,3,4]{2,1,0}", 24),
        ("f32[]{:T(256)}", 256),
    ],
)
def test_arrays_take_whole_tiles(text: str, elements: int):
    root = hloom.parse(f"ENTRY e {{ ROOT x = {text} parameter(0) }}").entry.root
    assert stored_bytes(root.type) == elements * (2 if text.startswith("bf16") else 4)


def test_a_tuple_is_a_table_of_pointers():
    root = hloom.parse("ENTRY e { ROOT x = (s32[]{:T(128)}, bf16[9,9]{1,0:T(8,128)(2,1)}) parameter(0) }").entry.root
    assert stored_bytes(root.type) == 16


@pytest.mark.parametrize("layout", ["{2,1,0}", "{2,1,0:T(8,128)}"])
def test_memory_and_why_oom_give_one_peak(layout: str):
    module = hloom.parse(
        f"{SCHEDULED}ENTRY e {{ a = s32[64,8,4]{layout} parameter(0) ROOT n = s32[64,8,4]{layout} negate(a) }}"
    )
    stored = stored_bytes(module.entry.root.type)
    assert memory(module).peak == why_oom(module).peak == 2 * stored
    assert stored == 64 * 8 * (128 if "T" in layout else 4) * 4


def test_each_memory_space_has_a_peak_of_its_own():
    report = memory(hloom.parse(OFFLOADED))
    assert [(other.space, other.name, other.peak) for other in report.other_spaces] == [(5, "host memory", 4096)]
    tables = report.peak - 3 * 4096  # what starts and ends the copies
    assert 0 < tables < 200
    assert report.to_json()["other_spaces"][0]["peak"] == 4096


def test_an_argument_in_another_space_takes_none_of_the_device():
    module = hloom.parse(f"{SCHEDULED}ENTRY e {{ a = f32[64]{{0:S(5)}} parameter(0) ROOT n = f32[64]{{0}} copy(a) }}")
    assert (memory(module).arguments, memory(module).peak) == (0, 256)
    assert liveness(module, space=5).peak == 256
