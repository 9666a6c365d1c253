"""What verify accepts, at which level, and what it says of the first bad node.

Covers `inference.py`, `surroundings.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from hloom.formats.hlo import parse
from hloom.ir import (
    COMMON,
    Attribute,
    AttributeKind,
    Attributes,
    Graph,
    Level,
    Missing,
    Module,
    Node,
    Op,
    Surroundings,
    TensorType,
    Unresolved,
    Verbatim,
    Verification,
    VerifyError,
    dtype,
    literal_of,
    required,
    verify,
)
from hloom.ir.attribute_types import CHECKS, expected_type
from hloom.ir.verify import find_cycle
from hloom.ops import COMMON as OPS_COMMON
from hloom.ops import OPS, unknown_op
from hloom.text import HloomError
from tests.helpers.work import calls
from tests.ir.build import F32, F32_2, apply, chain, closure, diamond, module_with


@pytest.mark.parametrize("make", [diamond, lambda: chain(3)])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_complete_module_is_hlo(make: Callable[[], Module], indexed: bool):
    module = make()
    if indexed:
        module.index_users()
    assert verify(module) == Verification(Level.HLO)


def test_levels_are_ordered():
    assert Level.FUNCTIONAL < Level.OPEN < Level.HLO


def test_users_are_those_of_the_graph_as_it_stands():
    module = chain(2)
    surroundings = Surroundings(module)
    nodes = list(module.entry.nodes)
    assert [list(surroundings.users(node)) for node in nodes] == [[user] for user in nodes[1:]] + [[]]
    assert not module.is_indexed


def test_a_header_without_counts_is_for_one_device():
    assert Surroundings(chain(1)).count("num_partitions") == 1


# What lowers the level


def test_a_closure_is_functional():
    assert verify(closure()) == Verification(
        Level.FUNCTIONAL, (), ("held of main is a function value", "inner captures x of main")
    )


def test_an_op_as_a_value_is_functional():
    module, graph = module_with()
    graph.set_output(graph.add_constant(OPS["add"], F32, "operation"))
    assert verify(module).notes == ("operation of main is an op as a value",)


def test_a_graph_as_a_value_is_functional():
    module = diamond()
    module.entry.add_constant(module["reducer"], F32, "held")
    assert verify(module).notes == ("held of main is a graph as a value",)


def test_a_computed_call_is_functional():
    module, graph = module_with()
    function = graph.add_parameter(F32, "function")
    graph.set_output(graph.add_apply(function, (), F32))
    assert verify(module).notes == ("call of main calls a value",)


def test_recursion_is_functional():
    module, graph = module_with()
    other = module.add_graph("other")
    other.set_output(apply("call", other.add_parameter(F32_2), to_apply=graph))
    graph.set_output(apply("call", graph.add_parameter(F32_2), to_apply=other))
    report = verify(module)
    assert report.level is Level.FUNCTIONAL
    assert report.notes == ("recursion: main -> other -> main",)


def test_the_level_says_functional_even_where_names_are_unresolved():
    module = closure()
    module.declare_graph("nowhere")
    report = verify(module)
    assert report.level is Level.FUNCTIONAL
    assert report.unresolved == (Unresolved("nowhere", "computation"),)


def open_module(missing: str) -> Module:
    module, graph = module_with()
    x: Node = graph.add_parameter(F32_2, "x")
    if missing == "computation":
        x = apply("call", x, to_apply=module.declare_graph("nowhere"))
    elif missing == "operand":
        graph.missing.append(Missing("lost", F32_2, graph))
        x = apply("negate", graph.missing[0])
    elif missing == "type":
        x = graph.add_apply(OPS["negate"], (x,), None, name="untyped")
    elif missing == "opcode":
        x = graph.add_apply(unknown_op("mystery"), (x,), F32_2, {"anything": 3})
    elif missing == "attribute":
        x = apply("negate", x, novelty=Verbatim("{1}"))
    elif missing == "parameter":
        graph.add_parameter(F32_2).number = 2
        graph.add_parameter(F32_2).number = 5
    graph.set_output(x)
    return module


@pytest.mark.parametrize(
    ("missing", "names"),
    [
        ("computation", ["computation nowhere"]),
        ("operand", ["operand lost in main"]),
        ("type", ["type untyped in main"]),
        ("opcode", ["opcode mystery in main"]),
        ("attribute", ["attribute novelty in main"]),
        ("parameter", ["parameter 1 in main", "parameter 3 to 4 in main"]),
    ],
)
def test_what_is_unresolved_is_listed(missing: str, names: list[str]):
    report = verify(open_module(missing))
    assert report.level is Level.OPEN
    assert [str(name) for name in report.unresolved] == names


# What is refused


def refused(module: Module) -> str:
    with pytest.raises(VerifyError) as caught:
        verify(module)
    assert isinstance(caught.value, HloomError)
    return str(caught.value)


def test_the_bad_node_is_shown_among_its_neighbours():
    module, graph = module_with()
    x: Node = graph.add_parameter(F32_2, "x")
    for name in "abcde":
        x = apply("negate", x, name=name)
    graph.set_output(x)
    graph.set_operands(graph["c"], ())
    assert refused(module) == (
        "graph main, node c: negate does not take 0 operands: it takes 1\n"
        "    <a = f32[2] negate(x)>\n"
        "    <b = f32[2] negate(a)>\n"
        "  > <c = f32[2] negate()>\n"
        "    <d = f32[2] negate(c)>\n"
        "    <e = f32[2] negate(d)>"
    )


def of_another_graph(module: Module) -> None:
    module.entry.set_operands(module.entry["dead"], (module["reducer"]["left"],))


def later(module: Module) -> None:
    module.entry.set_operands(module.entry["total"], (module.entry["dead"], module.entry["x"]))


def erased(module: Module) -> None:
    dead = module.entry["dead"]
    module.entry.erase(dead)
    module.entry.set_operands(module.entry["result"], (dead, dead))


def unlisted(module: Module) -> None:
    module.entry.set_operands(module.entry["dead"], (Missing("lost", None, module.entry),))


def foreign_graph(module: Module) -> None:
    module.entry.set_attributes(module.entry["result"], {"to_apply": Module().add_graph("elsewhere")})


def inner_graph(module: Module) -> None:
    inner = module.add_graph("inner", parent=module["reducer"])
    inner.set_output(inner.add_parameter(F32_2))
    module.entry.set_attributes(module.entry["result"], {"to_apply": inner})


def late_predecessor(module: Module) -> None:
    module.entry.set_attributes(module.entry["total"], {"control-predecessors": (module.entry["dead"],)})


def twice_in_order(module: Module) -> None:
    nodes = list(module.entry.nodes)
    module.entry.adopt([*nodes, nodes[0]], module.entry._names)


def strange_node(module: Module) -> None:
    missing = Missing("lost", F32_2, module.entry)
    module.entry._nodes.append(missing)  # type: ignore[union-attr]
    module.entry._names["lost"] = missing


def set_value(value: Any) -> Callable[[Module], None]:
    return lambda module: module.entry.set_output(module.entry.add_constant(value, F32, "value"))


def set_on(name: str, /, **fields: Any) -> Callable[[Module], None]:
    def change(module: Module) -> None:
        for field, value in fields.items():
            setattr(module.entry[name], field, value)

    return change


def attributes_of(name: str, **values: Any) -> Callable[[Module], None]:
    return lambda module: module.entry.set_attributes(module.entry[name], values)


REFUSED: dict[str, tuple[Callable[[Module], Any], str]] = {
    "no entry": (lambda m: setattr(m, "_entry", None), "module m has no entry graph"),
    "entry elsewhere": (
        lambda m: setattr(m, "entry", Module().add_graph("g")),
        "module m: the entry graph g is not among its graphs",
    ),
    "entry declared": (
        lambda m: setattr(m, "entry", m.declare_graph("g")),
        "module m: the entry graph g is not among its graphs",
    ),
    "graph of another module": (
        lambda m: setattr(m["reducer"], "module", Module("n")),
        "graph reducer belongs to module n, not to m",
    ),
    "graph under another name": (
        lambda m: setattr(m["reducer"], "name", "r"),
        "graph r is not the one that module m finds under its name",
    ),
    "graph inside itself": (
        lambda m: setattr(m["reducer"], "parent", m["reducer"]),
        "graph reducer is enclosed by itself or by a graph outside the module",
    ),
    "node of another graph": (
        lambda m: setattr(m.entry["dead"], "graph", m["reducer"]),
        "graph main, node dead: it belongs to graph reducer",
    ),
    "node twice": (twice_in_order, "graph main, node x: it stands in the graph twice"),
    "name": (
        set_on("dead", name="alive"),
        "graph main, node alive: the graph finds another node, or none, under its name",
    ),
    "name left over": (
        lambda m: m.entry._names.update(ghost=m["reducer"]["add"]),
        "graph main: it finds a node under the name 'ghost' that is not in its order",
    ),
    "input that is not a node": (
        set_on("dead", operands=(3,)),
        "graph main, node dead: it uses 3, which is not a node",
    ),
    "input of another graph": (
        of_another_graph,
        "graph main, node dead: it uses left of graph reducer, which does not enclose main",
    ),
    "input that comes later": (later, "graph main, node total: it uses dead, which comes later"),
    "input that was erased": (erased, "graph main, node result: it uses dead, which is in no graph any more"),
    "missing name not listed": (
        unlisted,
        "graph main, node dead: it uses the missing name lost, which graph main does not list",
    ),
    "predecessor that comes later": (late_predecessor, "graph main, node total: it uses dead, which comes later"),
    "type": (set_on("dead", type="f32"), "graph main, node dead: its type is 'f32', which is not a Type"),
    "kind of node": (strange_node, "graph main, node lost: it is not a parameter, constant or application"),
    "operand count": (
        lambda m: m.entry.set_function(m.entry["dead"], OPS["reduce"]),  # pyright: ignore[reportArgumentType]
        "graph main, node dead: reduce does not take 1 operands: it takes 2 or more, 2 at a time",
    ),
    "operand count between": (
        lambda m: m.entry.set_function(m.entry["dead"], Op("both", (2, 4))),  # pyright: ignore[reportArgumentType]
        "graph main, node dead: both does not take 1 operands: it takes 2 to 4",
    ),
    "required attribute": (
        attributes_of("result", is_composite=True),
        "graph main, node result: call needs the attribute to_apply",
    ),
    "unknown attribute": (
        attributes_of("dead", colour=1),
        "graph main, node dead: negate has no attribute colour",
    ),
    "unknown attribute of a parameter": (
        attributes_of("x", colour=1),
        "graph main, node x: parameter has no attribute colour",
    ),
    "attribute's value": (
        attributes_of("result", to_apply="reducer"),
        "graph main, node result: attribute to_apply is 'reducer', not a Graph",
    ),
    "graph of another module called": (
        foreign_graph,
        "graph main, node result: it refers to graph elsewhere, which is not in the module",
    ),
    "graph out of scope": (
        inner_graph,
        "graph main, node result: it refers to graph inner, which only graphs inside reducer may use",
    ),
    "constant's value": (
        set_value(3),
        "graph main, node value: its value is 3, not a Literal, a Graph or an Op",
    ),
    "no output": (lambda m: setattr(m.entry, "output", None), "graph main: it has no output"),
    "output of another graph": (
        lambda m: m.entry.set_output(m["reducer"]["add"]),
        "graph main: it uses add of graph reducer, which does not enclose main",
    ),
    "another type than inferred": (
        set_on("total", type=TensorType(dtype("f32"), (3,))),
        "graph main, node total: its type is f32[3], but add of its operands yields f32[2]",
    ),
    "operands that do not go together": (
        set_on("x", type=TensorType(dtype("s32"), (2,))),
        "graph main, node total: the operands must have the same element type, but are s32[2] and f32[2]",
    ),
    "parameter twice": (
        set_on("y", number=0),
        "graph main, node y: parameter number 0 is out of order or given twice",
    ),
    "parameter not listed": (
        lambda m: m.entry.parameters.pop(),
        "graph main: it lists 1 parameters, which are not its 2 parameter nodes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_module_is_refused(name: str):
    change, message = REFUSED[name]
    module = diamond()
    change(module)
    assert refused(module).split("\n")[0] == message


def test_a_wrong_index_of_users_is_refused():
    module = diamond()
    module.index_users()
    module.entry["x"]._users.clear()
    assert refused(module).split("\n")[0] == "graph main, node x: the index of its users is not what a recount gives"


def test_a_wrong_index_of_callers_is_refused():
    module = diamond()
    module.index_users()
    module["reducer"]._callers = {}
    assert refused(module) == "graph reducer: the index of its callers is not what a recount gives"


def test_long_lines_are_cut():
    module, graph = module_with()
    parameters = [graph.add_parameter(F32_2, f"parameter_with_a_name_{i}") for i in range(20)]
    graph.set_output(graph.add_apply(OPS["add"], parameters, F32_2))
    assert max(map(len, refused(module).split("\n"))) <= 144


# Kinds of attributes


GOOD: dict[AttributeKind, tuple[Any, Any]] = {
    AttributeKind.INTEGER: (3, True),
    AttributeKind.BOOLEAN: (True, 1),
    AttributeKind.FLOAT: (1.5, "1.5"),
    AttributeKind.STRING: ("text", b"text"),
    AttributeKind.ENUM: ("EQ", 0),
    AttributeKind.INTEGERS: ((1, 2), [1, 2]),
    AttributeKind.BOOLEANS: ((True,), (1,)),
    AttributeKind.PAIRS: (((0, 1), (1, 0)), (0, 1)),
    AttributeKind.TYPE: (F32, "f32[]"),
    AttributeKind.TYPES: ((F32,), F32),
    AttributeKind.FRONTEND: ((("key", "text"),), (("key",),)),
    AttributeKind.VERBATIM: (Verbatim("x"), "x"),
    AttributeKind.ANY: ((1, "a"), ([],)),
    AttributeKind.LITERAL: (literal_of(1.0), 1.0),
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_value_fits_its_kind(kind: AttributeKind):
    good, bad = GOOD[kind]
    assert expected_type(Attribute(kind), good) is None
    assert expected_type(Attribute(kind), bad) == CHECKS[kind][1]


def test_every_kind_has_a_row():
    assert set(CHECKS) == set(AttributeKind)


def test_nodes_and_graphs_fit_only_where_they_are_wanted():
    module = diamond()
    node, graph = module.entry["x"], module.entry
    assert expected_type(Attribute(AttributeKind.NODES), (node,)) is None
    assert expected_type(Attribute(AttributeKind.NODES), (graph,)) == "a tuple of nodes"
    assert expected_type(Attribute(AttributeKind.GRAPHS), (graph,)) is None
    assert expected_type(Attribute(AttributeKind.GRAPHS), graph) == "a tuple of Graphs"


def test_choices_are_checked():
    attribute = required(AttributeKind.ENUM, choices=("EQ", "NE"))
    assert expected_type(attribute, "EQ") is None
    assert expected_type(attribute, "eq") == "one of EQ, NE"


def test_the_common_attributes_are_those_of_the_rows():
    assert dict(COMMON) == dict(OPS_COMMON)


def test_a_header_names_results_and_parameters_that_the_entry_has():
    text = """HloModule m, input_output_alias={ ALIAS }
ENTRY e { a = f32[4] parameter(0) b = (f32[4], s32[]) parameter(1) c = f32[4] negate(a) ROOT r = (f32[4], (f32[4], s32[])) tuple(c, b) }"""
    for sound in ("{0}: (0, {}, may-alias)", "{1,0}: (1, {0}, must-alias)", "{1,1}: (1, {1})"):
        assert verify(parse(text.replace("ALIAS", sound))).level is Level.HLO
    for alias, lacking in (
        ("{2}: (0, {})", "a result"),
        ("{0,0}: (0, {})", "a result"),
        ("{1,7}: (0, {})", "a result"),
        ("{0}: (2, {})", "a parameter"),
        ("{0}: (1, {2})", "a parameter"),
        ("{0}: (0, {0})", "a parameter"),
    ):
        with pytest.raises(VerifyError, match=f"names {lacking} that e lacks$"):
            verify(parse(text.replace("ALIAS", alias)))


# Scale


def test_depth_is_no_limit():
    module = Module()
    parent: Graph | None = None
    for _ in range(3000):
        graph = module.add_graph("g", parent)
        x = graph.add_parameter(F32_2)
        graph.set_output(apply("add", x, parent.parameters[0]) if parent else x)
        parent = graph
    module.entry = module.graphs[0]
    assert verify(module).level is Level.FUNCTIONAL
    assert find_cycle({a: [b] for a, b in pairwise(module.graphs)}) is None


def test_verifying_an_instruction_takes_few_calls():
    module = chain(4_000)
    module.index_users()
    assert verify(module) == Verification(Level.HLO)
    assert calls(lambda: verify(module)) < 50 * module.node_count


def test_attributes_shared_by_many_nodes_are_checked_for_each_op():
    module, graph = module_with()
    shared = Attributes(dimensions=(0,))
    x = graph.add_parameter(F32_2)
    y = graph.add_apply(OPS["transpose"], (x,), F32_2, shared)
    graph.set_output(graph.add_apply(OPS["negate"], (y,), F32_2, shared))
    assert refused(module).startswith("graph main, node negate: negate has no attribute dimensions")


def test_missing_names_may_be_found_by_name():
    module = open_module("operand")
    module.entry._names["lost"] = module.entry.missing[0]
    assert verify(module).level is Level.OPEN
    copy = module.clone()
    assert copy.entry["lost"] is copy.entry.missing[0]
    assert verify(copy).level is Level.OPEN


@pytest.mark.parametrize(
    ("line", "is_accepted"),
    [
        ("c = bf16[8,128]{1,0:T(8,128)(2,1)} copy(x)", True),
        ("c = bf16[8,128]{1,0:T(8,128)(2,1)} broadcast(y), dimensions={}", True),
        ("c = f32[8,128]{1,0:T(8,128)} add(x, z)", True),
        ("c = bf16[8,128] copy(x)", False),  # without tiles: no compiler for a TPU wrote it
        ("c = s32[8,128]{1,0:T(8,128)} copy(x)", False),
        ("c = f64[8,128]{1,0:T(8,128)} copy(x)", False),
        ("c = bf16[8,64]{1,0:T(8,128)(2,1)} copy(x)", False),
    ],
)
def test_compilers_for_tpus_mix_the_precision_of_floats(line: str, is_accepted: bool):
    module = parse(
        "ENTRY e {\n x = f32[8,128]{1,0:T(8,128)} parameter(0)\n y = f32[]{:T(128)} parameter(1)\n"
        f" z = bf16[8,128]{{1,0:T(8,128)(2,1)}} parameter(2)\n ROOT {line}\n}}"
    )
    if is_accepted:
        verify(module)
    else:
        with pytest.raises(VerifyError, match="its type is"):
            verify(module)


@pytest.mark.parametrize(
    ("given", "made", "is_accepted"),
    [
        ("s32[8]{0:T(128)}", "s32[]{:T(128)}", True),
        ("f32[64,2047]{1,0:T(8,128)}", "f32[64,2048]{1,0:T(8,128)}", True),
        ("s32[8]{0:T(128)}", "s32[129]{0:T(128)}", False),
        ("s32[8]", "s32[]", False),
    ],
)
def test_a_bitcast_keeps_the_bits_or_the_whole_tiles(given: str, made: str, is_accepted: bool):
    module = parse(f"ENTRY e {{\n x = {given} parameter(0)\n ROOT b = {made} bitcast(x)\n}}")
    if is_accepted:
        verify(module)
    else:
        with pytest.raises(VerifyError, match="bits"):
            verify(module)
