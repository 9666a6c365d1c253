"""What figures leave out or assume where dimensions have no size is said beside them, by every report that has figures."""

import pytest

import hloom
from hloom.analysis import size_note
from hloom.formats.hlo import parse
from hloom.inspection.why_oom import why_oom
from hloom.targets.memory import memory

STATIC, UNBOUNDED, BOUNDED = (
    parse(f"""
HloModule m

ENTRY e {{
  x = f32[{size},8] parameter(0)
  w = f32[8,16] parameter(1)
  y = f32[{size},16] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT z = f32[{size},16] tanh(y)
}}
""")
    for size in ("100", "?", "<=100")
)


def test_which_sizes_are_not_known():
    assert not size_note(STATIC)
    assert str(size_note(UNBOUNDED)) == (
        "without the sizes of 3 instructions that have a dimension without a bound, such as x: f32[?,8]"
    )
    assert str(size_note(BOUNDED)) == (
        "3 instructions of dynamic sizes count at their bounds, such as x: f32[<=100,8]"
    )
    assert [size_note(module).qualifier for module in (STATIC, UNBOUNDED, BOUNDED)] == ["", "at least ", "at most "]


def test_a_program_of_both_is_neither_at_least_nor_at_most():
    module = parse("ENTRY e { x = f32[?] parameter(0) y = f32[<=4] parameter(1) ROOT t = (f32[?], f32[<=4]) tuple(x, y) }")
    assert size_note(module).qualifier == "roughly "
    assert size_note(module).unbounded_count == 2  # the parameter and the tuple


def test_computations_that_are_called_count_too():
    module = parse("""
double { p = f32[?] parameter(0) ROOT d = f32[?] add(p, p) }
ENTRY e { x = f32[4] parameter(0) c = f32[?] custom-call(x), custom_call_target="t" ROOT y = f32[?] call(c), to_apply=double }
""")
    assert size_note(module).unbounded_count == 4


@pytest.mark.parametrize(
    "report",
    [hloom.cost, lambda module: hloom.roofline(module, "h100"), memory, hloom.inspect, why_oom],
    ids=["cost", "roofline", "memory", "inspect", "why_oom"],
)
def test_reports_say_it_in_their_line_and_in_json(report):
    lines = {name: repr(report(module)) for name, module in (("", STATIC), ("?", UNBOUNDED), ("<=", BOUNDED))}
    assert "at least" not in lines[""] and "at most" not in lines[""] and "bound, such as" not in lines[""]
    assert "at least " in lines["?"] and "such as x: f32[?,8]" in lines["?"] and "\n" not in lines["?"]
    assert "at most " in lines["<="] and "such as x: f32[<=100,8]" in lines["<="] and "\n" not in lines["<="]
    assert report(UNBOUNDED).to_json()["sizes"]["unbounded_count"] == 3
    assert report(STATIC).to_json()["sizes"]["unbounded_count"] == 0
