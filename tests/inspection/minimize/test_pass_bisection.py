"""Which pass brings a fault in: of pipelines of hloom's, and of XLA's; what passes that raise or break are.

Covers `pass_bisection.py`.
"""

from __future__ import annotations

import pytest

import hloom
from hloom.formats.hlo import parse
from hloom.inspection.minimize import (
    DiffersFromEvaluator,
    FaultNotShown,
    PassesChangeNumbers,
    bisect_passes,
    bisect_xla_passes,
    minimize,
    minimize_passes,
)
from hloom.inspection.minimize.predicates import FaultPredicate, FunctionPredicate, Verdict
from hloom.ir import DTYPES, Module, TensorType
from hloom.passes import fixpoint, rules_pass
from hloom.runtime import close
from hloom.text import HloomError

PROGRAM = """ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] add(x, y)
  n = f32[4] negate(a)
  e = f32[4] exponential(n)
  l = f32[4] tanh(e)
  i = f32[4] negate(l)
  j = f32[4] negate(i)
  ROOT s = f32[4] add(j, x)
}"""


@hloom.rule
def drop_negate(p):
    """exp(-x) -> exp(x)"""
    x = p.value("x")
    e = p.op("exponential", p.op("negate", x))
    with p.rewrite() as r:
        r.replace({e: r.op("exponential", x)})


@hloom.rule
def double_negation(p):
    """-(-x) -> x"""
    x = p.value("x")
    e = p.op("negate", p.op("negate", x))
    with p.rewrite() as r:
        r.replace({e: x})


def raise_of_tanh(module: Module) -> None:
    """Not all passes are whole."""
    if any(node.opcode == "tanh" for node in module.nodes()):
        raise KeyError("tanh")


def break_types(module: Module) -> None:
    """Give a wrong type."""
    for node in module.entry.nodes:
        if node.opcode == "tanh":
            node.graph.set_type(node, TensorType(DTYPES["f32"], (3,)))


def test_the_pass_and_its_rule():
    pipeline = ["cse", rules_pass("mine", [double_negation, drop_negate]), "dce"]
    fault, result = minimize_passes(parse(PROGRAM), pipeline)
    assert (fault.name, fault.number, fault.count, fault.rules) == ("mine", 2, 3, ("drop-negate",))
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "negate", "exponential"]
    assert str(fault).startswith("application 2 of 3, pass mine, rule drop-negate: output 0: f32[4]: ")
    assert fault.guilty.rules == (drop_negate,)


def test_the_parts_of_fixpoints_are_told_apart():
    inner = fixpoint("all", ["cse", rules_pass("mine", [double_negation, drop_negate]), "dce"])
    fault = bisect_passes(parse(PROGRAM), ["cse", "cse", inner])
    assert fault.name == "mine" and fault.number == 4 and fault.module.node_count == 9
    assert fault.count > 5  # the fixpoint goes round once more


def test_a_pass_that_raises():
    fault, result = minimize_passes(parse(PROGRAM), ["cse", raise_of_tanh, "dce"])
    assert fault.name == "raise-of-tanh" and fault.reason == "KeyError: 'tanh'"
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "tanh"]


def test_a_pass_whose_result_does_not_verify():
    fault, result = minimize_passes(parse(PROGRAM), [break_types])
    assert fault.name == "break-types" and "the result does not verify: " in fault.reason
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "tanh"]


def test_another_fault_than_numbers():
    def has_bare_exponential(module: Module) -> bool:
        return any(node.opcode == "exponential" and node.operands[0].opcode == "add" for node in module.nodes())

    predicate = FunctionPredicate(has_bare_exponential)
    fault, result = minimize_passes(parse(PROGRAM), [rules_pass("mine", [drop_negate, double_negation])], predicate)
    assert fault.rules == ("drop-negate",)
    assert [node.opcode for node in result.module.entry.nodes][1:] == ["add", "negate", "exponential"]


def test_passes_without_a_fault():
    with pytest.raises(FaultNotShown, match="does not show in module_e after cse, dce"):
        bisect_passes(parse(PROGRAM), ["cse", "dce"])
    with pytest.raises(FaultNotShown, match="shows in module_e before any pass"):
        bisect_passes(parse(PROGRAM), ["cse"], FunctionPredicate(lambda module: True))
    with pytest.raises(FaultNotShown, match="'cse changes what is computed' does not hold"):
        minimize(parse(PROGRAM), PassesChangeNumbers("cse"))
    with pytest.raises(HloomError, match="there is no pass named 'csee'"):
        bisect_passes(parse(PROGRAM), ["csee"])


class Disabled(FaultPredicate):
    """A fault that two passes make together, in an XLA that needs `layout`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name, self.flags = "a fault", ""
        monkeypatch.setattr("hloom.inspection.minimize.pass_bisection.xla_flags", self)

    def __call__(self, flags: str) -> Disabled:
        self.flags = flags.partition("=")[2]
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self, module: Module, text: str) -> Verdict:
        disabled = self.flags.split(",")
        if "layout" in disabled:
            return Verdict(False, "XLA cannot do without", False)
        return Verdict(not {"fusion", "cse"} <= set(disabled), "")


def test_passes_of_xla(monkeypatch: pytest.MonkeyPatch):
    predicate, module = Disabled(monkeypatch), parse(PROGRAM)
    names = ["a", "fusion", "b", "c", "cse", "d"]
    fault = bisect_xla_passes(module, predicate, names)
    assert fault.names == ("fusion", "cse") and fault.tried == 6
    assert str(fault).startswith("it goes away with --xla_disable_hlo_passes=fusion,cse (6 passes, ")
    assert bisect_xla_passes(module, predicate, [*names, "layout"]).names == ()
    assert (
        str(bisect_xla_passes(module, predicate, []))
        == "it goes away without none of XLA's passes: 0 passes, 0 runs of XLA"
    )


@pytest.mark.long
def test_a_pass_of_xla():
    """XLA's simplifier multiplies by the reciprocal of a constant divisor, which rounds once more."""
    text = """ENTRY e { x = f32[8] parameter(0) c = f32[] constant(3) b = f32[8] broadcast(c), dimensions={}
      n = f32[8] negate(x) ROOT d = f32[8] divide(n, b) }"""
    from hloom.inspection.profile import changing_passes

    predicate = DiffersFromEvaluator(rtol=0, atol=0)
    result = minimize(parse(text), predicate)
    assert [node.opcode for node in result.module.entry.nodes][-1] == "divide"
    assert bisect_xla_passes(result.module, predicate, changing_passes(result.module)).names == ("algsimp",)
    close()
