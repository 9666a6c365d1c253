"""HLO written as arithmetic."""

import hloom
from hloom.dialects.arrays import HloArray, HloBuilder
from hloom.ir import Graph, Module, TensorType, dtype

F32 = dtype("f32")


def written(formula, *dims):
    """The text of the computation that a formula of f32 arrays of these dimensions adds."""
    module = Module("m")
    graph = Graph("entry", module)
    build = HloBuilder(graph)
    arrays = [HloArray(build, graph.add_parameter(TensorType(F32, size), f"p{i}")) for i, size in enumerate(dims)]
    graph.set_output(formula(*arrays).node)
    module.append_graph(graph)
    module.entry = graph
    return hloom.print(module, "short").split("ENTRY entry {\n")[1].split("\n}")[0].splitlines()


def opcodes(lines):
    return [line.split("] ")[1].split("(")[0] for line in lines if " parameter(" not in line]


def test_a_number_is_spread_to_the_array_that_it_meets():
    lines = written(lambda x: 1 - x, (4,))
    assert opcodes(lines) == ["constant", "broadcast", "subtract"]
    assert lines[-1].split("= ")[1].startswith("f32[4] subtract(broadcast")


def test_operators_bind_as_in_python():
    assert opcodes(written(lambda x, y: x + y * y, (4,), (4,))) == ["multiply", "add"]
    assert opcodes(written(lambda x, y: (x < y).select(-x, y), (4,), (4,))) == ["compare", "negate", "select"]


def test_what_changes_nothing_adds_nothing():
    assert written(lambda x: x.convert(F32).reshape((2, 3)).transpose((0, 1)).stretch((2, 3)), (2, 3)) == [
        "  ROOT p0 = f32[2,3] parameter(0)"
    ]


def test_stretching_repeats_dimensions_of_size_1_and_those_in_front():
    lines = written(lambda x: x.stretch((5, 2, 3)), (2, 1))
    assert opcodes(lines) == ["reshape", "broadcast"]
    assert "dimensions={1}" in lines[-1]


def test_one_reducer_serves_all_sums_of_an_element_type():
    build = HloBuilder(Graph("entry", Module("m")))
    assert build.reducer("add", F32) is build.reducer("add", F32)
    assert build.reducer("add", F32) is not build.reducer("add", dtype("f64"))
    assert build.comparer("GE", F32).root.attributes["direction"] == "GE"
