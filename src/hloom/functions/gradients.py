"""Derivatives of functions inside programs: the function becomes a module, is differentiated, and is embedded again.

Captured values become additional parameters of the module, so only its arguments are differentiated with respect to,
and derivatives nest without perturbation confusion (Siskind and Pearlmutter 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom import autodiff
from hloom.autodiff import Emitter
from hloom.functions.closure_conversion import first_order
from hloom.functions.control_flow import Arm
from hloom.functions.join_specs import CellSpec, JoinSpec, LeafSpec, PartsSpec
from hloom.functions.joins import Join
from hloom.functions.library import import_graphs
from hloom.functions.state import PathEnds
from hloom.functions.store import Store
from hloom.functions.values import (
    NONE,
    S32,
    AbstractValue,
    Arguments,
    Array,
    Const,
    Derived,
    Fields,
    Keywords,
    Ref,
    Tuple,
    described,
    is_none,
)
from hloom.ir import Apply, Module, Node, TensorType, TupleType
from hloom.ops import OPS
from hloom.rewrite import called_function

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


def call_derived(interpreter: Interpreter, derived: Derived, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """A call of what `grad` or `value_and_grad` made of a function."""
    options = derived.options
    if derived.transformation == "pullback":
        return options["pullback"](interpreter, arguments)
    if derived.transformation == "jacobian":
        return _jacobian(interpreter, derived, arguments, keywords)
    wrt = options["wrt"]
    chosen = _chosen(interpreter, wrt, len(arguments))
    linear = LinearizedFunction(interpreter, derived.function, arguments, keywords, chosen, is_scalar=True,
                              by_slopes=True, has_aux=bool(options.get("has_aux")))  # fmt: skip
    cotangents = linear.gradient()
    made = [linear.tree(number, cotangents) for number in chosen]
    gradient = Tuple(tuple(made)) if isinstance(wrt, tuple) else made[0]
    value = linear.value
    if options.get("has_aux"):
        assert isinstance(value, Tuple)
        if derived.transformation == "grad":
            return Tuple((gradient, value.items[1]))
    return gradient if derived.transformation == "grad" else Tuple((value, gradient))


def _chosen(interpreter: Interpreter, wrt: Any, count: int) -> list[int]:
    """Which of `count` arguments `wrt` names, counted from zero; TypeError is raised for what names none."""
    numbers = wrt if isinstance(wrt, (tuple, list)) else (wrt,)
    for number in numbers:
        if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
            interpreter.raise_error(TypeError, f"wrt is the number of an argument or a tuple of numbers, not {wrt!r}")
        if not -count <= number < count:
            interpreter.raise_error(TypeError, f"wrt={number}, but only {count} arguments are given")
    return [int(number) % count for number in numbers]


UNROLLED_ROWS = 8
"""The maximum number of elements of a result whose Jacobian rows are computed one by one, without a loop."""


def _jacobian(interpreter: Interpreter, derived: Derived, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """The derivative of every element of a result: one pull-back for each, the dimensions of the result first."""
    wrt = derived.options["wrt"]
    numbers = _chosen(interpreter, wrt, len(arguments))
    linear = LinearizedFunction(interpreter, derived.function, arguments, keywords, numbers, by_slopes=True)
    leaves = [leaf for leaf in _leaves(interpreter, linear.value) if leaf is not None]
    emitter = interpreter.emitter
    made: list[list[AbstractValue]] = [[] for _ in numbers]
    for position, leaf in enumerate(leaves):
        result = interpreter.numbers.array(leaf).type
        if position not in linear.moving:
            interpreter.refuse(f"{described(leaf)} has no derivative", TypeError)
        if linear.slopes:
            slope = {linear.part.wrt[0]: linear.of_parameter(linear.slopes[linear.moving.index(position)])}
            for column, argument in enumerate(numbers):
                made[column].append(linear.tree(argument, slope))
            continue
        if result.element_count > UNROLLED_ROWS:
            whole = _rows_in_a_loop(interpreter, linear, position, result)
            for column, argument in enumerate(numbers):
                made[column].append(linear.tree(argument, whole))
            continue
        rows: list[dict[int, Node]] = []
        for number in range(result.element_count):
            one_hot = np.zeros(result.dims, result.dtype.numpy)
            one_hot.reshape(-1)[number] = 1
            seed = emitter.constant(one_hot, result) if result.dims else emitter.constant(1, result)
            rows.append(linear.pull_back(_seeded(interpreter, linear, position, seed)))
        for column, argument in enumerate(numbers):
            trees = [linear.tree(argument, row) for row in rows]
            made[column].append(_stacked(interpreter, trees, result.dims))
    columns = [
        made[column][0] if len(leaves) == 1 and isinstance(linear.value, Array) else Tuple(tuple(made[column]))
        for column in range(len(numbers))
    ]
    return Tuple(tuple(columns)) if isinstance(wrt, tuple) else columns[0]


def _seeded(interpreter: Interpreter, linear: LinearizedFunction, position: int, seed: Node) -> list[Node]:
    """The cotangents of a result that is zero but for one of its arrays."""
    cotangents = [interpreter.emitter.zeros(linear.part.result_types[moving]) for moving in linear.moving]
    cotangents[linear.moving.index(position)] = seed
    return cotangents


def _rows_in_a_loop(
    interpreter: Interpreter, linear: LinearizedFunction, position: int, result: TensorType
) -> dict[int, Node]:
    """The pull-backs of all unit vectors of an array of the result, by parameter: the result's dimensions first.

    One loop, whose state is the number of the row and the rows computed so far: the graph does not grow with them.
    """
    module, outer = interpreter.module, interpreter.emitter
    count = result.element_count
    leaves = {number: linear.part.leaves[number].type for number in linear.part.wrt}
    types = [TensorType(leaf.dtype, (count, *leaf.dims)) for leaf in leaves.values()]
    state = TupleType([TensorType(S32), *types])
    condition = Emitter(module.add_graph(module.unique_graph_name("jacobian_goes_on"), parent=outer.graph))
    row = condition.element(condition.graph.add_parameter(state, "state"), 0)
    condition.graph.set_output(condition.compare("LT", row, condition.constant(count, S32)))
    body = Emitter(module.add_graph(module.unique_graph_name("jacobian_row"), parent=outer.graph))
    parameter = body.graph.add_parameter(state, "state")
    row = body.element(parameter, 0)
    is_it = body.compare("EQ", body.iota(S32, (count,), 0), body.broadcast(row, (count,)))
    seed = body.reshape(body.convert(is_it, result.dtype), result.dims)
    with interpreter.within(body, Store(interpreter.store)):
        made = linear.pull_back(_seeded(interpreter, linear, position, seed))
    outputs = [body.add(row, body.constant(1, S32))]
    for number, (leaf, whole) in enumerate(zip(leaves, types, strict=True), 1):
        piece = body.reshape(made[leaf], (1, *leaves[leaf].dims))
        starts = [row, *[body.constant(0, S32)] * leaves[leaf].rank]
        rows = body.element(parameter, number)
        outputs.append(body.op("dynamic-update-slice", rows, piece, *starts, type=whole))
    body.graph.set_output(body.tuple(outputs))
    initial = outer.tuple([outer.constant(0, S32), *map(outer.zeros, types)])
    loop = outer.graph.add_apply(OPS["while"], [initial], state, {"condition": condition.graph, "body": body.graph})
    return {
        number: outer.reshape(outer.element(loop, index), (*result.dims, *leaf.dims))
        for index, (number, leaf) in enumerate(leaves.items(), 1)
    }


def _stacked(interpreter: Interpreter, trees: Sequence[AbstractValue], dims: tuple[int, ...]) -> AbstractValue:
    """Trees of one structure as one tree of arrays with further dimensions in front."""
    first = trees[0]
    if isinstance(first, Array):
        emitter = interpreter.emitter
        if not dims:
            return first
        rows = [emitter.reshape(tree.node, (1, *tree.dims)) for tree in trees if isinstance(tree, Array)]
        whole = rows[0] if len(rows) == 1 else emitter.op("concatenate", *rows, dimensions=(0,))
        return Array(emitter.reshape(whole, (*dims, *first.dims)))
    rows = (interpreter.members.parts(tree) for tree in trees)
    parts = [_stacked(interpreter, column, dims) for column in zip(*rows, strict=True)]
    return interpreter.members.with_parts(first, parts)


class LinearizedFunction:
    """A function at a point: its value, and its derivative transposed."""

    def __init__(
        self,
        interpreter: Interpreter,
        function: AbstractValue,
        arguments: Arguments,
        keywords: Keywords,
        chosen: Sequence[int],
        *,
        is_scalar: bool = False,
        by_slopes: bool = False,
        has_aux: bool = False,
    ) -> None:
        self.interpreter = interpreter
        self.arguments = list(arguments)
        self.chosen = list(dict.fromkeys(chosen))
        part = _Part(interpreter, function, arguments, keywords, self.chosen)
        self.part = part
        if is_scalar:
            part.check_scalar(has_aux)
        self.moving = part.moving
        self.slopes: list[Node] = []
        self.residuals: list[Node] = []
        if not part.moving:
            self.value = part.finish(_call(interpreter, part.module, part.operands, "value"))
            return
        if by_slopes and part.is_of_one_number and part.has_forward_mode:
            # forward mode keeps nothing of a loop's rounds
            tangent = interpreter.emitter.constant(1, part.leaves[part.wrt[0]].type)
            outputs = _call(interpreter, autodiff.jvp(part.module, part.wrt), [*part.operands, tangent], "tangent")
            self.slopes = outputs[len(part.result_types) :]
            self.value = part.finish(outputs)
            return
        self.forward, self.backward = autodiff.vjp_parts(part.module, part.wrt)
        outputs = _call(interpreter, self.forward, part.operands, "forward")
        self.residuals = outputs[len(part.result_types) :]
        self.value = part.finish(outputs)

    def zeros(self) -> dict[int, Node]:
        """The cotangents of a result that depends on nothing."""
        return {number: self.interpreter.emitter.zeros(self.part.leaves[number].type) for number in self.part.wrt}

    def gradient(self) -> dict[int, Node]:
        """The gradient of a scalar result, by parameter."""
        if not self.moving:
            return self.zeros()
        if self.slopes:
            return {self.part.wrt[0]: self.of_parameter(self.slopes[0])}
        return self.pull_back([self.interpreter.emitter.constant(1, self.part.result_types[self.moving[0]])])

    def of_parameter(self, slope: Node) -> Node:
        """A slope as a cotangent of the parameter: in its element type, which the function may have converted from."""
        element = self.part.leaves[self.part.wrt[0]].type.dtype
        return slope if slope.array_type.dtype.is_complex else self.interpreter.numbers.convert(slope, element)

    def pull_back(self, cotangents: Sequence[Node]) -> dict[int, Node]:
        """The cotangents of the parameters that are differentiated with respect to, by parameter."""
        emitter = self.interpreter.emitter
        given = list(cotangents)
        given += [emitter.zeros(self.part.result_types[number]) for number in self.part.moving[len(given) :]]
        made = _call(self.interpreter, self.backward, [*given, *self.residuals], "backward")
        return dict(zip(self.part.wrt, made, strict=True))

    def tree(self, number: int, cotangents: dict[int, Node]) -> AbstractValue:
        """The gradient of an argument, in its structure; None for what is not a floating-point number."""
        return self.part.gradient_of(self.arguments[number], self.part.first_leaf[number], cotangents)


class _Part:
    """A function of some arguments as a first-order module, with the operands that stand for what it captures."""

    def __init__(
        self,
        interpreter: Interpreter,
        function: AbstractValue,
        arguments: Arguments,
        keywords: Keywords,
        chosen: Sequence[int],
    ) -> None:
        self.interpreter = interpreter
        calls = interpreter.calls
        module = interpreter.module
        graph = module.add_graph(module.unique_graph_name("differentiated"), parent=interpreter.emitter.graph)
        arm = Arm(Emitter(graph), Store(interpreter.store))
        join = Join(interpreter, interpreter.store)
        self.first_leaf: dict[int, int] = {}
        given = list(arguments)
        specs: dict[int, JoinSpec] = {}
        operands: list[Node] = []
        for number in chosen:
            specs[number] = interpreter.recursive_calls.parameter_spec(arguments[number], join, broaden=True)
            self.first_leaf[number] = len(operands)
            operands += specs[number].lower(join, arguments[number], interpreter.store)
        self.leaves: list[LeafSpec] = []
        alive = True
        active, interpreter.recursive_calls.active = interpreter.recursive_calls.active, {}
        try:
            with interpreter.frame_kept(), interpreter.within(arm.emitter, arm.store):
                inside = Join(interpreter, arm.store)
                for number, spec in specs.items():
                    leaves = list(spec.leaves())
                    nodes = iter([graph.add_parameter(leaf.type, f"wrt{number}") for leaf in leaves])
                    self.leaves += leaves
                    given[number] = spec.lift(inside, nodes)
                value = calls.call(function, given, keywords)
        except PathEnds:
            alive, value = False, NONE
        finally:
            interpreter.recursive_calls.active = active
        self.arm, self.alive, self.value = arm, alive, value
        is_tree = isinstance(value, (Ref, Tuple))
        whole = Join(interpreter, arm.store)
        spec_of = interpreter.recursive_calls.parameter_spec
        self.result = self._spec_in(arm, value) if is_tree else spec_of(value, whole, broaden=False)
        self.written: dict[Any, JoinSpec] = {}
        with interpreter.within(arm.emitter, arm.store):
            inside = Join(interpreter, arm.store)
            outputs: list[Node] = list(self.result.lower(inside, value, arm.store))
            for key in arm.store.changed() if alive else [key for key in arm.store.entries if key is interpreter.error]:
                held = arm.store.get(key)
                spec = join.unify([(join.store.held(key), join.store), (held, arm.store)], widen=True)
                self.written[key] = spec
                outputs += spec.lower(inside, held, arm.store)
            self.result_types = [node.array_type for node in outputs]
            graph.set_output(arm.emitter.tuple(outputs))
        self.module, captured = first_order(
            module, graph, depth=interpreter.settings.depth, recursive=interpreter.recursive_calls.recursive_graphs()
        )
        self.operands = [*operands, *captured]
        self.moving = [number for number, made in enumerate(self.result_types) if moves(made)]
        self.wrt = [number for number, leaf in enumerate(self.leaves) if moves(leaf.type)]
        if not self.wrt:
            interpreter.refuse(
                "there is nothing to differentiate with respect to: the arguments hold no floating-point numbers",
                TypeError, hint="pass floats, such as 2.0 for 2",
            )  # fmt: skip

    @property
    def has_forward_mode(self) -> bool:
        """Whether what it calls with derivatives of their own all have tangents: a `jax.custom_vjp` has none."""
        calls = [node for node in self.module.nodes() if isinstance(node, Apply) and node.opcode == "call"]
        called = map(called_function, calls)
        return all(function.has_forward_mode for function in called if function is not None)

    @property
    def is_of_one_number(self) -> bool:
        """Whether it is differentiated with respect to one real number."""
        types = [self.leaves[number].type for number in self.wrt]
        return len(types) == 1 and not types[0].rank and types[0].dtype.is_float

    def _spec_in(self, arm: Arm, value: AbstractValue) -> JoinSpec:
        with self.interpreter.within(arm.emitter, arm.store):
            return _thawed(
                self.interpreter.recursive_calls.parameter_spec(value, Join(self.interpreter, arm.store), broaden=False)
            )

    def check_scalar(self, has_aux: bool) -> None:
        value = self.value
        if not self.alive:  # `finish` raises what the function does
            return
        if has_aux:
            if not isinstance(value, Tuple) or len(value.items) != 2:
                self.interpreter.refuse(f"with has_aux a function returns a pair, not {described(value)}", TypeError)
            value = value.items[0]
        if not isinstance(value, Array) or value.dims or not moves(value.type):
            if isinstance(value, Const) and isinstance(value.value, float):
                return
            self.interpreter.refuse(
                f"a gradient needs a scalar result, one floating-point number, not {described(value)}",
                TypeError, hint="use hloom.vjp or hloom.jacobian for other results",
            )  # fmt: skip

    def finish(self, outputs: Sequence[Node]) -> AbstractValue:
        """The value of the function, and what it changed, of the results of its forward part."""
        interpreter = self.interpreter
        join = Join(interpreter, interpreter.store)
        nodes = iter(outputs[: len(self.result_types)])
        value = self.result.lift(join, nodes)
        for key, spec in self.written.items():
            interpreter.store.set(key, spec.lift(join, nodes))
        if not self.alive:
            raise PathEnds
        return value

    def gradient_of(self, argument: AbstractValue, first: int, cotangents: dict[int, Node]) -> AbstractValue:
        """A tree of cotangents in an argument's structure."""
        numbers = iter(range(first, len(self.leaves)))
        return self._gradient(argument, numbers, cotangents)

    def _gradient(self, argument: Any, numbers: Any, cotangents: dict[int, Node]) -> Any:
        if isinstance(argument, Array) or (
            isinstance(argument, Const) and isinstance(argument.value, (int, float, complex))
        ):
            number = next(numbers)
            if number not in cotangents:
                return NONE
            made = cotangents[number]
            return Array(made, self.leaves[number].weak and not made.array_type.rank)
        if not isinstance(argument, (Tuple, Ref)):
            return NONE
        parts = [self._gradient(item, numbers, cotangents) for item in self.interpreter.members.parts(argument)]
        return self.interpreter.members.with_parts(argument, parts)


def _thawed(spec: JoinSpec) -> JoinSpec:
    """A spec whose objects may be changed: they are the caller's own."""
    if isinstance(spec, CellSpec):
        spec.cell.frozen = None
        _thawed(spec.content)
    elif isinstance(spec, PartsSpec):
        for part in spec.parts:
            _thawed(part)
    return spec


def _call(interpreter: Interpreter, module: Module, operands: Sequence[Node], name: str) -> list[Node]:
    emitter = interpreter.emitter
    graph = import_graphs(interpreter.module, module, name)
    used = list(operands)[: len(graph.parameters)]
    if len(graph.nodes) <= 64:
        root = emitter.copy_graph(graph, used)
    else:
        root = emitter.graph.add_apply(OPS["call"], used, graph.root.type, {"to_apply": graph})
    return [emitter.element(root, number) for number in range(len(root.type.elements))]  # type: ignore[union-attr]


def moves(value_type: Any) -> bool:
    """Whether values of a type have tangents."""
    return isinstance(value_type, TensorType) and (value_type.dtype.is_float or value_type.dtype.is_complex)


def vjp(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """`vjp(function, *primals)`: the value, and the function of a cotangent."""
    function, *primals = arguments
    if keywords:
        interpreter.refuse(f"vjp of a function has no option '{next(iter(keywords))}'")
    linear = LinearizedFunction(interpreter, function, primals, {}, range(len(primals)))

    def pull_back(inner: Interpreter, given: Arguments) -> AbstractValue:
        (cotangent,) = given
        others = _counterparts(inner, linear.value, cotangent, "cotangent")
        pairs = zip(_leaves(inner, linear.value), others, strict=True)
        held = [other for leaf, other in pairs if isinstance(leaf, Array)]
        types = linear.part.result_types
        nodes = [
            _direction(inner, held[number], types[number], "cotangent of a result")
            for number in linear.part.moving
            if number < len(held)
        ]
        cotangents = linear.pull_back(nodes)
        return Tuple(tuple(linear.tree(number, cotangents) for number in range(len(primals))))

    return Tuple((linear.value, Derived("pullback", function, {"pullback": pull_back})))


def jvp(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """`jvp(function, primals, tangents)`: the value, and the derivative in the direction of the tangents."""
    named = [keywords[name] for name in ("primals", "tangents") if name in keywords]
    if len(arguments) + len(keywords) != 3 or len(named) != len(keywords):
        interpreter.raise_error(TypeError, "jvp() takes a function, a tuple of primals and a tuple of tangents")
    function, primals, tangents = [*arguments, *named]
    given = list(interpreter.iterators.items(primals))
    part = _Part(interpreter, function, given, {}, range(len(given)))
    if not part.has_forward_mode:
        interpreter.refuse(
            "a function of jax.custom_vjp has no forward mode", hint="differentiate it with hloom.grad or hloom.vjp"
        )
    moved = list(interpreter.iterators.items(tangents))
    if len(moved) != len(given):
        fewer = "fewer" if len(moved) < len(given) else "more"
        interpreter.raise_error(TypeError, f"there are {fewer} tangents than primals")
    pairs = zip(given, moved, strict=True)
    held = [leaf for primal, tangent in pairs for leaf in _counterparts(interpreter, primal, tangent, "tangent")]
    nodes = [
        _direction(interpreter, held[number], part.leaves[number].type, "tangent of a primal") for number in part.wrt
    ]
    outputs = _call(interpreter, autodiff.jvp(part.module, part.wrt), [*part.operands, *nodes], "tangent")
    value = part.finish(outputs)
    further = dict(zip(part.moving, outputs[len(part.result_types) :], strict=True))
    count = len(list(part.result.leaves()))
    results = [further.get(number) for number in range(count)]
    return Tuple((value, _shaped(interpreter, value, iter(results))))


def _leaves(interpreter: Interpreter, value: AbstractValue) -> list[Any]:
    if isinstance(value, Array) or (isinstance(value, Const) and isinstance(value.value, (int, float, complex))):
        return [value]
    return [leaf for item in interpreter.members.parts(value) for leaf in _leaves(interpreter, item)]


def _direction(interpreter: Interpreter, held: Any, wanted: TensorType, what: str) -> Node:
    """A tangent or cotangent, converted to the type of the value that it belongs to."""
    if held is None:
        interpreter.raise_error(TypeError, f"the {what} of type {wanted} is None: give zeros")
    dims = held.dims if isinstance(held, Array) else ()
    if dims not in ((), wanted.dims):
        interpreter.raise_error(TypeError, f"the {what} of type {wanted} has the dimensions {list(dims)}")
    return interpreter.numbers.as_type(held, wanted)


def _counterparts(interpreter: Interpreter, value: AbstractValue, other: AbstractValue, what: str) -> list[Any]:
    """For each leaf of a tree that of another one of the same structure, None where the other has None in its place."""
    leaves = _leaves(interpreter, value)
    if not leaves or is_none(other):
        return [None] * len(leaves)
    own, theirs = _fields(interpreter, value), _fields(interpreter, other)
    if own is None and theirs is None and (counterparts := _leaves(interpreter, other)):
        return counterparts
    items: list[Any] = []
    if own is not None and theirs is not None and len(own.items) == len(theirs.items):
        has_keys = own.keys is not None and theirs.keys is not None
        items = [theirs.get(key) for key in own.keys or ()] if has_keys else list(theirs.items)
    if own is None or not items or None in items:
        interpreter.raise_error(TypeError, f"the {what} of {described(value)} is {described(other)}")
    return [leaf for pair in zip(own.items, items, strict=True) for leaf in _counterparts(interpreter, *pair, what)]


def _fields(interpreter: Interpreter, value: AbstractValue) -> Fields | None:
    """What a tree holds; None for a leaf."""
    if isinstance(value, Tuple):
        return Fields(None, value.items)
    return interpreter.contents(value) if isinstance(value, Ref) else None


def _shaped(interpreter: Interpreter, value: AbstractValue, nodes: Any) -> AbstractValue:
    """Tangents in the structure of a result."""
    if isinstance(value, Array):
        node = next(nodes)
        return NONE if node is None else Array(node, value.weak)
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Const(0.0)
    if not isinstance(value, (Tuple, Ref)):
        return NONE
    parts = [_shaped(interpreter, item, nodes) for item in interpreter.members.parts(value)]
    return interpreter.members.with_parts(value, parts)
