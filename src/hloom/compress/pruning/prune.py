"""`prune`: masks the least important weights, and zeroes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.compress.pruning.masks import group_mask, model_masks, output_mask, weight_mask
from hloom.compress.pruning.options import SPARSITY, PruningOptions
from hloom.compress.pruning.pattern import BlockPattern, GroupPattern, Pattern, read_pattern
from hloom.compress.pruning.scores import input_norms, magnitudes, reason_against_wanda
from hloom.compress.pruning.weight_arrays import check_count, checked, weight_arrays
from hloom.compress.pruning.weight_matrix import MatrixDims, matrix_dims
from hloom.compress.quantization import (
    Exclusion,
    InsertionPoint,
    KeywordsOf,
    ParameterNames,
    WeightUse,
    check_program,
    finish_program,
    first_instruction,
    first_of,
    read_selection,
    redirect,
    select_weights,
)
from hloom.ir import Module, ModuleLike, Node, Parameter, TensorType, as_module
from hloom.ir import dtype as element_type
from hloom.passes import canonicalize
from hloom.text import Display, Displayed, DisplayTable, HloomError

MASK = "mask"


@dataclass(frozen=True, slots=True, eq=False)
class PrunedWeight:
    """A parameter, and which of its elements are kept. `uses` are the instructions that read it, by name."""

    name: str
    number: int
    type: TensorType
    mask: np.ndarray
    dims: MatrixDims
    uses: tuple[str, ...]
    mask_number: int | None = None
    """The number of the parameter that takes the mask, if there is one."""
    json_keys = "name type=type.__str__ elements kept sparsity used_by=uses"

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.mask.size

    @property
    def kept(self) -> int:
        """The number of kept elements."""
        return int(np.count_nonzero(self.mask))

    @property
    def sparsity(self) -> float:
        """The share of elements that is removed."""
        return 1 - self.kept / self.mask.size if self.mask.size else 0.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pruning(Displayed):
    """A program whose weights have zeros where `mask` of `weights` is false.

    `module` is the original, or takes the masks after its inputs; `convert` makes its arrays from the original's.
    `exclusions` lists what is selected but skipped, and why.
    """

    module: Module
    original: Module
    method: str
    pattern: Pattern
    weights: tuple[PrunedWeight, ...]
    exclusions: tuple[Exclusion, ...]

    def display(self) -> Display:
        left = [(one.name, one.reason) for one in self.exclusions]
        weights = ((one.name, str(one.type), one.sparsity) for one in self.weights)
        tables = (
            DisplayTable("weights", ("weight", "type", "share of zeros"), weights, len(self.weights)),
            DisplayTable("left as they are", ("name", "why"), left, len(left)),
        )
        how = self.method if self.pattern is None else f"{self.method}, {self.pattern}"
        return Display(f"<{self.original.name} pruned by {how}: {len(self.weights)} weights>", tables)

    def convert(self, arrays: Mapping[str, Any] | Sequence[Any]) -> Any:
        """The pruned program's arrays, of the original's: elements that are removed are zero.

        A sequence holds all inputs of the original in order, and all of the pruned program's are returned. A mapping
        may hold any of them, by parameters' names, numbers or paths (`params.layers.w`), the weights among them; where
        the program takes masks, `NAME.mask` is added beside NAME. Raises HloomError for a weight that is missing, of
        another shape or type, or not finite.
        """
        if isinstance(arrays, Mapping):
            return self._convert_by_name(arrays)
        given = list(arrays)
        check_count(self.original, given)
        result = [*given, *([None] * (len(self.module.entry.parameters) - len(given)))]
        for weight in self.weights:
            result[weight.number] = self.masked(weight, given[weight.number])
            if weight.mask_number is not None:
                result[weight.mask_number] = weight.mask
        return result

    def masked(self, weight: PrunedWeight, array: Any) -> np.ndarray:
        """One weight's array, with zeros where elements are removed."""
        values = checked(self.original.entry.parameters[weight.number], array)
        return np.where(weight.mask, values, np.zeros((), values.dtype))

    def masks(self) -> dict[str, np.ndarray]:
        """The masks by the weights' names: true where an element is kept."""
        return {weight.name: weight.mask for weight in self.weights}

    def _convert_by_name(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        names = ParameterNames(self.original.entry.parameters)
        keys = names.keys(arrays, [weight.number for weight in self.weights])
        result = dict(arrays)
        for weight in self.weights:
            key = keys[weight.number]
            result[key] = self.masked(weight, arrays[key])
            if weight.mask_number is not None:
                result[f"{key}.{MASK}"] = weight.mask
        return result


@KeywordsOf(PruningOptions)
def prune(module: ModuleLike, weights: Mapping[str, Any] | Sequence[Any], options: PruningOptions) -> Pruning:
    """Remove the share `sparsity` (default 0.5) of the elements of weights, the least important ones.

    `weights` are the arrays, in order or by name. Importance is the magnitude ("magnitude"), or that times the norm of
    the input on the inputs of `calibration` ("wanda"). Scores are compared `within` an "output" (what is summed up for
    one element of the result; Wanda's default), a "weight" (in a loop, of a layer), or the whole "model". `pattern` is
    "2:4" for two kept of every four summed elements, or "16x16" for blocks. Pruned are the weights of instructions of
    `opcodes` whose op_name matches `scope`, a regular expression, with at least `least` elements; or `only` those
    named. With `masks` the program also takes the masks and multiplies by them, so that weights and derivatives are
    zero where elements are removed, whatever the weights become. Raises HloomError if there is nothing to prune, if
    weights cannot be identified, and for elided constants.

    >>> import hloom, numpy as np
    >>> layer = hloom.parse('''ENTRY layer {
    ...   x = f32[2,4] parameter(0)
    ...   h = f32[2,4] tanh(x)
    ...   w = f32[4,1] parameter(1)
    ...   ROOT y = f32[2,1] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ... }''')
    >>> pruned = hloom.prune(layer, {"w": np.float32([[3], [-1], [2], [-4]])}, pattern="2:4")
    >>> pruned.convert({"w": np.float32([[3], [-1], [2], [-4]])})["w"].tolist()
    [[3.0], [0.0], [0.0], [-4.0]]
    """
    return prune_with(as_module(module), weights, options)


def prune_with(module: Module, weights: Mapping[str, Any] | Sequence[Any], options: PruningOptions) -> Pruning:
    """The same for options that are made already."""
    method, shape = options.method, read_pattern(options.pattern)
    share = _sparsity(options.sparsity, shape)
    within = _within(options.within, method, shape)
    selection = read_selection(options, "pruned")
    check_program(module, "pruned")
    before = canonicalize(module)
    selected, exclusions = select_weights(before, selection, "pruned")
    chosen: dict[Parameter, tuple[MatrixDims, list[WeightUse]]] = {}
    for parameter, uses in selected.items():
        dims, reason = _dims(parameter, uses, shape, within, method)
        if reason is None:
            chosen[parameter] = dims, uses
        elif options.only is not None:
            raise HloomError(f"{parameter.name} cannot be pruned so: {reason}")
        else:
            exclusions.append(Exclusion(parameter.name, reason))
    if not chosen and selected:
        first, reason = next((p.name, left.reason) for p in selected for left in exclusions if left.name == p.name)
        how = "so" if shape is None else f"to {shape}"
        raise HloomError(
            f"no weight of {module.name} can be pruned {how}; {first}: {reason}",
            hint="without a pattern, within a weight, any element may be removed",
        )
    if not chosen:
        why = f"; {exclusions[0].name}: {exclusions[0].reason}" if exclusions else ""
        raise HloomError(
            f"{module.name} has no weight to prune{why}",
            hint=f"weights are parameters that a {', '.join(selection.opcodes)} reads",
        )
    arrays = weight_arrays(module, weights, [parameter.number for parameter in chosen])
    scores = {number: magnitudes(array) for number, array in arrays.items()}
    if method == "wanda":
        products = {
            parameter.number: [use for use in uses if use.node.opcode != "gather"]
            for parameter, (_, uses) in chosen.items()
        }
        for number, norms in input_norms(before, products, options.calibration).items():
            scores[number] = scores[number] * norms
    made = _masks([(dims, scores[p.number]) for p, (dims, _) in chosen.items()], share, shape, within)
    pruned = [
        PrunedWeight(
            parameter.name,
            parameter.number,
            parameter.array_type.with_layout(None),
            mask,
            dims,
            tuple(dict.fromkeys(use.node.name for use in uses)),
        )
        for (parameter, (dims, uses)), mask in zip(chosen.items(), made, strict=True)
    ]
    program = module
    if options.masks:
        program, pruned = _with_masks(module, pruned)
    return Pruning(program, module, method, shape, tuple(pruned), tuple(exclusions))


def _sparsity(sparsity: float | None, pattern: Pattern) -> float:
    """The share that is removed; raises HloomError for what is none."""
    if isinstance(pattern, GroupPattern):
        if sparsity is not None and not math.isclose(sparsity, pattern.sparsity):
            raise HloomError(f"{pattern} removes {pattern.sparsity:g} of the elements, not {sparsity:g}")
        return pattern.sparsity
    if sparsity is None:
        return SPARSITY
    if not 0 <= sparsity <= 1:
        raise HloomError(f"{sparsity:g} is not a valid sparsity", hint="give the share that is removed, from 0 to 1")
    return float(sparsity)


def _within(within: str | None, method: str, pattern: Pattern) -> str:
    """Within what scores are compared; raises HloomError for what a pattern does not have."""
    if isinstance(pattern, GroupPattern):
        if within is not None:
            raise HloomError(f"{pattern} compares the {pattern.size} elements of a group, not those of a {within}")
        return "group"
    if within == "output" and isinstance(pattern, BlockPattern):
        raise HloomError("blocks are of several outputs: they are compared within a weight or the model")
    default = "output" if method == "wanda" and pattern is None else "weight"
    return within or default


def _dims(
    parameter: Parameter, uses: Sequence[WeightUse], pattern: Pattern, within: str, method: str
) -> tuple[MatrixDims, str | None]:
    """How products read a weight, and why it cannot be pruned so, where it cannot."""
    dims, reason = matrix_dims(parameter.array_type, uses)
    if pattern is None and within != "output" and method != "wanda":
        return dims, None
    if reason is None and method == "wanda":
        reason = reason_against_wanda(parameter, [use for use in uses if use.node.opcode != "gather"])
    if reason is None and isinstance(pattern, GroupPattern):
        summed = math.prod(parameter.array_type.dims[dim] for dim in dims.summed)
        if summed % pattern.size:
            reason = f"a product sums over {summed} of its elements, which are not groups of {pattern.size}"
    return dims, reason


def _masks(
    weights: Sequence[tuple[MatrixDims, np.ndarray]], sparsity: float, pattern: Pattern, within: str
) -> list[np.ndarray]:
    """The masks of weights, of their scores."""
    scores = [dims.matrices(array) for dims, array in weights]
    if isinstance(pattern, GroupPattern):
        made = [group_mask(array, pattern) for array in scores]
    elif within == "model":
        made = model_masks(scores, sparsity, pattern)
    elif within == "output":
        made = [output_mask(array, sparsity) for array in scores]
    else:
        made = [weight_mask(array, sparsity, pattern) for array in scores]
    return [
        np.ascontiguousarray(dims.array(mask, array.shape)) for mask, (dims, array) in zip(made, weights, strict=True)
    ]


def _with_masks(module: Module, weights: Sequence[PrunedWeight]) -> tuple[Module, list[PrunedWeight]]:
    """The program that takes masks after its inputs, and reads zeros where they are false."""
    copy = module.clone()
    entry = copy.entry
    former = tuple(entry.parameters)
    first = first_instruction(entry)
    made: list[PrunedWeight] = []
    for weight in weights:
        mask = entry.add_parameter(TensorType(element_type("pred"), weight.type.dims), f"{weight.name}.{MASK}")
        if first is not None:
            entry.move_before(mask, first)
        made.append(
            PrunedWeight(weight.name, weight.number, weight.type, weight.mask, weight.dims, weight.uses, mask.number)
        )
    for weight in made:
        _select(former[weight.number], entry.parameters[weight.mask_number or 0], weight.type)
    finish_program(copy, former)
    return copy, made


def _select(parameter: Parameter, mask: Node, type_: TensorType) -> None:
    """Let all that reads a weight read select(mask, weight, 0).

    dot(x, w)
      ->
    dot(x, select(w.mask, w, broadcast(0)))
    """
    users = tuple(parameter.users)
    writer = InsertionPoint(parameter.graph, first_of(users))
    masked = writer.op("select", mask, parameter, writer.constant(0, type_))
    redirect(parameter, users, masked)
    if parameter.is_output:
        parameter.graph.set_output(masked)
