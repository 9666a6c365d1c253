"""The listing in the manner of MindIR, whole."""

from __future__ import annotations

from hloom.ir import (
    Attributes,
    FileLocation,
    Missing,
    Module,
    StackFrame,
    StackTables,
    Verbatim,
    dump,
    literal_of,
)
from hloom.ops import OPS, unknown_op
from tests.ir.build import F32, F32_2, apply, closure, diamond, module_with


def test_calls_come_after_their_callers():
    module = diamond()
    module.attributes = Attributes(is_scheduled=True)
    assert dump(module) == """\
# module: m
# entry : @main
# graphs: 2
# nodes : 8
# header: is_scheduled=true

subgraph @main(%para1_x, %para2_y) {
  %para1_x : <f32[2]>
  %para2_y : <f32[2]>
  %0(total) = add(%para1_x, %para2_y)
      : (<f32[2]>, <f32[2]>) -> (<f32[2]>)
  %1(dead) = negate(%para1_x)
      : (<f32[2]>) -> (<f32[2]>)
  %2(result) = call(%0, %0) {to_apply: @reducer}
      : (<f32[2]>, <f32[2]>) -> (<f32[2]>)
  return %2
}

subgraph @reducer(%para1_left, %para2_right) {
  %para1_left : <f32[2]>
  %para2_right : <f32[2]>
  %0(add) = add(%para1_left, %para2_right)
      : (<f32[2]>, <f32[2]>) -> (<f32[2]>)
  return %0
}
"""


def test_closures_name_what_they_capture():
    assert dump(closure()) == """\
# module: m
# entry : @main
# graphs: 2
# nodes : 5

subgraph @main(%para1_x) {
  %para1_x : <f32[2]>
  %0(held) = constant(@inner)
      : <(f32[2]) -> f32[2]>
  %1(call) = %0(%para1_x)
      : (<f32[2]>) -> (<f32[2]>)
  return %1
}

subgraph @inner(%para1_y) inside @main {
  # captures $(main:%para1_x) : <f32[2]>
  %para1_y : <f32[2]>
  %0(add) = add(%para1_y, $(main:%para1_x))
      : (<f32[2]>, <f32[2]>) -> (<f32[2]>)
  return %0
}
"""


def test_what_nothing_defines_is_marked():
    module, graph = module_with()
    lost = Missing("lost", None, graph)
    graph.missing.append(lost)
    called = apply("call", lost, to_apply=module.declare_graph("nowhere"))
    graph.set_output(graph.add_apply(unknown_op("mystery"), (called,), None, {"how": Verbatim("{a,\n b}")}))
    graph.add_constant(unknown_op("riddle"), None)
    assert dump(module) == """\
# module: m
# entry : @main
# graphs: 1
# nodes : 3
# unresolved: computation nowhere
# unresolved: operand lost in main

subgraph @main() {
  %0(call) = call(%?lost) {to_apply: @?nowhere}
      : (<?>) -> (<f32[2]>)
  %1(mystery) = ?mystery(%0) {how: {a,  b}}
      : (<f32[2]>) -> (<?>)
  %2(constant) = constant(?riddle)
      : <?>
  return %1
}
"""


def test_comments_say_where_nodes_come_from():
    module, graph = module_with()
    x = graph.add_parameter(F32_2, "x", metadata='op_name="x"')
    y = graph.add_apply(
        OPS["negate"],
        (x,),
        F32_2,
        metadata='op_type="neg" op_name="jit(f)/neg" source_file="a.py" source_line=3 stack_frame_id=1',
    )
    graph.add_apply(OPS["negate"], (x,), F32_2, metadata="nonsense\n")
    graph.set_output(y)
    module.stack_tables = StackTables({1: "b.py"}, {1: "f"}, {1: FileLocation(1, 1, 7)}, {1: StackFrame(1)})
    assert dump(module).split("\n\n")[1] == """\
subgraph @main(%para1_x) {
  %para1_x : <f32[2]>
      # Scope: (x)
  %0(negate) = negate(%para1_x)
      : (<f32[2]>) -> (<f32[2]>)
      # Scope: neg (jit(f)/neg)
      # In file a.py:3
      # In file b.py:7 (f)
  %1(negate.1) = negate(%para1_x)
      : (<f32[2]>) -> (<f32[2]>)
      # Malformed metadata: nonsense
  return %0
}
"""


def test_values_of_attributes_and_constants():
    module, graph = module_with()
    one = graph.add_constant(literal_of([1.0, 2.0]), F32_2, "one")
    many = graph.add_constant(literal_of([float(i) for i in range(11)]), F32, "many")
    graph.add_constant(OPS["add"], F32, "operation")
    attributes = {"dimensions": (0, 1), "name": 'say "x"', "flag": False, "kind": F32, "control-predecessors": (one, many)}
    graph.set_output(graph.add_apply(OPS["negate"], (one,), F32_2, attributes))
    listing = dump(module)
    assert "%0(one) = constant({1, 2})" in listing
    assert "%1(many) = constant({...})" in listing
    assert "%2(operation) = constant(add)" in listing
    assert r'{dimensions: (0, 1), name: "say \"x\"", flag: false, kind: <f32[]>, control-predecessors: (%0, %1)}' in listing


def test_a_change_in_one_graph_leaves_the_others_as_they_are():
    module = diamond()
    before = dump(module)
    apply("abs", module.entry["x"])
    after = dump(module)
    assert before != after
    assert before.split("subgraph")[2] == after.split("subgraph")[2]


def test_graphs_that_the_entry_does_not_reach_come_last():
    module = diamond()
    module["reducer"].execution_thread = "host"
    module.add_graph("alone")
    module.add_graph("lonely")
    listing = dump(module)
    assert "# graphs: 4, 2 not reached" in listing
    assert 'subgraph @reducer(%para1_left, %para2_right) on thread "host" {' in listing
    assert listing.endswith("""
# not reached from the entry:
subgraph @alone() {
  return ?
}

subgraph @lonely() {
  return ?
}
""")


def test_a_module_without_entry_is_listed():
    assert dump(Module("empty")) == "# module: empty\n# entry : ?\n# graphs: 0\n# nodes : 0\n"


def test_an_erased_node_is_marked():
    module = diamond()
    dead = module.entry["dead"]
    module.entry.erase(dead)
    module.entry.set_operands(module.entry["total"], (dead, dead))
    assert "%0(total) = add(%?dead, %?dead)" in dump(module)
