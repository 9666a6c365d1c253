"""`prune_structured`: programs with fewer channels, heads or experts, equal to the original with these weights zero."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hloom.compress.pruning.axis_class import axis_class
from hloom.compress.pruning.dimension_dependency import Blocked, Coupling, LeafDim, OperandDim, kept_positions
from hloom.compress.pruning.masks import count_of, lowest
from hloom.compress.pruning.options import StructuredPruningOptions
from hloom.compress.pruning.reduction_correction import OutputPadding, ReductionCorrection
from hloom.compress.pruning.removal import remove_positions
from hloom.compress.pruning.removed_values import Removed, missed_terms, removed_values
from hloom.compress.pruning.scores import magnitudes
from hloom.compress.pruning.separation import separate_uses
from hloom.compress.pruning.stacked_layers import StackedLayers, stacked_layers
from hloom.compress.pruning.weight_arrays import check_count, checked
from hloom.compress.pruning.weight_matrix import matrix_dims
from hloom.compress.quantization import (
    Exclusion,
    KeywordsOf,
    ParameterNames,
    WeightUse,
    check_program,
    read_selection,
    select_weights,
    uses_of,
)
from hloom.distribute.propagation import DataflowGraph
from hloom.ir import Module, ModuleLike, Node, Parameter, TensorType, Trait, as_module, verify
from hloom.ops import CALLERS, with_trait
from hloom.passes import canonicalize_in_place, cse
from hloom.text import Display, Displayed, DisplayTable, HloomError

MOST_CUTS = 8
"""How many values may be kept whole for one axis."""
_MULTIPLYING = with_trait(Trait.CONTRACTS) | {"gather", "multiply"}
_MOVING = CALLERS | with_trait(Trait.TUPLE) | with_trait(Trait.REINDEXES) | {"convert", "dynamic-slice", "opt-barrier"}
"""What a weight goes through on its way to what multiplies by it."""


class PrunedDim(NamedTuple):
    """A dimension of a weight: how many positions are kept, and the dimension that numbers layers, if there is one."""

    weight: str
    dim: int
    kept: int
    layer_dim: int | None
    json_keys = "weight dim kept layer_dim"


@dataclass(frozen=True, slots=True, eq=False)
class PrunedAxis:
    """Dimensions of weights that lost positions together.

    `name` is the first of them; of `size` units (channels, heads), `kept` are kept. `dims` are, by weight's name and
    dimension, the positions that are kept: where layers of a stack have positions of their own, a row of them for each
    layer, and `layer_dims` are the dimensions that number layers. `why_shared` says why layers lose the same positions.
    """

    name: str
    role: str
    size: int
    kept: int
    dims: Mapping[tuple[str, int], np.ndarray]
    layer_dims: Mapping[tuple[str, int], int] = field(default_factory=dict)
    why_shared: str | None = None
    json_keys = "name role size kept dims=pruned_dims why_shared"

    @property
    def pruned_dims(self) -> list[PrunedDim]:
        """The dimensions, with the number of positions that are kept."""
        return [PrunedDim(*key, cut.shape[-1], self.layer_dims.get(key)) for key, cut in self.dims.items()]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StructuredPruning(Displayed):
    """A program without the positions of dimensions that matter least.

    `module` takes smaller arrays: `convert` cuts those of the original. It computes what the original computes with
    `zeroed` arrays, to rounding. `exclusions` are the dimensions that are meant and left, and why.
    """

    module: Module
    original: Module
    axes: tuple[PrunedAxis, ...]
    exclusions: tuple[Exclusion, ...]

    def display(self) -> Display:
        left = [(one.name, one.reason) for one in self.exclusions]
        axes = ((axis.name, axis.role, axis.size, axis.kept) for axis in self.axes)
        tables = (
            DisplayTable("axes", ("axis", "role", "size", "kept"), axes, len(self.axes)),
            DisplayTable("left as they are", ("name", "why"), left, len(left)),
        )
        kept, size = sum(axis.kept for axis in self.axes), sum(axis.size for axis in self.axes)
        return Display(f"<{self.original.name} pruned to {kept:,} of {size:,} units on {len(self.axes)} axes>", tables)

    def convert(self, arrays: Mapping[str, Any] | Sequence[Any]) -> Any:
        """The pruned program's arrays, of the original's: the kept positions.

        A sequence holds all inputs in order; a mapping any of them by name, the weights that are cut among them. Raises
        HloomError for a weight that is missing, of another shape or type, or not finite.
        """
        return self._changed(arrays, _taken)

    def zeroed(self, arrays: Mapping[str, Any] | Sequence[Any]) -> Any:
        """The original's arrays, with zeros at the positions that are removed."""
        return self._changed(arrays, _with_zeros)

    def kept(self) -> dict[str, np.ndarray]:
        """The positions that are kept, by `NAME.DIMENSION`; of layers with positions of their own a row for each."""
        return {f"{name}.{dim}": positions for axis in self.axes for (name, dim), positions in axis.dims.items()}

    def _changed(self, arrays: Mapping[str, Any] | Sequence[Any], change: Any) -> Any:
        parameters = {parameter.name: parameter for parameter in self.original.entry.parameters}
        cuts: dict[int, list[tuple[int, np.ndarray, int | None]]] = {}
        for axis in self.axes:
            for (name, dim), positions in axis.dims.items():
                layer_dim = axis.layer_dims.get((name, dim))
                cuts.setdefault(parameters[name].number, []).append((dim, positions, layer_dim))
        if isinstance(arrays, Mapping):
            keys: Mapping[int, Any] = ParameterNames(self.original.entry.parameters).keys(arrays, cuts)
            result: Any = dict(arrays)
        else:
            result = list(arrays)
            check_count(self.original, result)
            keys = {number: number for number in cuts}
        for number, dims in cuts.items():
            array = checked(self.original.entry.parameters[number], result[keys[number]])
            for dim, positions, layer_dim in dims:
                array = change(array, dim, positions, layer_dim)
            result[keys[number]] = np.ascontiguousarray(array)
        return result


@KeywordsOf(StructuredPruningOptions)
def prune_structured(
    module: ModuleLike, weights: Mapping[str, Any], options: StructuredPruningOptions
) -> StructuredPruning:
    """Remove the share `sparsity` of the channels, attention heads or experts of a program, those that matter least.

    `weights` are the arrays of all weights by name, biases and scales of norms among them: what is not among them is an
    input of the program. Of the dimensions that products of `opcodes` write, in whose op_name `scope` is found, or of
    the weights `only`, those are followed through the program that are of `axes`: "channels", "heads" (of attention),
    "head_dims", "experts", "residual". What matters is the sum of squares of the weights at a position, of every weight
    divided by its mean; not of biases and statistics. `multiple`: numbers that are kept are multiples of it. Dimensions
    that reach an output are left, or with `pad_outputs` put back there, with what zero weights make of them. Layers of
    a loop lose as many positions each, but others in each, unless something needs the same in all, or with
    `shared_positions`. An axis is removed only where the program then computes what the original computes with zeros,
    else `exclusions` says why not. Raises HloomError where nothing can be removed.

    >>> import hloom, numpy as np
    >>> layer = hloom.parse('''ENTRY layer {
    ...   x = f32[2,4] parameter(0)
    ...   up = f32[4,3] parameter(1)
    ...   h = f32[2,3] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ...   a = f32[2,3] exponential(h)
    ...   down = f32[3,5] parameter(2)
    ...   ROOT y = f32[2,5] dot(a, down), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ... }''')
    >>> arrays = {"up": np.float32([[1, 0, 2]] * 4), "down": np.float32([[1] * 5] * 3)}
    >>> pruned = hloom.prune_structured(layer, arrays, 1 / 3, only=["up"])
    >>> [str(p.type) for p in pruned.module.entry.parameters], pruned.kept()["up.1"].tolist()
    (['f32[2,4]', 'f32[4,2]', 'f32[2,5]'], [0, 2])
    """
    return prune_structured_with(as_module(module), weights, options)


def prune_structured_with(
    module: Module, weights: Mapping[str, Any], options: StructuredPruningOptions
) -> StructuredPruning:
    """The same for options that are made already."""
    selection = read_selection(options, "pruned")
    check_program(module, "pruned")
    copy = module.clone()
    canonicalize_in_place(copy)
    separate_uses(copy)
    arrays = _named(copy, weights)
    selected, exclusions = select_weights(copy, selection, "pruned")
    search = _AxisSearch(copy, arrays, pad_outputs=options.pad_outputs)
    readers = {use.node for number in arrays for use in uses_of(copy.entry.parameters[number])}
    for parameter, uses in selected.items():
        if parameter.number not in arrays:
            exclusions.append(Exclusion(parameter.name, "no array is given for it"))
            continue
        sizes = parameter.dims
        for dim in _free_dims(parameter, uses):
            reason = search.add(parameter, dim, options.axes, readers) if sizes[dim] > 1 else None
            if reason is not None:
                search.exclusions.append(Exclusion(f"{parameter.name}, dimension {dim}", reason))
    exclusions = [*search.exclusions, *exclusions]
    if not search.axes:
        why = f"; {exclusions[0].name}: {exclusions[0].reason}" if exclusions else ""
        others = f"; there are {', '.join(sorted(search.left_roles))}" if search.left_roles else ""
        raise HloomError(f"{module.name} has no axis to prune{why}", hint=f"axes are {', '.join(options.axes)}{others}")
    pruned = search.remove(options.sparsity, options.multiple, shared_positions=options.shared_positions)
    cse(copy)
    return StructuredPruning(copy, module, tuple(pruned), tuple(exclusions))


def _free_dims(parameter: Parameter, uses: Sequence[WeightUse]) -> tuple[int, ...]:
    """The dimensions of a weight that products of it have in their results."""
    assert isinstance(parameter.type, TensorType), "weights are arrays"
    return matrix_dims(parameter.type, uses)[0].free


class _AxisSearch:
    """The axes of a module that can be removed, with their couplings; `arrays` are by parameter's number."""

    def __init__(self, module: Module, arrays: Mapping[int, np.ndarray], *, pad_outputs: bool) -> None:
        self.module, self.arrays = module, arrays
        self.dataflow = DataflowGraph(module)
        self.weights = {
            leaf: module.entry.parameters[number]
            for number in arrays
            for leaf in self.dataflow.values.get(module.entry.parameters[number], ())
        }
        self.weight_values = frozenset(self.weights)
        outputs = frozenset(self.dataflow.values.get(module.entry.root, ()))
        self.fixed_outputs, self.padded_outputs = (frozenset(), outputs) if pad_outputs else (outputs, frozenset())
        self.axes: list[tuple[str, str, Coupling]] = []
        self.left_roles: set[str] = set()
        self.exclusions: list[Exclusion] = []
        self._corrections: list[ReductionCorrection] = []
        self._paddings: list[OutputPadding] = []
        self._multiplied: dict[int, bool] = {}
        self._taken: set[LeafDim] = set()
        self._restricted: set[LeafDim] = set()
        self._refused: dict[LeafDim, Blocked] = {}
        self._unwanted: set[LeafDim] = set()

    def add(self, parameter: Parameter, dim: int, axes: Sequence[str], readers: Collection[Node]) -> str | None:
        """Follow a dimension of a weight, which may be pruned where it is one of `axes`; why it cannot be, or None."""
        seed = LeafDim(self.dataflow.values[parameter][0], dim)
        if seed in self._taken or seed in self._unwanted:
            return None
        whole: set[int] = set()
        while True:
            coupling = Coupling(self.dataflow, seed, self.weight_values, self.fixed_outputs, whole, self._refused)
            try:
                coupling.propagate()
                values = removed_values(coupling)
                corrections = _corrections(coupling, values, is_last=len(whole) >= MOST_CUTS)
                reached = [at for at in coupling.labels if at.leaf in self.padded_outputs]
                paddings = [OutputPadding(coupling, values, at) for at in reached]
                break
            except Blocked as blocked:
                cut = coupling.cut_before(blocked.at)
                if cut is None or len(whole) >= MOST_CUTS:
                    if not whole:  # whatever comes to the way to it comes to it
                        self._refused.update(dict.fromkeys(coupling.way_to(blocked.at), blocked))
                    return f"{blocked.node.name} ({blocked.node.opcode}): {blocked.reason}"
                whole.add(cut)
        role = axis_class(coupling, readers)
        if role not in axes:
            self.left_roles.add(role)
            if not whole:
                self._unwanted |= coupling.labels.keys()
            return None
        both = self._taken & coupling.labels.keys()
        if both:
            name = self.dataflow.leaves[min(both).leaf].node.name
            return f"{name} loses positions of the dimension with another axis already"
        restricted = {LeafDim(self.dataflow.equations[n].leaves[slot], dim) for n, slot, dim in coupling.restrictions}
        both = (self._restricted & coupling.labels.keys()) | (self._taken & restricted)
        if both:
            name = self.dataflow.leaves[min(both).leaf].node.name
            return f"{name} is read at the positions that another axis keeps"
        others = {at.leaf for at in self._taken}
        if any(at.leaf in others for at in reached):
            return "it reaches an output that loses positions of another dimension already"
        self._taken |= coupling.labels.keys()
        self._restricted |= restricted
        self.axes.append((f"{parameter.name}.{dim}", role, coupling))
        self._corrections += corrections
        self._paddings += paddings
        return None

    def remove(self, sparsity: float, multiple: int, *, shared_positions: bool) -> list[PrunedAxis]:
        """Remove positions of all axes from the module, which is the same for all layers."""
        kept: dict[LeafDim, np.ndarray] = {}
        restrictions: dict[OperandDim, np.ndarray] = {}
        pruned: list[PrunedAxis] = []
        for name, role, coupling in self.axes:
            layers = "they were asked for" if shared_positions else self._layers(coupling)
            removed, size = self._removed(coupling, sparsity, multiple, layers)
            if isinstance(layers, StackedLayers) and not _is_even(coupling, removed):
                layers = "layers would keep different numbers of positions"
                removed, size = self._removed(coupling, sparsity, multiple, layers)
            positions = {at: kept_positions(coupling.roots_at(at), removed[0]) for at in coupling.labels}
            kept |= positions
            for slot, labels in coupling.restrictions.items():
                restrictions[slot] = kept_positions(coupling.forest.roots(labels), removed[0])
            layer_dims = layers.dims if isinstance(layers, StackedLayers) else {}
            dims = {}
            for at in (at for at in coupling.labels if at.leaf in self.weights):
                rows = [kept_positions(coupling.roots_at(at), row) for row in removed]
                dims[self.weights[at.leaf].name, at.dim] = np.stack(rows) if at.leaf in layer_dims else rows[0]
            numbered = {
                (self.weights[at.leaf].name, at.dim): layer_dims[at.leaf]
                for at in coupling.labels
                if at.leaf in self.weights and at.leaf in layer_dims
            }
            why = layers if isinstance(layers, str) else None
            pruned.append(PrunedAxis(name, role, size, size - int(removed[0].sum()), dims, numbered, why))
        remove_positions(self.module, self.dataflow, kept, restrictions)
        for restored in (*self._corrections, *self._paddings):
            restored.write(kept)
        verify(self.module)
        return pruned

    def _layers(self, coupling: Coupling) -> StackedLayers | str | None:
        """The layers that lose positions of their own, or why they cannot."""
        layers = stacked_layers(coupling)
        if isinstance(layers, StackedLayers):
            reached = [at.leaf for at in coupling.labels if at.leaf in self.padded_outputs]
            if reached:
                return f"{self.dataflow.leaves[min(reached)].node.name} is an output of the program"
        return layers

    def _removed(
        self, coupling: Coupling, sparsity: float, multiple: int, layers: StackedLayers | str | None
    ) -> tuple[np.ndarray, int]:
        """By layer and label whether its positions are removed, and how many units there are: at least one is kept.

        There is one layer where all lose the same. A score is the sum of the squares of every weight at a unit's
        positions, divided by their mean over units: otherwise the weight with the most elements decides alone.
        """
        layer_dims = layers.dims if isinstance(layers, StackedLayers) else {}
        units = np.unique(coupling.roots_at(coupling.seed))
        scores = np.zeros((layers.count if isinstance(layers, StackedLayers) else 1, coupling.size))
        for at in coupling.labels:
            if at.leaf not in self.weights or not self._is_multiplied(at.leaf):
                continue
            array = np.square(magnitudes(self.arrays[self.weights[at.leaf].number]), dtype=np.float64)
            labels = coupling.roots_at(at)
            array = np.moveaxis(array, at.dim, -1)
            layer_dim = layer_dims.get(at.leaf)
            if layer_dim is not None:
                array = np.moveaxis(array, layer_dim - (at.dim < layer_dim), 0)
            sums = array.reshape(1 if layer_dim is None else len(array), -1, labels.size).sum(axis=1)
            squares = np.zeros(scores.shape)
            np.add.at(squares.T, labels[labels >= 0], sums[:, labels >= 0].T)
            mean = squares[:, np.intersect1d(units, labels)].mean(axis=1, keepdims=True)
            scores += np.divide(squares, mean, out=np.zeros(scores.shape), where=mean > 0)
        left = max(len(units) - count_of(sparsity, len(units)), 1)
        left = min(-(-left // multiple) * multiple, len(units))
        removed = np.zeros(scores.shape, bool)
        removed[:, units] = lowest(scores[:, units], len(units) - left)
        return removed, len(units)

    def _is_multiplied(self, weight: int) -> bool:
        """Whether a product reads a weight, or a multiplication does: not a bias, nor the statistics of a norm."""
        known = self._multiplied.get(weight)
        if known is not None:
            return known
        pending, seen = [weight], {weight}
        while pending:
            leaf = pending.pop()
            for number, slot in self.dataflow.equations_of[leaf]:
                node, rule, leaves = self.dataflow.equations[number]
                if slot >= rule.results:
                    continue
                if node.opcode in _MULTIPLYING:
                    self._multiplied[weight] = True
                    return True
                if node.opcode in _MOVING:
                    fresh = [one for one in leaves[rule.results :] if one not in seen]
                    seen.update(fresh)
                    pending += fresh
        self._multiplied[weight] = False
        return False


def _corrections(coupling: Coupling, values: Mapping[LeafDim, Removed], *, is_last: bool) -> list[ReductionCorrection]:
    """What puts back what removed positions add to reductions; raises Blocked where removal is not exact.

    What can be kept whole instead is, as long as values may be: then nothing is missed.
    """
    missed = missed_terms(coupling, values)
    for one in missed:
        if not is_last and coupling.cut_before(one.at) is not None:
            raise Blocked(one.at, coupling.dataflow.equations[one.number].node, one.reason)
    return [ReductionCorrection(coupling, values, one) for one in missed]


def _named(module: Module, weights: Mapping[str, Any]) -> dict[int, np.ndarray]:
    """By number the arrays that are given for parameters of a module, checked."""
    names = ParameterNames(module.entry.parameters)
    numbers = [parameter.number for key in weights if (parameter := names.get(key)) is not None]
    keys = names.keys(weights, numbers)
    parameters = module.entry.parameters
    arrays = {number: np.asarray(weights[key]) for number, key in keys.items()}
    return {number: checked(parameters[number], array) for number, array in arrays.items()}


def _is_even(coupling: Coupling, removed: np.ndarray) -> bool:
    """Whether all layers keep as many positions of every dimension, and of every part that a slice takes."""
    for at in coupling.labels:
        if len({len(kept_positions(coupling.roots_at(at), row)) for row in removed}) > 1:
            return False
    for number in coupling.equations:
        node, _, leaves = coupling.dataflow.equations[number]
        if node.opcode != "slice":
            continue
        for dim, part in enumerate(node.attributes["slice"]):
            labels = coupling.labels.get(LeafDim(leaves[0], dim))
            if labels is None:
                continue
            kept = [kept_positions(coupling.forest.roots(labels), row) for row in removed]
            if len({tuple(np.searchsorted(positions, (part.start, part.limit))) for positions in kept}) > 1:
                return False
    return True


def _taken(array: np.ndarray, dim: int, positions: np.ndarray, layer_dim: int | None) -> np.ndarray:
    """The kept positions of an array's dimension, those of every layer where they have their own."""
    if layer_dim is None:
        return array.take(positions, dim)
    return np.take_along_axis(array, _aligned(array, dim, positions, layer_dim), dim)


def _with_zeros(array: np.ndarray, dim: int, positions: np.ndarray, layer_dim: int | None) -> np.ndarray:
    """An array with zeros at all but the kept positions."""
    if layer_dim is None:
        mask = np.zeros(array.shape[dim], bool)
        mask[positions] = True
        return np.where(mask.reshape([-1 if at == dim else 1 for at in range(array.ndim)]), array, array.dtype.type(0))
    mask = np.zeros([size if at in (dim, layer_dim) else 1 for at, size in enumerate(array.shape)], bool)
    np.put_along_axis(mask, _aligned(array, dim, positions, layer_dim), True, dim)
    return np.where(mask, array, array.dtype.type(0))


def _aligned(array: np.ndarray, dim: int, positions: np.ndarray, layer_dim: int) -> np.ndarray:
    """Rows of positions as an array of the rank of a weight."""
    rows = positions if layer_dim < dim else positions.T
    sizes = {layer_dim: positions.shape[0], dim: positions.shape[1]}
    return rows.reshape([sizes.get(at, 1) for at in range(array.ndim)])
