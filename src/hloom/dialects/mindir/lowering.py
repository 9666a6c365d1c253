"""From MindIR to HLO: closures resolved, graphs joined by conditionals and whiles, primitives by table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hloom.dialects.mindir import (
    data_movement_lowering,
    elementwise_lowering,
    gradient_lowering,
    linear_lowering,
    normalisation_lowering,
    reduction_lowering,
)
from hloom.dialects.mindir.control_flow_lowering import ControlFlow, Region, TailCall, Task, run
from hloom.dialects.mindir.effects_lowering import EFFECTS
from hloom.dialects.mindir.emitter import PREDICATE, ComputationEmitter, hlo_name
from hloom.dialects.mindir.locations import error_at
from hloom.dialects.mindir.lowered_values import (
    INDEX_TYPE,
    MONAD,
    Aggregate,
    Choice,
    Closure,
    LoweredValue,
    State,
    aggregate,
    choice,
    closure,
    constant_value,
    described,
    joined,
    options_of,
    skeleton_of,
    with_arrays,
)
from hloom.dialects.mindir.lowering_context import Primitive, Rule, type_of_value, value_of
from hloom.dialects.mindir.rows import PREFIX, RETURN, VALUE, VALUE_ROW
from hloom.dialects.mindir.values import MONADS, Number, Sequence, Word
from hloom.ir import (
    OPAQUE,
    TOKEN,
    Apply,
    Constant,
    Graph,
    Literal,
    Missing,
    Module,
    Node,
    Op,
    Parameter,
    TensorType,
    TupleType,
    TypeProblem,
    compatible,
)
from hloom.text import Unsupported

TABLE: dict[str, Rule] = {
    **elementwise_lowering.TABLE,
    **reduction_lowering.TABLE,
    **data_movement_lowering.TABLE,
    **normalisation_lowering.TABLE,
    **linear_lowering.TABLE,
    **gradient_lowering.TABLE,
}
"""By primitive: what builds its HLO."""
UPDATES = "mindir.updates"
"""In a lowered module's attachments: the names of the parameters whose new values follow the results."""
_PASSES_ON = frozenset(PREFIX + name for name in ("MakeTuple", "make_tuple", "Depend", "TupleGetItem"))
"""The primitives that hand side effects on, from what they take."""


def lower(module: Module) -> Module:
    """A module of MindIR as a module of HLO: the entry graph's parameters are the program's, weights among them.

    Calls, choices of functions and recursion in tail calls become HLO's `call`, `conditional` and `while`; results
    are a tuple where MindSpore's are. Where parameters are written to, the result is a tuple of the results and of the
    new values, of the parameters that `attachments["mindir.updates"]` names. Raises Unsupported, with the source line,
    for primitives that have no lowering, for recursion that is not a tail call, for writes in branches and loops,
    and where a value must be known that is not.
    """
    return _Lowering(module).lower()


class _Lowering:
    """One module on its way."""

    def __init__(self, module: Module) -> None:
        self.source = module
        self.lowered = Module(hlo_name(module.name))
        self.lowered.source_name = module.source_name
        self.entry = Graph(hlo_name(module.entry.name), self.lowered)
        self.emitter = ComputationEmitter(self.lowered, self.entry)
        self.control_flow = ControlFlow(module, self.emitter, self.body)
        self.orders: dict[Graph, tuple[list[Node], Node, bool]] = {}
        self.parameters: dict[Node, Node] = {}
        self.effects: dict[Node, State] = {}
        self.written: dict[Node, dict[int, Node]] = {}
        self.written_values: dict[Node, Node] = {}
        self.direct_reads: dict[Node, list[Node]] = {}
        self.first_writes: dict[Node, Node] = {}

    def lower(self) -> Module:
        entry = self.source.entry
        arguments: list[LoweredValue] = []
        for parameter in entry.parameters:
            if parameter.type is TOKEN:
                arguments.append(MONAD)
                continue
            if not isinstance(parameter.type, (TensorType, TupleType)) or parameter.type is OPAQUE:
                raise error_at(parameter, f"a parameter of type {parameter.type} has no lowering")
            made = self.entry.add_parameter(parameter.type, hlo_name(parameter.name))
            self.parameters[parameter] = made
            arguments.append(self.unpacked(made))
        call = TailCall(closure(entry, ()), tuple(arguments), entry.root)
        outcome = run(self.control_flow.jump(Region(), call))
        self.entry.set_output(self.with_updates(outcome.values[None]))
        self.entry.name = self.lowered.unique_graph_name(self.entry.name)
        self.lowered.append_graph(self.entry)
        self.lowered.entry = self.entry
        _drop_unreachable(self.lowered)
        return self.lowered

    def unpacked(self, node: Node) -> LoweredValue:
        """A node's value: a tuple's elements."""
        if not isinstance(node.type, TupleType):
            return node
        return aggregate([self.unpacked(element) for element in self.emitter.elements(node)])

    def output(self, value: LoweredValue) -> Node:
        """The node that yields a value; raises Unsupported for functions."""
        if isinstance(value, Aggregate):
            return self.emitter.packed([self.output(part) for part in value.elements])
        if isinstance(value, Number):
            return self.emitter.number(value)
        if isinstance(value, Node):
            return value
        if isinstance(value, Word):
            return self.emitter.packed([])
        raise Unsupported(f"the program yields {described(value)}, which is not an array")

    # Side effects

    def with_updates(self, value: LoweredValue) -> Node:
        """The node that yields a value and, where parameters were written to, their last values after it."""
        updated = [parameter for parameter in self.entry.parameters if parameter in self.written]
        if not updated:
            return self.output(value)
        for parameter in updated:
            for reader in self.direct_reads.get(parameter, ()):
                if not _needs(self.first_writes[parameter], reader):
                    raise error_at(reader, f"it reads {parameter.name}, which is written to, and does not say when")
        results = value.elements if isinstance(value, Aggregate) else (value,)
        self.lowered.attachments[UPDATES] = tuple(parameter.name for parameter in updated)
        last = [self.written[parameter][max(self.written[parameter])] for parameter in updated]
        return self.emitter.packed([*map(self.output, results), *last])

    def write(self, node: Apply, values: Mapping[Node, LoweredValue]) -> LoweredValue:
        """The result of a primitive that writes to parameters; the state after it is kept."""
        *operands, monad = [values[used] for used in node.operands]
        if monad is not MONAD and not isinstance(monad, State):
            raise error_at(node, "a primitive that writes has a monad as its last operand")
        if self.emitter.graph is not self.entry:
            raise error_at(node, "writes inside of branches, loops and shared functions have no lowering")
        before = monad if isinstance(monad, State) else State((), node)
        referents = [self.referent(operand) for operand in operands]
        current = [
            operand if referent is None else before.current(referent)[1]
            for operand, referent in zip(operands, referents, strict=True)
        ]
        primitive = Primitive(node, tuple(current), self.emitter.build)
        made_here, writes = EFFECTS[node.opcode.removeprefix(PREFIX)](primitive)
        result = value_of(made_here)
        self.check_type(node, result)
        versions: list[tuple[Node, int, Node]] = []
        for index, made in ((index, array.node) for index, array in writes.items()):
            referent = referents[index]
            if referent is None:
                raise primitive.error(f"operand {index} must be a parameter of the program")
            count = before.current(referent)[0] + 1
            known = self.written.setdefault(referent, {})
            if count in known:
                raise primitive.error(f"nothing orders this write to {referent.name} and another one")
            known[count] = made
            if count == 1:
                self.first_writes[referent] = node
            self.written_values[made] = referent
            versions.append((referent, count, made))
        self.effects[node] = before.joined(State(tuple(versions), node))
        return result

    def is_ordered(self, node: Apply, values: Mapping[Node, LoweredValue]) -> bool:
        """Whether the last operand of a primitive that may write is a monad."""
        last = values[node.operands[-1]] if node.operands else None
        return last is MONAD or isinstance(last, State)

    def referent(self, value: LoweredValue) -> Node | None:
        """The program's parameter that a value refers to: itself, or the one that a write yielded."""
        if not isinstance(value, Node):
            return None
        return value if value in self.entry.parameters else self.written_values.get(value)

    def loaded(self, value: LoweredValue, monad: LoweredValue) -> LoweredValue:
        """The value of a parameter after the writes of a state."""
        referent = self.referent(value)
        return value if referent is None or not isinstance(monad, State) else monad.current(referent)[1]

    def state_behind(self, node: Apply, values: Mapping[Node, LoweredValue]) -> LoweredValue:
        """The state of an UpdateState: that of its first operand, and the writes that the others pass on."""
        state = values[node.operands[0]]
        seen: set[Node] = set()
        waiting = list(node.operands[1:])
        while waiting:
            used = waiting.pop()
            if used in seen:
                continue
            seen.add(used)
            effect = self.effects.get(used)
            if effect is not None:
                state = state.joined(effect) if isinstance(state, State) else effect
            elif used.opcode in _PASSES_ON:
                waiting.extend(used.operands)
        return state

    # Graphs

    def body(self, graph: Graph, given: Mapping[Node, LoweredValue], region: Region) -> Task:
        """The value of a graph's nodes, or the call that ends it."""
        order, last, is_call = self.order_of(graph)
        values: dict[Node, LoweredValue] = dict(given)
        for node in order:
            if node in values:
                continue
            if isinstance(node, Apply) and not isinstance(node.function, Op):
                self.note_reads(node, values)
                call = TailCall(values[node.function], tuple(values[used] for used in node.operands), node)
                values[node] = yield self.control_flow.value_of_call(call, region)
            else:
                values[node] = self.value_of(node, values)
        if is_call:
            assert isinstance(last, Apply), "a call is an application"
            assert isinstance(last.function, Node), "a call applies a value"
            self.note_reads(last, values)
            return TailCall(values[last.function], tuple(values[used] for used in last.operands), last)
        return values[last]

    def order_of(self, graph: Graph) -> tuple[list[Node], Node, bool]:
        """A graph's nodes that its value needs, each after its operands; the last one; whether it is a tail call."""
        if graph not in self.orders:
            self.orders[graph] = self.ordered(graph)
        return self.orders[graph]

    def ordered(self, graph: Graph) -> tuple[list[Node], Node, bool]:
        last, besides = graph.root, list[Node]()
        while isinstance(last, Apply) and last.opcode in (PREFIX + "Return", PREFIX + "Depend"):
            besides += last.operands[1:]
            last = last.operands[0]
        is_call = last.graph is graph and isinstance(last, Apply) and not isinstance(last.function, Op)
        if is_call:
            order = self.needed([*self.needs(last), *besides], graph, last)
            if last not in order:
                return order, last, True
        return self.needed([last, *besides], graph, None), last, False

    def needed(self, roots: Iterable[Node], graph: Graph, call: Node | None) -> list[Node]:
        """The nodes of a graph that some need, in order; what only orders side effects does not need the tail call."""
        order: dict[Node, None] = {}
        opened: set[Node] = set()
        stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(list(roots))]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                order[node] = None
                continue
            if node.graph is not graph or node in order or isinstance(node, Missing):
                if isinstance(node, Missing):
                    raise error_at(node, "nothing defines it")
                continue
            if node in opened:
                raise error_at(node, "its value depends on itself")
            opened.add(node)
            stack.append((node, True))
            used = self.needs(node)
            if call is not None and node.opcode == PREFIX + "UpdateState":
                used = [operand for operand in used if operand is not call]
            stack.extend((operand, False) for operand in reversed(used) if operand not in order)
        return list(order)

    def needs(self, node: Node) -> list[Node]:
        """The nodes that a node's value is made of; for a graph as a value, its free variables."""
        if isinstance(node, Constant) and isinstance(node.value, Graph):
            return list(self.control_flow.references.free.get(node.value, ()))
        if isinstance(node, Apply) and isinstance(node.function, Node):
            return [node.function, *node.operands]
        return list(node.operands)

    # Nodes

    def value_of(self, node: Node, values: Mapping[Node, LoweredValue]) -> LoweredValue:
        if isinstance(node, Constant):
            return self.constant(node, values)
        assert isinstance(node, Apply), "parameters have values"
        if node.function is VALUE_ROW:
            return _constant(node.attributes[VALUE])
        if node.function is RETURN:
            return values[node.operands[0]]
        self.emitter.build.metadata = node.raw_metadata
        name = node.opcode.removeprefix(PREFIX)
        if name in EFFECTS and (name not in TABLE or self.is_ordered(node, values)):
            return self.write(node, values)
        if name == "UpdateState":
            return self.state_behind(node, values)
        if name == "Load":
            return self.loaded(values[node.operands[0]], values[node.operands[1]])
        self.note_reads(node, values)
        operands = tuple(values[used] for used in node.operands)
        primitive = Primitive(node, operands, self.emitter.build)
        structure = STRUCTURE.get(name)
        if structure is not None:
            return structure(self.emitter, primitive)
        rule = TABLE.get(name)
        if rule is None:
            raise error_at(node, f"the primitive {name} has no lowering to HLO")
        try:
            value = value_of(rule(primitive))
        except TypeProblem as problem:
            raise primitive.error(problem.message) from None
        except Unsupported as problem:
            has_place = problem.location or problem.message.startswith(f"{node.name} of @")
            raise problem if has_place else primitive.error(problem.message) from None
        self.check_type(node, value)
        return value

    def note_reads(self, node: Apply, values: Mapping[Node, LoweredValue]) -> None:
        """Keep which of the program's parameters a primitive or a call takes, which does not say when it reads them."""
        for used in node.operands:
            if isinstance(used, Parameter):
                held = self.parameters.get(used, values[used])
                if isinstance(held, Node):
                    self.direct_reads.setdefault(held, []).append(node)

    def constant(self, node: Constant, values: Mapping[Node, LoweredValue]) -> LoweredValue:
        if isinstance(node.value, Graph):
            return self.control_flow.function_of(node.value, values)
        if isinstance(node.value, Literal):
            return self.emitter.graph.add_constant(node.value, node.value.type)
        raise error_at(node, "an op as a value has no lowering")

    def check_type(self, node: Apply, value: LoweredValue) -> None:
        """Compare what was built with the type that the text says."""
        made = type_of_value(value)
        if made is not None and node.type is not None and _is_known(node.type) and not compatible(made, node.type):
            raise error_at(node, f"its type is {node.type}, but its lowering yields {made}")


def _needs(node: Node, needed: Node) -> bool:
    """Whether a node depends on another one of its graph."""
    seen = {node}
    waiting = [node]
    while waiting:
        for used in waiting.pop().operands:
            if used is needed:
                return True
            if used.graph is node.graph and used not in seen:
                seen.add(used)
                waiting.append(used)
    return False


def _is_known(type_: object) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_is_known, type_.elements))
    return isinstance(type_, TensorType) and type_.is_static


def _constant(value: object) -> LoweredValue:
    if isinstance(value, Sequence):
        return constant_value(value)
    if isinstance(value, Word) and value.text in MONADS:
        return MONAD
    assert isinstance(value, (Number, Word)) or hasattr(value, "text"), "the reader makes values"
    return value  # type: ignore[return-value]


def _tuple(emitter: ComputationEmitter, primitive: Primitive) -> LoweredValue:
    return aggregate(primitive.operands)


def _element(emitter: ComputationEmitter, primitive: Primitive) -> LoweredValue:
    elements, index = primitive.elements(0), primitive.static(1)
    if not isinstance(index, int) or not -len(elements) <= index < len(elements):
        raise primitive.error(f"there is no element {index} among {len(elements)}")
    return elements[index]


def _first(emitter: ComputationEmitter, primitive: Primitive) -> LoweredValue:
    return primitive.operands[0]


def _partial(emitter: ComputationEmitter, primitive: Primitive) -> LoweredValue:
    function, *arguments = primitive.operands
    if isinstance(function, Choice):
        options = [closure(option.graph, option.captured, (*option.bound, *arguments)) for option in function.options]
        return choice(function.selector, tuple(options))
    if not isinstance(function, Closure):
        raise primitive.error(f"operand 0 must be a function, not {described(function)}")
    return closure(function.graph, function.captured, (*function.bound, *arguments))


def _switch(emitter: ComputationEmitter, primitive: Primitive) -> LoweredValue:
    condition, left, right = primitive.operands
    if isinstance(condition, Number):
        return left if condition.value else right
    number = primitive.array(0).reshape(())
    condition = (number if number.type is PREDICATE else number.compare(0, "NE")).node
    if isinstance(left, (Closure, Choice)) and isinstance(right, (Closure, Choice)):
        return _chosen(emitter, condition, left, right)
    skeleton = joined(skeleton_of(left), skeleton_of(right), "a value")
    arrays = [emitter.conformed(side, skeleton, "a value") for side in (left, right)]
    pairs = zip(*arrays, strict=True)
    return with_arrays(skeleton, iter([emitter.build.op("select", condition, *pair) for pair in pairs]))


def _chosen(
    emitter: ComputationEmitter, condition: Node, left: Closure | Choice, right: Closure | Choice
) -> LoweredValue:
    options = (*options_of(left), *options_of(right))
    if len(options) == 2:
        return choice(condition, options)
    first = emitter.as_index(left.selector) if isinstance(left, Choice) else emitter.index(0)  # type: ignore[arg-type]
    count = emitter.index(len(options_of(left)))
    second: Node = count
    if isinstance(right, Choice):
        second = emitter.build.op("add", emitter.as_index(right.selector), count)  # type: ignore[arg-type]
    return choice(emitter.build.op("select", condition, first, second), options)


def _switch_layer(emitter: ComputationEmitter, primitive: Primitive) -> LoweredValue:
    """One of a tuple of functions; a negative index counts from the end."""
    functions = primitive.elements(1)
    closures = [function for function in functions if isinstance(function, Closure)]
    if len(closures) < len(functions) or not closures:
        raise primitive.error("operand 1 must be a tuple of functions")
    if isinstance(primitive.operands[0], Number):
        return _element_of(closures, primitive)
    index = primitive.array(0).reshape(()).convert(INDEX_TYPE.dtype)
    zero, count = (emitter.build.number(number, index.dtype) for number in (0, len(closures)))
    return choice((index < zero).select(index + count, index).node, tuple(closures))


def _element_of(closures: list[Closure], primitive: Primitive) -> Closure:
    index = primitive.static(0)
    if not -len(closures) <= index < len(closures):
        raise primitive.error(f"there is no function {index} among {len(closures)}")
    return closures[index]


STRUCTURE = {
    "MakeTuple": _tuple,
    "make_tuple": _tuple,
    "make_list": _tuple,
    "MakeList": _tuple,
    "TupleGetItem": _element,
    "list_getitem": _element,
    "Depend": _first,
    "StopGradient": _first,
    "Return": _first,
    "Partial": _partial,
    "Switch": _switch,
    "SwitchLayer": _switch_layer,
    "switch_layer": _switch_layer,
}
"""By primitive of structure and control flow: its value."""


def _drop_unreachable(module: Module) -> None:
    """Erase computations of abandoned attempts at a loop."""
    reached: set[Graph] = set()
    waiting = [module.entry]
    while waiting:
        graph = waiting.pop()
        if graph not in reached:
            reached.add(graph)
            waiting.extend(called for node in graph.nodes for called in node.called_graphs)
    for graph in reversed(list(module.graphs)):
        if graph not in reached:
            module.erase_graph(graph)
