"""Identifies the weights among the entry's parameters, the instructions that read them, and what shares a scale.

A weight is a parameter that a dot or a convolution reads, directly or moved (transposed, reshaped, converted, sliced
out of a stack in a loop, passed to the branches of a conditional), or the table of a gather. A parameter with a
dimension of examples is not one (`example_dims.py`). If a dot multiplies two parameters, one is an input of the
program: the one without a relative (another leaf of the same function argument) that is certainly a weight. Leaves of
an argument called params are weights. A parameter that mixes rows which the weights of another argument keep apart is
the adjacency matrix of a graph and not a weight. If nothing distinguishes them it is an error, and the user decides.
Tables are weights if a relative is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hloom.analysis import call_sites, is_loop
from hloom.compress.quantization.contraction_blocks import channel_blocks, fitting_groups, group_blocks
from hloom.compress.quantization.example_dims import Examples, ProductRead, examples_of
from hloom.compress.quantization.movement import MovedDims, Piece, is_mask_of, moved, unmoved
from hloom.compress.quantization.parameter_names import ParameterNames, path_of
from hloom.compress.quantization.recipe import Recipe, WeightFormat, WeightSelection
from hloom.ir import Apply, Constant, Graph, Module, Node, Parameter, TensorType, TupleType
from hloom.ops import PRODUCTS
from hloom.text import HloomError

HAS_EXAMPLES = "it is an input: it has a dimension of examples"
LEAST_BITS = 16
"""Floats narrower than this are left as they are."""
_GET = "get-tuple-element"
_ARGUMENTS_OF_WEIGHTS = frozenset(("params", "parameters", "variables", "weights"))
"""What flax's, haiku's and optax's users call the argument that holds the weights."""
_MOST_SOURCES = 64
"""Of how many instructions a value may be made, so that it is followed to parameters."""


@dataclass(frozen=True, slots=True)
class WeightUse:
    """A dot, convolution or gather that reads a weight, and where the weight's dimensions are in its operand."""

    node: Apply
    operand_index: int
    dims: MovedDims
    summed: tuple[Piece, ...]
    """What is summed up, or looked up as a whole, major to minor: in the order of the activation's dimensions, of a
    convolution its window's dimensions and then its input features, however the weight's own are written."""
    selected: frozenset[int]
    """The weight's dimensions of which the operand has one element: the layer, in a loop over layers."""

    @property
    def contracting(self) -> frozenset[int]:
        """The weight's dimensions that are summed up, or looked up as a whole."""
        return frozenset().union(*(piece.dims for piece in self.summed))

    @property
    def summed_count(self) -> int:
        """How many elements of the weight are summed up for one element of the result."""
        return prod(piece.extent or piece.size for piece in self.summed if piece.dims and piece.size > 1)


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter that is to be quantised; elements of a block of `blocks` share a scale.

    `summed_count` is how many of its elements a product sums up.
    """

    parameter: Parameter
    uses: tuple[WeightUse, ...]
    blocks: tuple[int, ...]
    format: WeightFormat
    summed_count: int

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def type(self) -> TensorType:
        assert isinstance(self.parameter.type, TensorType), "weights are arrays"
        return self.parameter.type


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Something the recipe covers but that is not quantised, and why."""

    name: str
    reason: str


def choose_weights(module: Module, recipe: Recipe) -> tuple[list[Weight], list[Exclusion]]:
    """The weights of a module in canonical form that a recipe selects, and what it skips.

    Raises HloomError where a parameter may be a weight or an input, and where only some of a weight's uses are meant.
    """
    selected, exclusions = select_weights(module, recipe, "quantised", masked=True, least_bits=LEAST_BITS)
    names = ParameterNames(module.entry.parameters)
    formats = {names[name]: form for name, form in recipe.by_weight}
    if len(formats) < len(recipe.by_weight):
        raise HloomError("a weight is named twice, with a format by either name")
    weights: list[Weight] = []
    for parameter, uses in selected.items():
        made = _weight(parameter, uses, recipe, formats.get(parameter, recipe.format))
        if isinstance(made, Weight):
            weights.append(made)
        elif recipe.weights is None:
            exclusions.append(Exclusion(parameter.name, made))
        else:
            raise HloomError(f"{parameter.name} cannot be quantised: {made}")
    return weights, exclusions


def select_weights(
    module: Module,
    selection: WeightSelection,
    what: str,
    *,
    masked: bool = False,
    least_bits: int = 0,
) -> tuple[dict[Parameter, list[WeightUse]], list[Exclusion]]:
    """The parameters of a module in canonical form that a selection covers, with their uses, and what it skips.

    `what` is what is to be done to them, for messages; with `masked`, weights behind a mask are included; floats of
    fewer bits than `least_bits` are skipped. Raises HloomError if a parameter may be a weight or an input.
    """
    entry = module.entry
    names = ParameterNames(entry.parameters)
    uses = {p: uses_of(p, masked=masked) for p in entry.parameters if isinstance(p.type, TensorType)}
    uses = {parameter: read_by for parameter, read_by in uses.items() if read_by}
    exclusions: list[Exclusion] = []
    if selection.weights is not None:
        wanted = names.all(selection.weights)
        for parameter in wanted:
            _check_named(parameter, uses.get(parameter, []), selection)
    else:
        weights, inputs = _weights_and_inputs(module, uses, selection)
        wanted = [parameter for parameter in weights if _is_chosen(parameter, uses[parameter], selection)]
        exclusions += [
            Exclusion(parameter.name, reason)
            for parameter, reason in inputs.items()
            if _is_chosen(parameter, uses[parameter], selection)
        ]
    selected: dict[Parameter, list[WeightUse]] = {}
    for parameter in dict.fromkeys(wanted):
        assert isinstance(parameter.type, TensorType), "only arrays have uses"
        reason = _reason_against(parameter.type, what, least_bits)
        if reason is None and parameter.type.element_count < selection.least:
            reason = f"it has {parameter.type.element_count:,} elements, fewer than {selection.least:,}"
        if reason is None:
            selected[parameter] = uses[parameter]
        elif selection.weights is None:
            exclusions.append(Exclusion(parameter.name, reason))
        else:
            raise HloomError(f"{parameter.name} cannot be {what}: {reason}")
    meant = frozenset(wanted)
    read = {use.node for parameter in meant for use in uses.get(parameter, ())}
    if selection.weights is None:
        exclusions += [
            Exclusion(parameter.name, "it may be a table or an input, and no other weight belongs to the same argument")
            for parameter, many in uses.items()
            if parameter not in meant
            and all(use.node.opcode == "gather" for use in many)
            and _is_chosen(parameter, many, selection)
        ]
    exclusions += [
        Exclusion(node.name, "no operand is a parameter, directly or through moves of data")
        for graph in module.graphs
        for node in graph.nodes
        if node.opcode in PRODUCTS and selection.chooses(node) and node not in read
    ]
    return selected, exclusions


def uses_of(parameter: Parameter, *, masked: bool = False) -> list[WeightUse]:
    """The dots, convolutions and gathers that read a parameter, moved or not, also inside loops.

    With `masked`, also those that read it behind a mask, which leaves zeros.
    """
    assert isinstance(parameter.type, TensorType), "only arrays are weights"
    origin = parameter.type
    uses: list[WeightUse] = []
    seen: set[Node] = {parameter}
    pending: list[tuple[Node, MovedDims]] = [(parameter, unmoved(origin))]
    while pending:
        node, dims = pending.pop()
        for user in node.users:
            if not isinstance(user, Apply) or not user.has_row:
                continue
            if user.opcode == "tuple":
                following = [(element, dims) for element in (*passed_on(node, user), *taken_by_branches(node, user))]
            elif user.opcode == "conditional":
                following = [(parameter, dims) for parameter in branch_parameters(user, node)]
            else:
                uses += _uses_by(user, node, dims, origin)
                operand_index = user.operands.index(node)
                further = dims if masked and is_mask_of(user, operand_index) else moved(user, operand_index, dims)
                following = [] if further is None else [(user, further)]
            for value, further in following:
                if value not in seen:
                    seen.add(value)
                    pending.append((value, further))
    return uses


def passed_on(node: Node, state: Apply) -> Iterator[Apply]:
    """The elements, in the bodies of loops and behind them, that are always the element of a tuple that a node is.

    Empty where the tuple is not the initial state of one loop alone.
    """
    loop = loop_of(state)
    if loop is None:
        return
    body = loop.attributes["body"]
    for index in invariant_indices(node, state, body):
        for whole in (body.parameters[0], loop):
            yield from elements(whole, index)


def taken_by_branches(node: Node, operands: Apply) -> Iterator[Apply]:
    """The elements, in the branches of a conditional, of a tuple that a node is.

    Empty where the tuple is not what one conditional alone takes.
    """
    conditional = conditional_of(operands)
    if conditional is None:
        return
    for parameter in branch_parameters(conditional, operands):
        for index, element in enumerate(operands.operands):
            if element is node:
                yield from elements(parameter, index)


def conditional_of(operands: Node) -> Apply | None:
    """The conditional that takes a tuple, where nothing else uses the tuple, and branches take elements out of it."""
    users = operands.users
    if len(users) != 1 or not isinstance(users[0], Apply) or users[0].opcode != "conditional" or operands.is_output:
        return None
    parameters = branch_parameters(users[0], operands)
    is_apart = all(user.opcode == _GET for parameter in parameters for user in parameter.users)
    return users[0] if is_apart and parameters and not any(p.is_output for p in parameters) else None


def branch_parameters(conditional: Apply, operand: Node) -> list[Node]:
    """The parameters of the branches that take an operand of a conditional."""
    return [
        site.computation.parameters[0]
        for site in call_sites(conditional)
        if len(site.operands) == len(site.computation.parameters) == 1 and site.operands[0] is operand
    ]


def loop_of(state: Node) -> Apply | None:
    """The loop whose initial state a tuple is, where nothing else uses the tuple."""
    users = state.users
    if len(users) != 1 or not isinstance(users[0], Apply) or not is_loop(users[0]) or state.is_output:
        return None
    return users[0] if users[0].opcode == "while" and isinstance(users[0].type, TupleType) else None


def invariant_indices(node: Node, state: Node, body: Graph) -> list[int]:
    """The elements of a loop's initial state that a node is, and that the body yields as it takes them."""
    root, taken = body.root, body.parameters[0]
    if root.opcode != "tuple":
        return []
    return [
        index
        for index, element in enumerate(state.operands)
        if element is node
        and root.operands[index].opcode == _GET
        and root.operands[index].operands[0] is taken
        and root.operands[index].attributes["index"] == index
    ]


def elements(whole: Node, index: int) -> list[Apply]:
    """The instructions that take an element out of a tuple."""
    return [
        user
        for user in whole.users
        if isinstance(user, Apply) and user.opcode == _GET and user.attributes["index"] == index
    ]


def _uses_by(user: Apply, node: Node, dims: MovedDims, origin: TensorType) -> Iterator[WeightUse]:
    for operand_index, operand in enumerate(user.operands):
        summed = _summed_dims(user, operand_index) if operand is node else None
        if summed is not None:
            sizes = dict.fromkeys(range(origin.rank), 1)
            for pieces in dims:
                for piece in pieces:
                    sizes.update({dim: sizes[dim] * piece.size for dim in piece.dims})
            yield WeightUse(
                user,
                operand_index,
                dims,
                tuple(piece for dim in summed for piece in dims[dim]),
                frozenset(dim for dim, size in sizes.items() if size == 1 < origin.dims[dim]),
            )


def _summed_dims(user: Apply, operand_index: int) -> tuple[int, ...] | None:
    """The dimensions of an operand over which a user sums; None for other users and operands.

    They are in the order of `WeightUse.summed`. Those of a gather are the dimensions that it takes as a whole.
    """
    match user.opcode, operand_index:
        case "dot", 0 | 1:
            if not _is_layer(user):
                return None
            sides = [tuple(user.attribute(f"{side}_contracting_dims") or ()) for side in ("lhs", "rhs")]
            pairs = sorted(zip(sides[1 - operand_index], sides[operand_index], strict=True))
            return tuple(dim for _, dim in pairs)
        case "convolution", 1:
            labels = user.attributes["dim_labels"].rhs
            window = sorted((int(letter), dim) for dim, letter in enumerate(labels) if letter.isdecimal())
            return (*(dim for _, dim in window), labels.index("i"))
        case "gather", 0:
            looked_up = {*user.attributes["start_index_map"], *(user.attribute("operand_batching_dims") or ())}
            table = user.operands[0].type
            assert isinstance(table, TensorType), "a gather reads an array"
            return tuple(dim for dim in range(table.rank) if dim not in looked_up)
    return None


def _is_layer(dot: Apply) -> bool:
    """Whether a dot sums, and not all of both operands: an outer product, or an inner one, has no weight."""
    contracting = len(dot.attribute("lhs_contracting_dims") or ())
    batch = len(dot.attribute("lhs_batch_dims") or ())
    ranks = [operand.type.rank for operand in dot.operands if isinstance(operand.type, TensorType)]
    return contracting > 0 and any(rank > contracting + batch for rank in ranks)


def _weights_and_inputs(
    module: Module, uses: dict[Parameter, list[WeightUse]], selection: WeightSelection
) -> tuple[list[Parameter], dict[Parameter, str]]:
    """The parameters that are weights: of two that are multiplied with each other, not the one that is an input.

    Then those that are inputs though they are multiplied with no parameter, and why.
    """
    readers: dict[tuple[Node, int], Parameter] = {
        (use.node, use.operand_index): parameter for parameter, many in uses.items() for use in many
    }
    pairs = [
        (first, readers[node, 1])
        for (node, operand_index), first in readers.items()
        if operand_index == 0 and node.opcode in PRODUCTS and (node, 1) in readers
    ]
    undecided = {parameter for first, second in pairs for parameter in (first, second) if first is not second}
    undecided |= {
        parameter
        for (node, operand_index), parameter in readers.items()
        if node.opcode == "dot" and (node, 1 - operand_index) not in readers
        if _is_made_of_weights(node.operands[1 - operand_index], parameter)
    }
    images = {
        operand
        for node, _ in readers
        if node.opcode == "convolution" and isinstance(operand := node.operands[0], Parameter)
    }
    multiplied = [p for p, many in uses.items() if any(use.node.opcode != "gather" for use in many)]
    reads = {p: [ProductRead(use.node, use.operand_index) for use in uses[p]] for p in multiplied}
    unsure = frozenset(undecided | images)
    evidence = examples_of(module, reads, unsure)
    certain = [parameter for parameter in multiplied if parameter not in unsure | evidence.parameters]
    fixed = _fixed_matrices([one for one in certain if _is_chosen(one, uses[one], selection)], evidence)
    if fixed:
        evidence = examples_of(module, reads, unsure | fixed)
        certain = [parameter for parameter in multiplied if parameter not in unsure | fixed | evidence.parameters]
    examples = evidence.parameters | fixed
    for pair in pairs:
        certain += [one for one, other in (pair, pair[::-1]) if other in examples and one not in examples]
    for pair in pairs:
        named = [parameter for parameter in pair if _is_named_a_weight(parameter)]
        certain += named if len(named) == 1 and not set(pair) & {*certain, *examples} else ()
    relatives = {path_of(parameter)[0] for parameter in certain}
    weights = {*certain, *(p for p in uses if path_of(p)[0] in relatives and p not in fixed)}
    for first, second in pairs:
        both = {first, second}
        if not both & weights and any(_is_chosen(one, uses[one], selection) for one in both):
            raise HloomError(
                f"of the parameters {first.name} and {second.name}, which are multiplied with each other, one is a "
                "weight and one an input: the program does not say which",
                hint=f"name the weight: only=['{first.name}'], or only=['{second.name}']; or --only NAME",
            )
    chosen = [parameter for parameter in certain if _is_chosen(parameter, uses[parameter], selection)]
    has_examples = evidence.has_axes or evidence.parameters
    if chosen and not has_examples and evidence.iterated.issuperset(chosen):
        raise _unclear(chosen[0], chosen[1:], "maps what it is multiplied with to the same again and again")
    inputs = {
        p: "it mixes what the weights keep apart, and is of another argument" if p in fixed else HAS_EXAMPLES
        for p in uses
        if p in examples - weights - undecided - images
    }
    return [parameter for parameter in uses if parameter in weights], inputs


def _is_named_a_weight(parameter: Parameter) -> bool:
    """Whether it is a leaf of an argument whose name says that it holds weights."""
    path = path_of(parameter)
    return len(path) > 1 and path[0] in _ARGUMENTS_OF_WEIGHTS


def _fixed_matrices(certain: Sequence[Parameter], evidence: Examples) -> frozenset[Parameter]:
    """Parameters that mix what weights keep apart and are no leaves of their argument: the adjacency of a graph.

    Raises HloomError for those that nothing tells from weights.
    """
    fixed: set[Parameter] = set()
    for parameter in certain:
        others = sorted(evidence.mixing.get(parameter, ()), key=lambda other: other.number)
        path, paths = path_of(parameter), [path_of(other) for other in others]
        if not others or (len(path) > 1 and any(path[0] == other[0] or len(other) == 1 for other in paths)):
            continue
        if len(path) == 1 and all(len(other) == 1 for other in paths):
            if not evidence.has_axes:
                raise _unclear(parameter, others, "mixes what other weights keep apart, as a graph's adjacency does")
        elif len(path) == 1 or all(map(_is_named_a_weight, others)):
            fixed.add(parameter)
        elif not _is_named_a_weight(parameter):
            raise _unclear(parameter, others, "mixes what the weights of another argument keep apart")
    return frozenset(fixed)


def _unclear(parameter: Parameter, others: Sequence[Parameter], why: str) -> HloomError:
    both = ", ".join(f"'{one.name}'" for one in (parameter, *others))
    rest = f", or only=[{', '.join(repr(one.name) for one in others)}] if it is an input" if others else ""
    return HloomError(
        f"{parameter.name} may be a weight or a fixed matrix: it {why}, and the program does not say which",
        hint=f"name the weights: only=[{both}]{rest}; or --only NAMES",
    )


def _is_made_of_weights(value: Node, multiplied: Parameter) -> bool:
    """Whether a value that a parameter is multiplied with is computed from leaves of one other argument alone.

    So kernels of an LSTM are joined, and those of a normalised layer scaled, before the input is multiplied with them.
    """
    sources = _sources(value, multiplied.graph)
    return len(sources) > 1 and path_of(multiplied)[0] != path_of(next(iter(sources)))[0]


def _sources(value: Node, entry: Graph) -> set[Parameter]:
    """The parameters that a value is computed from; empty where it is of anything else, or of several arguments.

    What a loop passes on unchanged is what it starts with; all else that a called computation is given is unknown.
    """
    sources: set[Parameter] = set()
    seen = {value}
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, Parameter) and node.graph is entry:
            if sources and path_of(node)[0] != path_of(next(iter(sources)))[0]:
                return set()
            sources.add(node)
            continue
        operands = node.operands
        if node.opcode == _GET:
            taken, index = operands[0], node.attributes["index"]
            loop = next(iter(taken.graph.callers), None) if isinstance(taken, Parameter) else taken
            if not isinstance(loop, Apply) or loop.opcode != "while" or len(loop.attributes["body"].callers) != 1:
                return set()
            state = loop.operands[0]
            if state.opcode != "tuple" or index not in invariant_indices(
                state.operands[index], state, loop.attributes["body"]
            ):
                return set()
            operands = (state.operands[index],)
        elif isinstance(node, Parameter) or (isinstance(node, Apply) and call_sites(node) and node.opcode != "reduce"):
            return set()
        fresh = [operand for operand in operands if operand not in seen]
        seen.update(fresh)
        pending += fresh
        if len(seen) > _MOST_SOURCES:
            return set()
    return sources


def _is_chosen(parameter: Parameter, uses: Iterable[WeightUse], selection: WeightSelection) -> bool:
    return any(selection.chooses(use.node, parameter) for use in uses)


def _check_named(parameter: Parameter, uses: list[WeightUse], selection: WeightSelection) -> None:
    if not _is_chosen(parameter, uses, selection):
        what = "reads it" if not uses else "that the recipe chooses reads it"
        raise HloomError(f"{parameter.name} is not a weight: no {', '.join(selection.opcodes)} {what}")


def _reason_against(type_: TensorType, what: str, least_bits: int) -> str | None:
    """Why a parameter of a type does not qualify for `what`; None if it does."""
    if not type_.is_static:
        return f"it is {type_}: its size is not known"
    if not type_.dtype.is_float:
        return f"it is {type_}: only floats are {what}"
    return f"it is {type_}: it is narrow already" if type_.dtype.bits < least_bits else None


def _weight(parameter: Parameter, uses: list[WeightUse], recipe: Recipe, form: WeightFormat) -> Weight | str:
    """A weight and its blocks, or why it has none; raises HloomError where its uses do not go together."""
    chosen = [use for use in uses if recipe.chooses(use.node, parameter)]
    products = [use for use in uses if use.node.opcode != "gather"]
    other = next((use for use in products if use not in chosen), None)
    if other is not None and other.node.opcode in recipe.opcodes:
        raise HloomError(
            f"{parameter.name} is read by {chosen[0].node.name}, which is quantised, and by {other.node.name}, "
            "which is not: it can have one type only",
            hint="choose both by their scope, or neither",
        )
    if parameter.is_output:
        raise HloomError(f"{parameter.name} is an output of the program: it cannot have another type")
    assert isinstance(parameter.type, TensorType), "only arrays are weights"
    dims = parameter.type.dims
    first = min(chosen, key=_precedence)
    if form.granularity == "tensor":
        selected = frozenset.intersection(*(use.selected for use in chosen))
        blocks = tuple(1 if dim in selected else max(size, 1) for dim, size in enumerate(dims))
    else:
        made = _blocks(first, dims, form)
        if isinstance(made, str):
            return made
        blocks = made
    return Weight(parameter, tuple(uses), blocks, form, first.summed_count)


def _blocks(use: WeightUse, dims: tuple[int, ...], form: WeightFormat) -> tuple[int, ...] | str:
    """What shares a scale, of elements that a use sums up: a channel or a group; or why that is not a block."""
    if form.group is None or form.group >= use.summed_count:
        return channel_blocks(dims, use.dims, use.summed) or (
            "what is summed up for one element of a result is not a block of its dimensions"
        )
    made = group_blocks(dims, use.summed, form.group)
    if made is not None:
        return made
    sizes = "x".join(str(piece.extent or piece.size) for piece in use.summed if piece.dims and piece.size > 1)
    fitting = [size for size in fitting_groups(dims, use.summed) if size > 1]
    fits = f"; groups of {', '.join(map(str, fitting))} are" if fitting else ""
    return (
        f"groups of {form.group} of the {use.summed_count:,} elements ({sizes}) that are summed up are not blocks of "
        f"its dimensions{fits}"
    )


def _precedence(use: WeightUse) -> int:
    """Whose contracting dimensions blocks follow where uses differ: products, then lookups, then fixed positions."""
    if use.node.opcode != "gather":
        return 0
    return 2 if isinstance(use.node.operands[1], Constant) else 1


def element_count(weights: Iterable[Weight]) -> int:
    """How many elements some weights have together."""
    return sum(prod(weight.type.dims) for weight in weights)
