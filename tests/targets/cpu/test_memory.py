"""Which schedule a report is of, and what its values are named after."""

from __future__ import annotations

import pytest

import hloom
from hloom.formats.hlo import to_text
from hloom.targets.cpu import SCHEDULES, memory

DOTS = """HloModule m
ENTRY e { x = bf16[64,64] parameter(0)
  a = bf16[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = bf16[64,64] tanh(a)
  ROOT c = bf16[64,64] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""


def test_a_program_that_is_not_scheduled_is_compiled():
    module = hloom.parse(DOTS)
    text = to_text(module)
    report = memory(module)
    assert report.schedule == "cpu" and to_text(module) == text
    assert {buffer.name for buffer in report.at_peak} <= {"x", "a", "b", "c"}, "conversions are named after operands"
    assert report.peak == hloom.memory(module).peak


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_can_be_asked_for(schedule: str):
    assert memory(hloom.parse(DOTS), schedule=schedule).schedule == schedule


def test_a_fragment_runs_in_the_list_schedule():
    module = hloom.parse("HloModule m\nENTRY e { x = f32[8] parameter(0)\n ROOT y = f32[8] add(x, gone) }")
    assert memory(module).schedule == "list"


def test_inputs_that_could_be_given_away_are_found():
    module = hloom.parse("HloModule m\nENTRY e { x = f32[1024] parameter(0)\n ROOT y = f32[1024] exponential(x) }")
    assert memory(module).donatable_bytes == 4096
