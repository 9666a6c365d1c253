"""Numeric faults: which instruction they come from, on which values they show, and which differences are others.

Covers `localization.py`, `recorded_values.py`, `numeric_faults.py`, `numeric_predicates.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import parse, print_module
from hloom.inspection.minimize import FaultNotShown, Minimization, NumericPredicate, minimize
from hloom.inspection.minimize.cuts import keep_instructions
from hloom.inspection.minimize.localization import separate
from hloom.inspection.minimize.numeric_faults import fault_of, rounded
from hloom.inspection.minimize.recorded_values import given_inputs, recorded
from hloom.ir import Apply, Module, Node
from hloom.ops import OPS
from hloom.runtime import Inputs
from hloom.text import HloomError, Unsupported

f32 = partial(np.array, dtype=np.float32)


class Miscompiles(NumericPredicate):
    """A compiler that gives one opcode for another where a function of the instruction says so."""

    def __init__(self, is_wrong: Callable[[Node], bool], wrong: str, inputs: Inputs | None = None) -> None:
        super().__init__("it is miscompiled", 0, None, None, 60, inputs)
        self.is_wrong, self.wrong = is_wrong, wrong

    def sides(self, module: Module, inputs: Sequence[np.ndarray]) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
        changed = module.clone()
        changed.index_users()
        for node in list(changed.nodes()):
            if isinstance(node, Apply) and self.is_wrong(node):
                other = node.graph.add_apply(OPS[self.wrong], node.operands, node.type, node.attributes, before=node)
                node.graph.replace_uses(node, other)
        return evaluate(changed, inputs), evaluate(module, inputs)


def is_tanh(node: Node) -> bool:
    return node.opcode == "tanh"


def smallest(text: str, predicate: NumericPredicate) -> Minimization:
    result = minimize(parse(text), predicate)
    assert result.shows and result.is_finished, result
    assert result.inputs is not None
    return result


def chain(length: int) -> str:
    """Alternating cosines and products, a tanh in the middle, and a subtraction of what is nearly equal at the end."""
    lines = ["ENTRY e {", "v0 = f32[4,6] parameter(0)", "w = f32[6,6] parameter(1)"]
    for n in range(length):
        opcode = "tanh" if n == length // 2 else "cosine"
        dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        lines += [f"d{n} = f32[4,6] dot(v{n}, w), {dims}", f"v{n + 1} = f32[4,6] {opcode}(d{n})"]
    lines += [f"s = f32[4,6] sine(v{length})", f"ROOT r = f32[4,6] subtract(s, v{length - 1})", "}"]
    return "\n".join(lines)


def test_the_instruction_at_fault_is_told_in_few_steps():
    result = smallest(chain(200), Miscompiles(is_tanh, "sine"))
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "tanh"]
    assert result.instructions_before > 400 and result.steps < 15


def test_values_that_are_too_large_at_first(monkeypatch: pytest.MonkeyPatch):
    """They are recorded once the shapes are smaller."""
    monkeypatch.setattr("hloom.inspection.minimize.recorded_values.MOST_BYTES", 2000)
    result = smallest(chain(20), Miscompiles(is_tanh, "exponential"))
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "tanh"]
    assert result.steps < 15


def test_it_keeps_values_of_the_program():
    """A logarithm is wrong, of negative numbers alone: random inputs of the part that is left would do, zeros not."""
    text = """ENTRY e {
      x = f32[3,5] parameter(0)
      a = f32[3,5] cosine(x)
      b = f32[3,5] sine(a)
      c = f32[3,5] abs(b)
      l = f32[3,5] log(c)
      d = f32[3,5] exponential(l)
      ROOT r = f32[3,5] tanh(d)
    }"""

    result = smallest(text, Miscompiles(lambda node: node.opcode == "log", "sqrt"))
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "log"]
    assert result.inputs is not None and 0 <= result.inputs["c.value"].item() <= 1
    assert print_module(result.module).count("c.value") > 1


def test_values_that_random_inputs_do_not_have():
    text = """ENTRY e {
      x = f32[5] parameter(0)
      big = f32[] constant(1000)
      bigs = f32[5] broadcast(big), dimensions={}
      a = f32[5] abs(x)
      b = f32[5] add(a, bigs)
      c = f32[5] tan(b)
      d = f32[5] ceil(b)
      e = f32[5] sine(d)
      f = f32[5] add(c, e)
      ROOT r = f32[5] negate(f)
    }"""

    class OfLarge(Miscompiles):
        def sides(self, module: Module, inputs: Sequence[np.ndarray]):
            left, right = super().sides(module, inputs)
            return (
                (left, right)
                if any(array.max(initial=0) > 500 for array in inputs)
                or "big" in str([node.name for node in module.nodes()])
                else (right, right)
            )

    result = smallest(text, OfLarge(lambda node: node.opcode == "ceil", "floor"))
    assert result.needs_inputs and result.inputs is not None
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "ceil"]
    assert result.inputs["b.value"].item() > 1000


LOOP = """HloModule loop
cond { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9) ROOT c = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[4] get-tuple-element(s), index=1
  a = f32[4] sine(x)
  b = f32[4] add(a, x)
  t = f32[4] tanh(b)
  u = f32[4] cosine(t)
  v = f32[4] multiply(u, a)
  ROOT r = (s32[], f32[4]) tuple(next, v)
}
called { x = f32[4] parameter(0) ROOT y = f32[4] sine(x) }
ENTRY e {
  x = f32[4] parameter(0)
  k = f32[4] call(x), to_apply=called
  m = f32[4] cosine(k)
  zero = s32[] constant(0)
  init = (s32[], f32[4]) tuple(zero, m)
  loop = (s32[], f32[4]) while(init), condition=cond, body=body
  y = f32[4] get-tuple-element(loop), index=1
  z = f32[4] cosine(y)
  z2 = f32[4] sine(z)
  ROOT w = f32[4] add(z2, m)
}
"""


@pytest.mark.parametrize("wrong", ["tanh", "multiply"])
def test_a_loop_becomes_the_round_at_fault(wrong: str):
    other = {"tanh": "sine", "multiply": "add"}[wrong]
    result = smallest(LOOP, Miscompiles(lambda node: node.opcode == wrong, other))
    assert wrong in [node.opcode for node in result.module.nodes()] and result.instructions <= 3


def test_a_fault_that_takes_several_instructions():
    """Two neighbours are wrong together: no instruction alone is, a window of sixteen is."""

    def is_wrong(node: Node) -> bool:
        return node.opcode == "tanh" and node.operands[0].opcode == "dot"

    result = smallest(chain(60), Miscompiles(is_wrong, "sine"))
    assert [node.opcode for node in result.module.entry.nodes][-2:] == ["dot", "tanh"]
    assert result.instructions <= 4


def test_another_difference_is_not_the_fault():
    plain, small = f32([1, 2, 3]), f32([1, 2, 3.001])
    first = fault_of([plain], [plain + 1], None, None)
    assert first is not None and first.refusal(first) is None
    rounding = fault_of([plain], [small], None, None)
    assert rounding is not None and first.refusal(rounding) == "the error is 0.00033, where it was 0.25"
    nan = fault_of([plain], [f32([1, np.nan, 3])], None, None)
    assert nan is not None and first.refusal(nan) == "one side is not finite" and nan.error == np.inf
    both = fault_of([plain, f32([np.inf])], [plain + 1, f32([np.inf])], None, None)
    assert both is not None and first.refusal(both) == "numbers are not finite that were"
    assert nan.refusal(first) is None and fault_of([plain], [plain], None, None) is None
    assert fault_of([plain], [plain, plain], None, None) is not None


def test_rounding_is_not_the_fault():
    """A sum that cancels out differs by much of itself where terms are added in another order: rounding does that too."""
    text = """ENTRY e {
      x = f32[4,64] parameter(0)
      n = f32[4,64] negate(x)
      s = f32[4,128] concatenate(x, n), dimensions={1}
      a = f32[4,128] sine(s)
      z = f32[] constant(0)
      r = f32[4] reduce(a, z), dimensions={1}, to_apply=sum
      t = f32[4] slice(r), slice={[0:4]}
      c = f32[4,128] cosine(a)
      m = f32[4] reduce(c, z), dimensions={1}, to_apply=sum
      k = f32[4] tanh(m)
      ROOT y = f32[4] add(k, t)
    }"""
    text = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n" + text

    class OtherOrder(Miscompiles):
        def sides(self, module: Module, inputs: Sequence[np.ndarray]):
            changed = module.clone()
            changed.index_users()
            for node in list(changed.nodes()):
                if node.opcode == "reduce":
                    operand, zero = node.operands
                    turned = node.graph.add_apply(
                        OPS["reverse"], (operand,), operand.type, {"dimensions": (1,)}, before=node
                    )
                    node.graph.set_operands(node, [turned, zero])
            return super().sides(changed, inputs)[0], evaluate(module, inputs)

    result = smallest(text, OtherOrder(is_tanh, "sine"))
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "tanh"]
    only_rounding = OtherOrder(lambda node: False, "sine", inputs=None)
    only_rounding.rtol = only_rounding.atol = 0
    assert smallest(text, only_rounding).shows  # where nothing else differs, that is the fault
    array = f32([1, -2, 0])
    assert 0 < np.abs(rounded(array, np.random.default_rng(0)) - array).max() < 1e-6
    assert rounded(np.arange(3), np.random.default_rng(0)).tolist() == [0, 1, 2]


def test_windows_are_given_values():
    module = parse(
        "ENTRY e { x = f32[2] parameter(0) a = f32[2] sine(x) b = f32[2] cosine(a) ROOT c = f32[2] tanh(b) }"
    )
    separation = separate(module, 1, 0)
    assert separation is not None and separation.outputs == [0, 1, 2]
    inputs = [node.operands[0].name for node in separation.module.entry.root.operands]
    assert inputs == ["x", "a.value", "b.value"]
    assert separate(module, 8, 0) is None
    pairs = separate(module, 2, 1)
    assert pairs is not None and pairs.windows == [frozenset({"a"}), frozenset({"b", "c"})] and pairs.outputs == [0, 1]


def test_recorded_values_and_parts_of_them():
    module = parse("ENTRY e { x = f32[2,3] parameter(0) a = f32[2,3] negate(x) ROOT b = f32[2,3] abs(a) }")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    values = recorded(module, [x], lambda module, inputs: ())
    assert np.array_equal(values["a"][0], -x)
    cut = keep_instructions(module, {"b"})
    [(name, [array])] = (given_inputs(cut, {"a.value": values["a"]}.get, {}, 0) or {}).items()
    assert name == "a.value" and np.array_equal(array, -x)
    smaller = parse("ENTRY e { a.value = f32[1,2] parameter(0) ROOT b = f32[1,2] abs(a.value) }")
    [[array]] = (given_inputs(smaller, {"a.value": values["a"]}.get, {2: 1, 3: 2}, 0) or {}).values()
    assert array.tolist() == [[-4, -5]]
    other = parse("ENTRY e { a.value = f32[9] parameter(0) ROOT b = f32[9] abs(a.value) }")
    [[array]] = (given_inputs(other, {"a.value": values["a"]}.get, {}, 0) or {}).values()
    assert array.shape == (9,)
    token = parse("ENTRY e { t = f32[<=3] parameter(0) ROOT u = f32[<=3] abs(t) }")
    assert given_inputs(token, lambda name: None, {}, 0) is None


def test_inputs_may_be_given():
    module = "ENTRY e { x = f32[2] parameter(0) a = f32[2] sine(x) ROOT b = f32[2] tanh(a) }"
    with pytest.raises(FaultNotShown):
        minimize(parse(module), Miscompiles(is_tanh, "sine", inputs=[np.zeros(2, np.float32)]))
    result = smallest(module, Miscompiles(is_tanh, "sine", inputs={"x": f32([0, 1])}))
    assert result.instructions == 2
    with pytest.raises(HloomError, match="the program has no parameter 'y'"):
        minimize(parse(module), Miscompiles(is_tanh, "sine", inputs={"y": f32([0, 1])}))


def test_what_cannot_be_computed_shows_no_fault():
    class Refuses(Miscompiles):
        def sides(self, module: Module, inputs: Sequence[np.ndarray]):
            raise Unsupported("not this one")

    module = parse("ENTRY e { x = f32[2] parameter(0) ROOT b = f32[2] tanh(x) }")
    verdict = Refuses(is_tanh, "sine").check(module, "")
    assert not verdict.shows and not verdict.is_checked and verdict.reason == "not this one"
    with pytest.raises(HloomError):
        minimize(module, Refuses(is_tanh, "sine"))
