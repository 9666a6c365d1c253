"""Assertions that two programs compute the same."""

from __future__ import annotations

from hloom.analysis import source_of
from hloom.formats.hlo import parse
from hloom.ir import TOKEN, Apply, Module, Node
from hloom.runtime import Difference, Inputs, ProgramRun, arbitrate, compare, run

SHOWN = 5
"""The maximum number of outputs to name in a message."""


def assert_equivalent(
    left: Module | str,
    right: Module | str,
    inputs: Inputs | None = None,
    *,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    devices: int | None = None,
) -> None:
    """Assert that two programs, run on XLA's CPU client on the same inputs, yield the same outputs.

    Without inputs, random ones of the seed are used. Tolerances are those of `hloom.runtime.comparison`: without them,
    what rounding in another order may change. Raises AssertionError naming the outputs that differ, where, the
    instructions that yield them, and whose results hloom's evaluator confirms; errors of running come as
    `hloom.runtime.run` raises them.
    """
    one = run(left, inputs, seed=seed, devices=devices)
    other = run(right, one.inputs, devices=devices)
    differences = compare(one.outputs, other.outputs, rtol=rtol, atol=atol)
    if not differences:
        return
    modules = [parse(program) if isinstance(program, str) else program for program in (left, right)]
    lines = "".join(f"\n  {_line(difference, modules)}" for difference in differences[:SHOWN])
    more = f"\n  and {len(differences) - SHOWN:,} more" if len(differences) > SHOWN else ""
    arbitration = arbitrate(
        ProgramRun("the first program", modules[0], one.inputs, one.outputs),
        ProgramRun("the second program", modules[1], other.inputs, other.outputs),
        rtol,
        atol,
    )
    raise AssertionError(
        f"the programs differ in {len(differences):,} of {len(one.outputs):,} outputs:{lines}{more}\n  {arbitration}"
    )


def _line(difference: Difference, modules: list[Module]) -> str:
    makers = [_place(module, difference.output) for module in modules]
    return "\n    ".join([str(difference), *(maker for maker in makers if maker is not None)])


def _place(module: Module, output: int) -> str | None:
    """Which instruction yields an output, with its source line; None where there is no such output."""
    root = module.entry.output
    node = _maker(root, output) if root is not None else None
    return None if node is None else f"{node!r}  {source_of(node, module.stack_tables)}"


def _maker(root: Node, output: int) -> Node | None:
    """The instruction that yields an output, of those that tuples at the end of a program put together."""
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Apply) and node.opcode == "tuple":
            waiting.extend(reversed(node.operands))
            continue
        count = 1 if node.type is None else sum(leaf is not TOKEN for leaf in node.type.leaves())
        if output < count:
            return node
        output -= count
    return None
