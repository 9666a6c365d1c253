"""Run nodes, graphs and modules with numpy.

A graph is planned once, where it is first run: which nodes its output needs, in order, and which values are used for
the last time where. Running a plan is a generator over its steps that yields a generator for each graph called; one
loop runs them from a stack of its own, so that calls nest to any depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from hloom.evaluator.bitcast import scalar_bitcast
from hloom.evaluator.inputs import Inputs, arguments_of, assemble, fits, leaves_of
from hloom.evaluator.limits import MOST_BYTES, MOST_STEPS, EvaluationLimits, LimitReached
from hloom.evaluator.scalar_graphs import (
    SCALAR_IDENTITIES,
    common_shape,
    elements,
    is_pointwise,
    stacked,
    stretched,
)
from hloom.evaluator.table import TABLE, Control, Evaluator, Value, Values
from hloom.ir import (
    TOKEN,
    Apply,
    Constant,
    Effect,
    Graph,
    Literal,
    ModuleLike,
    Node,
    Parameter,
    TensorType,
    TupleType,
    Type,
    as_module,
    dtype_of,
    has_tiles,
    operands_of,
    reachable,
)
from hloom.ops import INLINABLE
from hloom.text import HloomError, Unsupported

DEEPEST = 100
"""How often a graph may be active at once (recursion, which HLO has not), and how deep calls may nest that an evaluator
makes element by element, such as a reduction whose computation reduces."""
_MALFORMED = (ValueError, TypeError, IndexError, KeyError, ArithmeticError, AttributeError)


class CannotEvaluate(Unsupported):
    """An instruction that cannot be evaluated; the message names it."""


def evaluate(
    module: ModuleLike,
    inputs: Inputs = (),
    *,
    limit: int | None = None,
    steps: int | None = MOST_STEPS,
    memory: int | None = MOST_BYTES,
    observe: Observer | None = None,
) -> tuple[np.ndarray, ...]:
    """The outputs of a module on these inputs, computed with numpy as one device computes them.

    Inputs are one array per parameter, in order or by name; the elements of a tuple count as parameters of their own
    (`pair.0`). Outputs are arrays, tuples flattened and tokens left out. `steps` is how many instructions may be
    executed, `limit` how many elements computed and graphs called in all, `memory` how many bytes the values in use
    and an instruction's temporaries may take (inputs and outputs included; an estimate from above, made before the
    instruction is executed); None sets no bound. `observe` is told every value, each time that it is computed, but for
    those of computations that are applied to whole arrays element by element.

    Raises CannotEvaluate naming the first instruction that cannot be, LimitReached naming the instruction and the loops
    around it, and HloomError for inputs that do not fit and for elided constants.

    >>> import numpy as np
    >>> from hloom.formats.hlo import parse
    >>> module = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
    >>> evaluate(module, [np.float32([1, 2])])
    (array([-1., -2.], dtype=float32),)
    """
    module = as_module(module)
    arguments = arguments_of(module.entry, inputs)
    with np.errstate(all="ignore"):
        value = GraphRunner(limit, steps, memory, observe).call(module.entry, arguments)
    return tuple(leaves_of(value))


def evaluate_graph(
    graph: Graph,
    arguments: Sequence[Value],
    *,
    limit: int | None = None,
    steps: int | None = MOST_STEPS,
    memory: int | None = MOST_BYTES,
) -> Value:
    """The value of a graph of one value per parameter; otherwise as `evaluate`."""
    with np.errstate(all="ignore"):
        return GraphRunner(limit, steps, memory).call(graph, arguments)


def evaluate_node(
    node: Apply,
    operands: Sequence[Value],
    *,
    limit: int | None = None,
    steps: int | None = MOST_STEPS,
    memory: int | None = MOST_BYTES,
) -> Value:
    """The value of one node, given its operands' values; otherwise as `evaluate`."""
    with np.errstate(all="ignore"):
        return GraphRunner(limit, steps, memory).apply(node, tuple(operands))


def literal_value(literal: Literal) -> Value:
    """The value of a literal; raises HloomError where any of it was elided."""
    if literal.is_elided:
        raise HloomError(
            f"the data of this {literal.type} constant were left out of the text, as {{...}}, and are never invented",
            hint="print the program with whole constants: print_large_constants in XLA's HloPrintOptions",
        )
    return assemble(literal.type, (leaf.numpy() for leaf in literal.leaves() if leaf.type is not TOKEN))


@dataclass(frozen=True, slots=True)
class EvaluationStep:
    """Compute the node's value, then forget the values used for the last time."""

    node: Node
    forgotten: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What running a graph does: known values, then steps in order."""

    constants: dict[Node, Value]
    steps: tuple[EvaluationStep, ...]


Observer: TypeAlias = Callable[[Node, Value], None]
"""Is told an instruction and its value."""
_Frame: TypeAlias = Generator[Any, Value, Value]
"""A graph or node that is being run: it yields the frames that it waits for, and is sent their values."""


class GraphRunner:
    """Runs graphs; remembers their plans, how deep calls nest, and what is left of the limits."""

    def __init__(
        self,
        limit: int | None = None,
        steps: int | None = MOST_STEPS,
        memory: int | None = MOST_BYTES,
        observe: Observer | None = None,
    ) -> None:
        self._observe = observe
        self._limits = EvaluationLimits(limit, steps, memory)
        self._depth = 0
        self._active: Counter[Graph] = Counter()
        self._plans: dict[Graph, EvaluationPlan] = {}
        self._pointwise: dict[Graph, bool] = {}

    def call(self, graph: Graph, arguments: Sequence[Value]) -> Value:
        """The value of a graph of these arguments."""
        return self._drive(self._run(graph, arguments, is_mapped=False))

    def map(self, graph: Graph, arrays: Sequence[np.ndarray]) -> Value:
        """A graph of scalars on every element of arrays: on whole arrays at once where all its nodes allow that."""
        shape = common_shape(arrays)
        if is_pointwise(graph, self._pointwise):
            return stretched(self._drive(self._run(graph, arrays, is_mapped=True)), shape)
        rows = [self.call(graph, row) for row in elements(arrays, shape)]
        return stacked(rows, shape, graph.root.type)

    def apply(self, node: Apply, operands: Values) -> Value:
        """The value of one node, checked against its type."""
        return self._settled(self._apply(node, operands))

    def apply_mapped(self, node: Apply, operands: Values) -> Value:
        """The value of one node of scalars whose operands are arrays of many such scalars."""
        return self._settled(self._apply_mapped(node, operands))

    def _settled(self, value: Value | _Frame) -> Value:
        return self._drive(value) if isinstance(value, Generator) else value

    def _drive(self, frame: _Frame) -> Value:
        """Run a frame and those that it yields, each until it returns; what one raises, the one below may catch."""
        if self._depth == DEEPEST:
            raise HloomError(f"calls that are made element by element nest deeper than {DEEPEST}")
        self._depth += 1
        stack = [frame]
        value: Any = None
        problem: Exception | None = None
        try:
            while stack:
                try:
                    stack.append(stack[-1].throw(problem) if problem else stack[-1].send(value))
                    value = problem = None
                except StopIteration as finished:
                    stack.pop()
                    value, problem = finished.value, None
                except Exception as error:
                    stack.pop()
                    problem = error
            if problem is not None:
                raise problem
            return value
        finally:
            self._depth -= 1

    def _apply(self, node: Apply, operands: Values) -> Value | _Frame:
        """A node's value, or the frame that makes its calls and returns it."""
        self._limits.execute(node, operands)
        value = self._compute(node, operands)
        if isinstance(value, Generator):
            return self._control(node, value, is_checked=True)
        return _checked(node, value)

    def _apply_mapped(self, node: Apply, operands: Values) -> Value | _Frame:
        if node.opcode in SCALAR_IDENTITIES:
            return operands[0]
        if node.opcode == "bitcast":
            return scalar_bitcast(node, np.asarray(operands[0]))
        if node.opcode in INLINABLE:
            return self._run(next(iter(node.called_graphs)), operands, is_mapped=True)
        self._limits.execute_mapped(node, operands)
        value = self._compute(node, operands)
        return self._control(node, value, is_checked=False) if isinstance(value, Generator) else value

    def _compute(self, node: Apply, operands: Values) -> Value | Control:
        row = _row(node)
        assert row.function is not None, "_row refuses those without"
        try:
            value = row.function(node, operands, self)
        except (HloomError, MemoryError, *_MALFORMED) as error:
            raise _refusal(node, error, operands) from error
        return np.asarray(value) if isinstance(value, np.generic) else value

    def _control(self, node: Apply, control: Control, *, is_checked: bool) -> _Frame:
        """Answer the calls of an evaluator of control flow, and return its value."""
        answer: Any = None
        calls = 0
        try:
            while True:
                wanted = control.send(answer)
                calls += 1
                answer = yield self._run(wanted.graph, wanted.arguments, is_mapped=False)
        except StopIteration as finished:
            value = finished.value
        except LimitReached as error:
            flow = node.op.flow
            if flow is None or not flow.is_loop:
                raise
            raise error.within(node.name, -(-calls // len(flow.callees))) from None  # a round calls each of them
        except (HloomError, MemoryError, *_MALFORMED) as error:
            raise _refusal(node, error, ()) from error
        return _checked(node, value) if is_checked else value

    def _run(self, graph: Graph, arguments: Sequence[Value], *, is_mapped: bool) -> _Frame:
        if self._active[graph] == DEEPEST:
            raise HloomError(f"graph {graph.name} calls itself, {DEEPEST} deep: HLO has no recursion")
        self._limits.call(graph.name)
        plan = self._plans.get(graph) or self._plan(graph)
        if len(arguments) != len(graph.parameters):
            raise HloomError(f"graph {graph.name} takes {len(graph.parameters)} values, {len(arguments)} are given")
        values = dict(plan.constants)
        values.update(zip(graph.parameters, arguments, strict=True))
        apply = self._apply_mapped if is_mapped else self._apply
        self._active[graph] += 1
        self._limits.hold(values.values())
        observe = None if is_mapped else self._observe
        if observe is not None:
            for node, value in values.items():
                observe(node, value)
        try:
            for step in plan.steps:
                node = cast(Apply, step.node)
                value = apply(node, tuple([values[operand] for operand in node.operands]))
                values[node] = (yield value) if isinstance(value, Generator) else value
                if observe is not None:
                    observe(node, values[node])
                self._limits.hold((values[node],))
                self._limits.release([values.pop(member) for member in step.forgotten])
        finally:
            self._active[graph] -= 1
            self._limits.release(values.values())
        return values[graph.root]

    def _plan(self, graph: Graph) -> EvaluationPlan:
        plan = self._plans[graph] = _plan_of(graph)
        return plan


def _checked(node: Apply, value: Value) -> Value:
    if _fits(value, node.type):
        return value
    if node.type is not None and has_tiles(node.type):
        value = _narrowed(value, node.type)
    if not _fits(value, node.type):
        raise CannotEvaluate(f"{node.name}: {node.opcode} gives {_shown(value)}, but its type is {node.type}")
    return value


def _narrowed(value: Value, type_: Type) -> Value:
    """Floats rounded to the precision of a type: XLA's compiler for TPUs mixes precisions, as `verify` accepts."""
    if isinstance(value, tuple) and isinstance(type_, TupleType) and len(value) == len(type_.elements):
        return tuple(map(_rounded, value, type_.elements))
    return _rounded(value, type_)


def _rounded(value: Value, type_: Type) -> Value:
    if not isinstance(value, np.ndarray) or not isinstance(type_, TensorType):
        return value
    are_floats = type_.dtype.is_float and dtype_of(value.dtype).is_float
    return value.astype(type_.dtype.numpy) if are_floats else value


def _refusal(node: Apply, error: Exception, operands: Values) -> HloomError:
    """What a node's evaluator raised, as an error that names the node; those that name one already stay."""
    if isinstance(error, (CannotEvaluate, LimitReached)):
        return error
    if isinstance(error, HloomError):
        problem = error.message
    elif isinstance(error, MemoryError):
        problem = "it takes too much memory"
    else:
        problem = f"operands {', '.join(map(_shown, operands))} and its attributes do not go together"
    return CannotEvaluate(f"{node.name}: cannot evaluate {node.opcode}: {problem}")


def _plan_of(graph: Graph) -> EvaluationPlan:
    if graph.is_declared:
        raise CannotEvaluate(f"graph {graph.name} is called, but not defined")
    needed = _needed(graph)
    constants: dict[Node, Value] = {}
    steps: list[EvaluationStep] = []
    seen = {graph.root}
    for node in reversed([node for node in graph.nodes if node in needed]):
        if isinstance(node, Constant):
            constants[node] = _constant_value(node)
        elif not isinstance(node, Parameter):
            last_uses = [member for member in dict.fromkeys(node.operands) if member not in seen]
            seen.update(last_uses)
            unused = [node] if node not in seen else []
            steps.append(EvaluationStep(node, (*last_uses, *unused)))
    return EvaluationPlan(constants, tuple(reversed(steps)))


def _needed(graph: Graph) -> dict[Node, None]:
    """The nodes that the output needs, and those that the outside world would notice."""
    needed = reachable([graph.root, *filter(_is_noticed, graph.nodes)], operands_of)
    for node in needed:
        if node.graph is not graph or node.opcode == "missing":
            raise CannotEvaluate(f"graph {graph.name} uses {node.name}, which it does not define")
    return needed


def _is_noticed(node: Node) -> bool:
    if not isinstance(node, Apply) or isinstance(node.function, Node):
        return False
    return node.function.effect is Effect.OUTSIDE or bool(node.attributes.get("custom_call_has_side_effect"))


def _constant_value(node: Constant) -> Value:
    if not isinstance(node.value, Literal):
        raise CannotEvaluate(f"{node.name}: a function as a value cannot be evaluated")
    try:
        return literal_value(node.value)
    except HloomError as error:
        raise HloomError(f"{node.name}: {error.message}", hint=error.hint) from None


def _row(node: Apply) -> Evaluator:
    if isinstance(node.function, Node):
        raise CannotEvaluate(f"{node.name}: a computed call cannot be evaluated")
    row = TABLE.get(node.opcode)
    if row is None:
        raise CannotEvaluate(f"{node.name}: cannot evaluate {node.opcode}: nothing says what it computes")
    if row.function is None:
        raise CannotEvaluate(f"{node.name}: cannot evaluate {node.opcode}: {row.because}")
    return row


def _fits(value: Value, type_: Type | None) -> bool:
    """Whether a value is of a type; a dynamic dimension may be smaller than its bound."""
    pending: list[tuple[Value, Type | None]] = [(value, type_)]
    while pending:
        value, type_ = pending.pop()
        if isinstance(type_, TupleType):
            if not isinstance(value, tuple) or len(value) != len(type_.elements):
                return False
            pending.extend(zip(value, type_.elements, strict=True))
        elif isinstance(type_, TensorType) and not (isinstance(value, np.ndarray) and fits(value, type_)):
            return False
    return True


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else str(value)
