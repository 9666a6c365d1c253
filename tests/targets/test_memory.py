"""Which schedule a report is of, and what its values are named after."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import hloom
from hloom.analysis import TARGET
from hloom.formats.hlo import to_text
from hloom.ir import Module, Node
from hloom.targets.cpu import simulate_buffers
from hloom.targets.memory import SCHEDULES, memory, peak_of

DOTS = """HloModule m
ENTRY e { x = bf16[64,64] parameter(0)
  a = bf16[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = bf16[64,64] tanh(a)
  ROOT c = bf16[64,64] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""

SPLIT = """HloModule m
ENTRY e { x = f32[256,512] parameter(0)
  w = f32[512,1024] parameter(1)
  ROOT y = f32[256,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
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


@pytest.mark.parametrize(
    ("target", "schedule", "temporaries"), [("cpu", "cpu", 0), ("a100x8", "gpu", 0), ("h100", "gpu", 4 << 20)]
)
def test_a_program_is_modelled_as_its_targets_compiler_would_compile_it(target: str, schedule: str, temporaries: int):
    report = memory(hloom.parse(SPLIT), target=target)
    assert (report.schedule, report.temporaries) == (schedule, temporaries)


def test_what_a_module_is_for_is_kept_with_it():
    module = hloom.parse(SPLIT)
    module.attachments[TARGET] = "h100"
    assert memory(module).schedule == "gpu"
    assert memory(module, target="cpu").schedule == "cpu"
    assert memory(module, schedule="list").schedule == "list"


def test_a_program_that_calls_a_gpus_library_is_for_a_gpu():
    call = 'custom-call(x), custom_call_target="__cublas$gemm"'
    module = hloom.parse(f"HloModule m\nENTRY e {{ x = f32[8] parameter(0)\n ROOT y = f32[8] {call} }}")
    assert memory(module).schedule == "gpu"


def test_a_tpus_memory_is_known_once_it_is_compiled():
    module = hloom.parse(SPLIT)
    report = memory(module, target="v6e")
    assert "before optimisation a TPU's memory is not known" in report.note
    assert report.peak == memory(module).peak, "tiles are not made up"
    assert not memory(module, target="h100").note


def test_a_target_tells_generations_apart_where_the_text_does_not():
    text = """HloModule m, is_scheduled=true
ENTRY e { x = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT t = (f32[8,128]{1,0:T(8,128)}) tuple(x) }"""
    tables = {target: memory(hloom.parse(text), target=target).outputs - 4096 for target in ("v5e", "v6e")}
    assert tables == {"v5e": 512, "v6e": 32} and memory(hloom.parse(text)).target == "tpu v5e"


def test_an_unknown_target_is_named():
    with pytest.raises(hloom.HloomError, match="there is no target 'h900'"):
        memory(hloom.parse(SPLIT), target="h900")


FILE = sys.modules["hloom.targets.memory"]
GIVEN_AWAY = "HloModule m\nENTRY e { x = f32[1024] parameter(0)\n ROOT y = f32[1024] exponential(x) }"


def test_a_peak_alone_is_the_same_and_simulated_once(monkeypatch: pytest.MonkeyPatch):
    simulated: list[Module] = []

    def counted(module: Module, *arguments: Any, **options: Any) -> Any:
        simulated.append(module)
        return simulate_buffers(module, *arguments, **options)

    monkeypatch.setattr(FILE, "simulate_buffers", counted)
    module = hloom.parse(GIVEN_AWAY)
    peak = memory(module).peak
    assert len(simulated) == 2, "as it is, and with inputs given away"
    assert (peak_of(module), len(simulated)) == (peak, 3)
    scheduled = hloom.parse(GIVEN_AWAY.replace("HloModule m", "HloModule m, is_scheduled=true"))
    assert (peak_of(scheduled), len(simulated)) == (memory(scheduled).peak, 3)


def test_names_are_found_in_time_that_grows_with_the_program(monkeypatch: pytest.MonkeyPatch):
    calls: list[Node] = []
    monkeypatch.setattr(FILE, "_stem", lambda node: calls.append(node) or node.name)
    counts = []
    for length in (50, 100):
        lines = [f"  a{n} = f32[64] tanh(a{n - 1})" for n in range(1, length)]
        text = "\n".join(
            ["ENTRY e {", "  a0 = f32[64] parameter(0)", *lines, f"  ROOT r = f32[64] negate(a{length - 1})", "}"]
        )
        calls.clear()
        memory(hloom.parse(text))
        counts.append(len(calls))
    assert counts[1] < 2.5 * counts[0]
