"""Conditions on what the framework said, on slice bounds, on users and sizes, before and after (`origins.py`)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import hloom
from hloom.rewrite import Rule, RuleError, rule, rule_from_json, to_json
from hloom.testing import check_rule

LAYERS = """HloomModule step

ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] negate(x), metadata={op_name="jit(f)/layer_1/attention/neg" source_file="model.py" source_line=3}
  b = f32[4] negate(a), metadata={op_name="jit(f)/layer_1/mlp/neg" source_file="mlp.py" source_line=9}
  c = f32[4] negate(b)
  ROOT d = f32[4] add(c, x), metadata={op_name="jit(f)/layer_12/attention/add"}
}""".replace("HloomModule", "HloModule")


def absolute_where(**metadata: str) -> Rule:
    def negation_becomes_absolute(p: Any) -> None:
        """negate(x) -> abs(x)"""
        x = p.value("x")
        with_metadata = p.op("negate", x, shared=True, **metadata)
        with p.rewrite() as r:
            r.replace({with_metadata: r.op("abs", x)})

    return rule(negation_becomes_absolute)


def changed(item: Rule, text: str = LAYERS) -> list[str]:
    module, _ = hloom.opt(hloom.parse(text), [item])
    return [node.opcode for node in module.entry.nodes if node.opcode != "parameter"]


@pytest.mark.parametrize(
    ("metadata", "after"),
    [
        ({"scope": "attention"}, ["abs", "negate", "negate", "add"]),
        ({"scope": "layer_[0-9]/(mlp|moe)/"}, ["negate", "abs", "negate", "add"]),
        ({"scope": "^jit"}, ["abs", "abs", "negate", "add"]),
        ({"source_file": r"^mlp\\.py$"}, ["negate", "negate", "negate", "add"]),
        ({"source_file": r"^mlp\.py$"}, ["negate", "abs", "negate", "add"]),
        ({"scope": "attention", "source_file": "mlp"}, ["negate", "negate", "negate", "add"]),
        ({"scope": "^$"}, ["negate", "negate", "abs", "add"]),
    ],
)
def test_where_the_framework_says_so(metadata: dict[str, str], after: list[str]):
    assert changed(absolute_where(**metadata)) == after


def test_lines_users_and_sizes():
    @rule
    def early_and_used_once(p: Any) -> None:
        """negate(x) -> abs(x)"""
        x = p.value("x")
        negated = p.op("negate", x)
        p.where(negated.source_line > 0, negated.source_line < 5, negated.user_count == 1, x.byte_count == 16)
        with p.rewrite() as r:
            r.replace({negated: r.op("abs", x)})

    assert changed(early_and_used_once) == ["abs", "negate", "negate", "add"]
    assert changed(early_and_used_once, LAYERS.replace("f32[4]", "f32[8]")) == ["negate", "negate", "negate", "add"]


def test_stack_frames_say_the_file_too():
    tables = 'FileNames\n1 "layers.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n'
    tables += "1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}\n\n"
    tables += "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n"
    entry = "ENTRY main {\n x = f32[4] parameter(0)\n ROOT n = f32[4] negate(x), metadata={stack_frame_id=1}\n}"
    assert changed(absolute_where(source_file="layers"), f"HloModule step\n\n{tables}{entry}") == ["abs"]


@rule
def slices_side_by_side(p: Any) -> None:
    """concatenate(slice(x)[a:b], slice(x)[b:c]) -> slice(x)[a:c] where that is all of x"""
    x = p.value("x", rank=1)
    left, right = p.op("slice", x, slice=hloom.ANY), p.op("slice", x, slice=hloom.ANY)
    joined = p.op("concatenate", left, right, dimensions=(0,))
    p.where(left.slice_starts == (0,), left.slice_limits == right.slice_starts, right.slice_limits == x.shape)
    p.where(left.slice_strides == (1,), right.slice_strides == (1,))
    with p.rewrite() as r:
        r.replace({joined: x})


@pytest.mark.parametrize(("limit", "start", "stride", "is_all"), [(3, 3, 1, True), (3, 2, 1, False), (5, 5, 2, False)])
def test_slice_bounds(limit: int, start: int, stride: int, is_all: bool):
    sizes = limit, -(-(8 - start) // stride)
    text = f"""ENTRY e {{
      x = f32[8] parameter(0)
      a = f32[{sizes[0]}] slice(x), slice={{[0:{limit}]}}
      b = f32[{sizes[1]}] slice(x), slice={{[{start}:8:{stride}]}}
      ROOT c = f32[{sum(sizes)}] concatenate(a, b), dimensions={{0}}
    }}"""
    assert (not changed(slices_side_by_side, text)) is is_all


@rule
def negations_at_both_ends(p: Any) -> None:
    """concatenate(negate(x), rest..., negate(y)) -> concatenate(abs(x), rest..., abs(y))"""
    x, rest, y = p.value("x"), p.values("rest"), p.value("y")
    joined = p.op("concatenate", p.op("negate", x), rest, p.op("negate", y), dimensions=(0,))
    with p.rewrite() as r:
        r.replace({joined: r.op("concatenate", r.op("abs", x), rest, r.op("abs", y), dimensions=(0,))})


@pytest.mark.parametrize("between", [0, 1, 3])
def test_any_number_of_operands_between_others(between: int):
    names = ", ".join(["a", *["x"] * between, "b"])
    text = f"""ENTRY e {{
      x = f32[2] parameter(0)
      a = f32[2] negate(x)
      b = f32[2] negate(x)
      ROOT c = f32[{2 * between + 4}] concatenate({names}), dimensions={{0}}
    }}"""
    module, report = hloom.opt(hloom.parse(text), [negations_at_both_ends])
    root = module.entry.root
    assert report.changed and [node.opcode for node in root.operands] == ["abs", *["parameter"] * between, "abs"]
    assert not hloom.opt(
        hloom.parse(text.replace("b = f32[2] negate", "b = f32[2] exponential")), [negations_at_both_ends]
    )[1].changed


def test_the_last_operand_leads_to_others():
    """Two concatenates that share only what comes after a variable number of operands."""

    @rule
    def last_becomes_first(p: Any) -> None:
        """concatenate(x..., z), concatenate(y..., z) -> concatenate(z, x...), concatenate(z, y...)"""
        x, y, z = p.values("x"), p.values("y"), p.value("z")
        first = p.op("concatenate", x, z, dimensions=(0,))
        second = p.op("concatenate", y, z, dimensions=(0,))
        with p.rewrite() as r:
            front, back = r.op("concatenate", z, x, dimensions=(0,)), r.op("concatenate", z, y, dimensions=(0,))
            r.replace({first: front, second: back})

    text = """ENTRY e {
      x = f32[1] parameter(0)
      y = f32[1] parameter(1)
      z = f32[1] parameter(2)
      a = f32[3] concatenate(x, x, z), dimensions={0}
      b = f32[3] concatenate(y, y, z), dimensions={0}
      ROOT c = f32[3] subtract(a, b)
    }"""
    module, _ = hloom.opt(hloom.parse(text), [last_becomes_first])
    assert ["".join(value.name for value in node.operands) for node in module.entry.root.operands] == ["zxx", "zyy"]
    apart, _ = hloom.opt(hloom.parse(text.replace("(y, y, z)", "(y, z, y)")), [last_becomes_first])
    assert [value.name for value in apart.entry.root.operands[0].operands] == ["x", "x", "z"]


def test_where_two_variable_numbers_meet_nothing_ends_the_first():
    with pytest.raises(RuleError, match="any number of operands"):

        @rule
        def two_rests(p: Any) -> None:
            """never"""
            p.op("concatenate", p.values("x"), p.values("y"), dimensions=(0,))


@pytest.mark.parametrize("pattern", ["(", "a**", "[z-a]", "x" * 501, r"\1"])
def test_what_is_no_regular_expression_is_said_at_once(pattern: str):
    with pytest.raises(RuleError, match="is not a regular expression"):
        absolute_where(scope=pattern)


def test_they_are_saved_and_loaded():
    item = absolute_where(scope="attention")
    loaded = rule_from_json(json.loads(json.dumps(to_json(item))))
    assert changed(loaded) == ["abs", "negate", "negate", "add"]
    data = json.loads(json.dumps(to_json(item)).replace('"attention"', '"(attention"'))
    with pytest.raises(RuleError, match="is not a regular expression"):
        rule_from_json(data)


def test_a_hostile_pattern_of_a_saved_rule_ends():
    text = LAYERS.replace("layer_1/attention", "a" * 20_000)
    started = time.process_time()
    changed(absolute_where(scope="(a*)*(a|aa)*b"), text)
    assert time.process_time() - started < 20


def test_numbers_are_checked_whatever_the_metadata():
    @rule
    def difference(p: Any) -> None:
        """negate(subtract(x, y)) -> subtract(y, x), in attention"""
        x, y = p.value("x", dtype="f32"), p.value("y", dtype="f32")
        negated = p.op("negate", p.op("subtract", x, y), scope="attention")
        p.equivalence(reason="the sign of zero differs", finite=True)
        with p.rewrite() as r:
            r.replace({negated: r.op("subtract", y, x)})

    assert check_rule(difference, firings=3).firings == 3
