"""Small modules that the tests of the IR share."""

from __future__ import annotations

from hloom.ir import Apply, Attributes, Graph, Module, Node, TensorType, dtype
from hloom.ops import OPS

F32 = TensorType(dtype("f32"))
F32_2 = TensorType(dtype("f32"), (2,))
F32_3 = TensorType(dtype("f32"), (3,))


def module_with(name: str = "main") -> tuple[Module, Graph]:
    """A module whose entry has no nodes yet."""
    module = Module("m")
    module.entry = module.add_graph(name)
    return module, module.entry


def apply(
    opcode: str, *inputs: Node, graph: Graph | None = None, name: str | None = None, **attributes: object
) -> Apply:
    """An f32[2] node at the end of the first input's graph."""
    where = graph or inputs[0].graph
    return where.add_apply(OPS[opcode], inputs, F32_2, Attributes(attributes), name)


def chain(depth: int) -> Module:
    """negate(negate(... x))."""
    module, graph = module_with()
    node: Node = graph.add_parameter(F32_2, "x")
    for _ in range(depth):
        node = graph.add_apply(OPS["negate"], (node,), F32_2)
    graph.set_output(node)
    return module


def diamond() -> Module:
    """Two parameters, a sum used twice, a dead node, a called reducer."""
    module, main = module_with()
    reducer = module.add_graph("reducer")
    reducer.set_output(apply("add", reducer.add_parameter(F32_2, "left"), reducer.add_parameter(F32_2, "right")))
    x, y = main.add_parameter(F32_2, "x"), main.add_parameter(F32_2, "y")
    total = apply("add", x, y, name="total")
    apply("negate", x, name="dead")
    main.set_output(apply("call", total, total, name="result", to_apply=reducer))
    return module


def closure() -> Module:
    """A graph inside main that captures main's parameter, held as a value and called."""
    module, main = module_with()
    x = main.add_parameter(F32_2, "x")
    inner = module.add_graph("inner", parent=main)
    inner.set_output(apply("add", inner.add_parameter(F32_2, "y"), x))
    held = main.add_constant(inner, inner.type, "held")
    main.set_output(main.add_apply(held, (x,), F32_2))
    return module
