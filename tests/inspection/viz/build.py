"""Small modules that the tests of the drawings share."""

from __future__ import annotations

from hypothesis import strategies as st

from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, dtype, literal_of
from hloom.ops import OPS

F32 = TensorType(dtype("f32"))
F32_2 = TensorType(dtype("f32"), (2,))


def module_with(name: str = "m") -> tuple[Module, Graph]:
    """A module whose entry, `main`, has no nodes yet."""
    module = Module(name)
    module.entry = module.add_graph("main")
    return module, module.entry


def apply(
    opcode: str, *inputs: Node, name: str | None = None, metadata: str | None = None, **attributes: object
) -> Apply:
    """An f32[2] node at the end of the first input's graph."""
    return inputs[0].graph.add_apply(OPS[opcode], inputs, F32_2, attributes, name, metadata=metadata)


def scalar(graph: Graph, value: float, name: str = "constant") -> Constant:
    """An f32[] constant."""
    return graph.add_constant(literal_of(value, dtype("f32")), F32, name)


def unary_graph(module: Module, name: str, opcode: str = "negate", inner: str = "p") -> Graph:
    """A computation of one parameter and one op, which is its output."""
    graph = module.add_graph(name)
    graph.set_output(apply(opcode, graph.add_parameter(F32_2, inner), name=opcode))
    return graph


def fused() -> Module:
    """x -> fusion{p -> negate} -> while{body: b -> tanh} -> add(., x)."""
    module, main = module_with()
    fused_computation = unary_graph(module, "fused")
    body = unary_graph(module, "body", "tanh", "b")
    condition = unary_graph(module, "condition", "not", "c")
    x = main.add_parameter(F32_2, "x")
    fusion = apply("fusion", x, name="fusion", kind="kLoop", calls=fused_computation)
    loop = apply("while", fusion, name="loop", condition=condition, body=body)
    main.set_output(apply("add", loop, x, name="sum"))
    return module


def chain(depth: int) -> Module:
    """negate(negate(... x))."""
    module, main = module_with()
    node: Node = main.add_parameter(F32_2, "x")
    for _ in range(depth):
        node = apply("negate", node)
    main.set_output(node)
    return module


strange_text = st.text(
    st.one_of(
        st.sampled_from("\"\\\n\r\t\0<>&;{}|[]%/:#'\ud800é漢\U0001f600\x85\u2028\ufffe"),
        st.characters(exclude_categories=()),
    ),
    max_size=12,
) | st.sampled_from(["\\N", "\\", '"];x->y', "&lt;b&gt;", "</data>", "]]>", "<b>html</b>", "node", "a\\", "\\l\\r"])
"""What breaks formats that do not quote."""


@st.composite
def random_modules(draw: st.DrawFn) -> Module:
    """Modules of a few graphs, in which nodes use and graphs call at random what comes before them."""
    module = Module("random")
    for number in range(draw(st.integers(1, 3))):
        graph = module.add_graph(f"g{number}")
        graph.add_parameter(F32_2, "p")
        for _ in range(draw(st.integers(0, 8))):
            inputs = draw(st.lists(st.sampled_from(list(graph.nodes)), min_size=1, max_size=3))
            opcode = draw(st.sampled_from(["tuple", "call", "fusion"]))
            attributes: dict[str, object] = {}
            if number and opcode != "tuple":
                attributes["calls" if opcode == "fusion" else "to_apply"] = module.graphs[
                    draw(st.integers(0, number - 1))
                ]
            if draw(st.integers(0, 5)) == 0:
                attributes["control-predecessors"] = (draw(st.sampled_from(list(graph.nodes))),)
            apply(opcode, *inputs, **attributes)  # pyright: ignore[reportArgumentType]
        graph.set_output(draw(st.sampled_from(list(graph.nodes))))
        module.entry = graph
    return module
