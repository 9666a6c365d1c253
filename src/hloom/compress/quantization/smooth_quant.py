"""SmoothQuant: outliers of activations migrate into the weights (Xiao et al. 2023).

    dot(x, w)  ->  dot(x * r, w / r)        r[j] = max|w[j,:]|^(1 - alpha) / max|x[:,j]|^alpha, up to a factor

Channels of x are what the dot sums over; w is divided when checkpoints are converted. Where x is linear, channel by
channel, in parameters that nothing else reads (a norm's gain and bias, the columns of the preceding weight), these
take r; else the program multiplies by it: by a parameter that is sliced as the weight is, in loops over layers too.
All readers of one activation have one r. The factor makes the greatest magnitude 1 in every round, so that layers of a
loop share one static range without loss. Where x or what takes r is narrower than f32, r is of powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from hloom.compress.quantization.parameter_names import path_of
from hloom.compress.quantization.product_observer import Observation, observe_products, sole_dots
from hloom.compress.quantization.scale_folding import FoldingTarget, folding_targets
from hloom.compress.quantization.scale_parameters import explicit_scale, stuck_weights, write_scales
from hloom.compress.quantization.weight_slices import movement_path, product_dims
from hloom.compress.quantization.weights import Exclusion, WeightUse
from hloom.ir import Module, Node, TensorType, verify
from hloom.passes import canonicalize_in_place
from hloom.text import HloomError

ALPHAS = tuple(step / 20 for step in range(21))
"""The alphas a search tries, besides no smoothing."""
MOST_ROWS = 256
"""The maximum number of rows of an activation that a search uses, per execution and set of inputs."""
MOST_BYTES = 2 << 30
"""The maximum bytes of rows to hold."""

FOLDS = 8
"""Into how many parts a search divides rows, or inputs: scales and ranges from all but one are tried on that one."""

ProductError = Callable[[np.ndarray, np.ndarray, np.ndarray, int], float]
"""The squared error of x w when both are quantised as the weight's number says.

It takes rows on which ranges are measured, x, w as [summed, free], and the number.
"""


@dataclass(frozen=True, slots=True)
class SmoothedActivation:
    """One activation that is smoothed: by which parameters, with which alpha, and the error of its products.

    `folded` are the parameters that absorb the scale; if there are none, the program multiplies. `errors` are those of
    the products that a search measured, without and with smoothing, relative to the exact products.
    """

    name: str
    readers: tuple[str, ...]
    weights: tuple[str, ...]
    alpha: float
    folded: tuple[str, ...]
    errors: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Smoothing:
    """A program that computes the same of other weights, with activations that are easier to quantise.

    `factors` are what parameters are multiplied by, `added` the further parameters, which come last.
    """

    module: Module
    factors: Mapping[int, np.ndarray]
    added: tuple[tuple[str, np.ndarray], ...]
    activations: tuple[SmoothedActivation, ...]
    exclusions: tuple[Exclusion, ...]

    def convert(self, arrays: Sequence[Any]) -> list[Any]:
        """The smoothed program's arrays, of the original's."""
        return [self.scaled(number, array) for number, array in enumerate(arrays)] + [array for _, array in self.added]

    def scaled(self, number: int, array: Any) -> Any:
        """One parameter's array as the smoothed program takes it."""
        factor = self.factors.get(number)
        if factor is None:
            return array
        values = np.asarray(array)
        return (values.astype(np.float64) * factor).astype(values.dtype)


@dataclass(slots=True)
class _Round:
    """What was seen of an activation in one round: magnitudes of channels, [batch, summed], and some rows."""

    positions: dict[int, np.ndarray]
    targets: list[np.ndarray]
    greatest: np.ndarray
    rows: dict[int, list[np.ndarray]] = field(default_factory=dict)
    """By the number of the input of the calibration."""


@dataclass(slots=True)
class _Group:
    """Readers of one activation, the first in the program first, and what can take its scale."""

    readers: dict[int, WeightUse]
    targets: list[FoldingTarget] | None
    is_narrow: bool
    rounds: dict[int, _Round] = field(default_factory=dict)
    is_consistent: bool = True

    @property
    def owner(self) -> int:
        return next(iter(self.readers))

    @property
    def activation(self) -> Node:
        use = self.readers[self.owner]
        return use.node.operands[1 - use.operand_index]


def smooth(
    module: Module,
    weights: Sequence[int],
    calibration: Sequence[Sequence[Any]],
    alpha: float | None,
    error: ProductError,
    *,
    folds_into_weights: bool = True,
    holds_out_inputs: bool = False,
) -> Smoothing:
    """Smooth the activations of dots that read some parameters, by inputs that numpy runs the program on.

    `alpha` is how much of the outliers the weights take, None to search for the one with the smallest `error` for each
    activation. If smoothing does not reduce the error on held-out rows, an activation is left alone. Without
    `folds_into_weights`, weights only absorb their own scales. With `holds_out_inputs`, these rows are those of whole
    inputs: needed for measured ranges, since rows of the same input are similar.
    """
    before = module.clone()
    canonicalize_in_place(before)
    readers = sole_dots(before, weights)
    groups, exclusions = _groups(before, readers, weights, folds_into_weights=folds_into_weights)
    arrays = calibration[0]
    _observe(before, groups, readers, calibration)
    factors: dict[int, np.ndarray] = {}
    smoothed: list[SmoothedActivation] = []
    explicit: dict[int, np.ndarray] = {}
    owners = {group.owner: readers[group.owner] for group in groups}
    stuck = stuck_weights(before, owners)
    for group in groups:
        name = group.activation.name
        if not group.rounds or not group.is_consistent:
            why = "never computed on these inputs" if not group.rounds else "multiplied with a weight of another round"
            exclusions.append(Exclusion(name, f"its outliers stay: it is {why}"))
            continue
        parts = _parts(group, whole_inputs=holds_out_inputs)
        chosen, errors = _chosen_alpha(group, arrays, alpha, error, parts)
        if chosen is None:
            which = "no alpha" if alpha is None else f"an alpha of {alpha:g} does not"
            makes = "makes" if alpha is None else "make"
            why = f"{which} {makes} the error of its products smaller on rows that are held out"
            exclusions.append(Exclusion(name, f"its outliers stay: {why} ({errors[0]:.2e}, and {errors[1]:.2e})"))
            continue
        scales = {
            key: _scales(
                seen.greatest,
                {number: _weight_rows(seen, number, arrays) for number in group.readers},
                chosen,
                is_narrow=group.is_narrow,
            )
            for key, seen in group.rounds.items()
        }
        folded = _folded(before, group, scales)
        if folded is None:
            seen = {key: round_.positions[group.owner] for key, round_ in group.rounds.items()}
            dims = before.entry.parameters[group.owner].array_type.dims
            scale = None if group.owner in stuck else explicit_scale(owners[group.owner], dims, seen, scales)
            if scale is None:
                exclusions.append(Exclusion(name, "its outliers stay: its weight is moved so that no scale can follow"))
                continue
            explicit[group.owner] = scale
        for number in group.readers:
            inverse = {key: 1 / scale[..., None] for key, scale in scales.items()}
            at = {key: seen.positions[number] for key, seen in group.rounds.items() if number in seen.positions}
            _multiply(factors, number, _filled(before, number, at, inverse))
        for number, factor in (folded or {}).items():
            _multiply(factors, number, factor)
        entry = before.entry.parameters
        smoothed.append(
            SmoothedActivation(
                name,
                tuple(use.node.name for use in group.readers.values()),
                tuple(entry[number].name for number in group.readers),
                chosen,
                tuple(entry[number].name for number in folded or ()),
                errors,
            )
        )
    copy = module.clone()
    canonicalize_in_place(copy)
    added = write_scales(copy, [group.readers for group in groups], explicit)
    verify(copy)
    reduced = {number: _reduced(factor) for number, factor in factors.items()}
    return Smoothing(copy, reduced, tuple(added), tuple(smoothed), tuple(exclusions))


def _groups(
    before: Module, readers: Mapping[int, WeightUse], weights: Sequence[int], *, folds_into_weights: bool
) -> tuple[list[_Group], list[Exclusion]]:
    """The readers by activation, and why others have none."""
    entry = before.entry.parameters
    exclusions: list[Exclusion] = []
    by_activation: dict[tuple[Any, ...], dict[int, WeightUse]] = {}
    for number in weights:
        use = readers.get(number)
        if use is None:
            exclusions.append(
                Exclusion(entry[number].name, "its activations keep their outliers: it is not read by one dot alone")
            )
            continue
        activation = use.node.operands[1 - use.operand_index]
        own, other = product_dims(use)
        scaled = {dim for side in own for source in side for piece in use.dims[source] for dim in piece.dims}
        free = {
            dim for d, pieces in enumerate(use.dims) if d not in (*own[0], *own[1]) for p in pieces for dim in p.dims
        }
        if (
            scaled & free
            or not activation.array_type.dtype.is_float
            or movement_path(activation).source is entry[number]
        ):
            exclusions.append(
                Exclusion(
                    entry[number].name, "its activations keep their outliers: what is summed is mixed with what is not"
                )
            )
            continue
        starts = movement_path(use.node.operands[use.operand_index]).starts
        by_activation.setdefault((activation, *map(tuple, other), starts), {})[number] = use
    relatives = {path_of(entry[number])[0] for number in weights}
    allowed = {p for p in entry if p.number in weights or path_of(p)[0] in relatives}
    allowed = {
        p for p in allowed if isinstance(p.type, TensorType) and p.type.dtype.is_float and p.type.dtype.bits >= 16
    }
    if not folds_into_weights:
        allowed -= {entry[number] for number in weights}
    groups = []
    for (activation, batch, summed, starts), members in by_activation.items():
        products = {use.node for use in members.values()}
        order = {node: position for position, node in enumerate(activation.graph.nodes) if node in products}
        ordered = dict(sorted(members.items(), key=lambda item: order[item[1].node]))
        targets = folding_targets(activation, (*batch, *summed), products, allowed)
        if targets is not None and any(target.path.starts != starts for target in targets):
            targets = None
        types = [activation.array_type, *(target.path.source.array_type for target in targets or ())]
        groups.append(_Group(ordered, targets, any(type_.dtype.bits < 32 for type_ in types)))
    return groups, exclusions


def _observe(
    before: Module,
    groups: Sequence[_Group],
    readers: Mapping[int, WeightUse],
    calibration: Sequence[Sequence[Any]],
) -> None:
    group_of = {number: group for group in groups for number in group.readers}
    latest: dict[int, int] = {}
    left = MOST_BYTES

    def see(number: int, seen: Observation) -> None:
        nonlocal left
        group = group_of[seen.number]
        if seen.number == group.owner:
            latest[group.owner] = seen.key
            held = group.rounds.get(seen.key)
            greatest = np.abs(seen.activation).max(axis=1, initial=0.0)
            if not np.isfinite(greatest).all():
                raise HloomError("an activation is NaN or infinite on the inputs of the calibration")
            if held is None:
                paths = [target.path for target in group.targets or ()]
                held = _Round({}, [seen.positions_of(path) for path in paths], greatest)
                group.rounds[seen.key] = held
            else:
                held.greatest = np.maximum(held.greatest, greatest)
            step = max(-(-seen.activation.shape[1] // MOST_ROWS), 1)
            rows = seen.activation[:, ::step].astype(np.float32)
            left -= rows.nbytes
            if left < 0:
                raise HloomError(
                    f"the activations of {before.name} to search with are more than {MOST_BYTES:,} bytes",
                    hint="give fewer inputs",
                )
            held.rows.setdefault(number, []).append(rows)
        round_ = group.rounds.get(latest.get(group.owner, -1))
        if round_ is None:
            group.is_consistent = False
            return
        known = round_.positions.setdefault(seen.number, seen.positions)
        group.is_consistent &= known is seen.positions or int(known.flat[0]) == seen.key

    targets = [target.path for group in groups for target in group.targets or ()]
    for number, arrays in enumerate(calibration):
        observe_products(before, {n: readers[n] for n in group_of}, [arrays], partial(see, number), targets)
    for group in groups:
        for number in group.readers:
            firsts = [int(r.positions[number].flat[0]) for r in group.rounds.values() if number in r.positions]
            group.is_consistent &= len(set(firsts)) == len(firsts) == len(group.rounds)


def _weight_rows(seen: _Round, number: int, arrays: Sequence[Any]) -> np.ndarray:
    """The elements of a weight that a round reads, [batch, summed, free]."""
    return np.asarray(arrays[number]).reshape(-1)[seen.positions[number]].astype(np.float64)


def _scales(greatest: np.ndarray, weights: Mapping[int, np.ndarray], alpha: float, *, is_narrow: bool) -> np.ndarray:
    """What an activation's channels, of these greatest magnitudes, are multiplied by in one round, [batch, summed]."""
    weight = np.max([np.abs(rows).max(axis=2, initial=0.0) for rows in weights.values()], axis=0)
    is_seen = (greatest > 0) & (weight > 0)
    scale = np.ones(greatest.shape)
    if not is_seen.any():
        return scale
    scale[is_seen] = weight[is_seen] ** (1 - alpha) / greatest[is_seen] ** alpha
    scale /= np.max((greatest * scale)[is_seen])
    scale[~is_seen & (greatest > 0)] = 1 / greatest[~is_seen & (greatest > 0)]
    scale[~is_seen & (greatest == 0)] = np.exp(np.mean(np.log(scale[is_seen])))
    if is_narrow:
        return np.exp2(np.rint(np.log2(scale)))
    return scale.astype(np.float32).astype(np.float64)


def _chosen_alpha(
    group: _Group,
    arrays: Sequence[Any],
    alpha: float | None,
    error: ProductError,
    parts: Mapping[int, Sequence[np.ndarray]],
) -> tuple[float | None, tuple[float, float]]:
    """The alpha, given or of the least error, with the errors before and after; None where none is better for certain.

    That is where rows that were held out have a smaller error, by more than the standard error of that over the parts.
    """
    plain = _held_out_errors(group, arrays, parts, None, error)
    tried = [
        (_held_out_errors(group, arrays, parts, candidate, error), candidate)
        for candidate in (ALPHAS if alpha is None else (alpha,))
    ]
    best, chosen = min(tried, key=lambda pair: (float(pair[0].sum()), pair[1]))
    gains = plain - best
    doubt = float(np.std(gains, ddof=1)) * np.sqrt(len(gains)) if len(gains) > 2 else 0.0
    errors = float(np.sqrt(plain.sum())), float(np.sqrt(best.sum()))
    return (chosen if gains.sum() > doubt else None), errors


def _parts(group: _Group, *, whole_inputs: bool) -> dict[int, list[np.ndarray]]:
    """The rows of every round in as many parts; of whole inputs, where there are several and all have every round."""
    numbers = [sorted(seen.rows) for seen in group.rounds.values()]
    if whole_inputs and len(numbers[0]) > 1 and all(one == numbers[0] for one in numbers):
        count = min(FOLDS, len(numbers[0]))
        return {
            key: [_joined(seen.rows[number] for number in numbers[0][part::count]) for part in range(count)]
            for key, seen in group.rounds.items()
        }
    rows = {key: _joined(seen.rows.values()) for key, seen in group.rounds.items()}
    count = min(FOLDS, *(max(array.shape[1] // 2, 1) for array in rows.values()))
    return {key: [array[:, part::count] for part in range(count)] for key, array in rows.items()}


def _joined(rows: Iterable[Sequence[np.ndarray]]) -> np.ndarray:
    return np.concatenate([one for many in rows for one in many], axis=1).astype(np.float64)


def _held_out_errors(
    group: _Group,
    arrays: Sequence[Any],
    parts: Mapping[int, Sequence[np.ndarray]],
    alpha: float | None,
    error: ProductError,
) -> np.ndarray:
    """By part, held out while scales and ranges are measured on the others, its share of the relative squared error.

    It is the mean over readers and rounds; the sum over parts is that of all rows.
    """
    count = len(next(iter(parts.values())))
    total = np.zeros(count)
    products = 0
    for key, seen in group.rounds.items():
        weights = {number: _weight_rows(seen, number, arrays) for number in group.readers}
        noise = {number: np.zeros(count) for number in weights}
        for part, held_out in enumerate(parts[key]):
            others = [rows for number, rows in enumerate(parts[key]) if number != part or count == 1]
            measured = np.concatenate(others, axis=1)
            greatest = np.abs(measured).max(axis=1, initial=0.0)
            scale = (
                np.ones(greatest.shape)
                if alpha is None
                else _scales(greatest, weights, alpha, is_narrow=group.is_narrow)
            )
            for number, weight in weights.items():
                noise[number][part] = sum(
                    error(measured[index] * scale[index], held_out[index] * scale[index], rows, number)
                    for index, rows in enumerate(weight / scale[..., None])
                )
        rows = np.concatenate(parts[key], axis=1)
        for number, weight in weights.items():
            signal = float(np.sum(np.matmul(rows, weight) ** 2))
            total += noise[number] / signal if signal else 0.0
            products += 1
    return total / max(products, 1)


def _folded(before: Module, group: _Group, scales: Mapping[int, np.ndarray]) -> dict[int, np.ndarray] | None:
    """What parameters are multiplied by so that the activation is smoothed; None where none can be."""
    if group.targets is None:
        return None
    folded: dict[int, np.ndarray] = {}
    use = group.readers[group.owner]
    batch, summed = product_dims(use)[1]
    sizes = [group.activation.array_type.dims[dim] for dim in (*batch, *summed)]
    for position, target in enumerate(group.targets):
        number = target.path.source.number  # type: ignore[union-attr]
        at: dict[int, np.ndarray] = {}
        values: dict[int, np.ndarray] = {}
        for key, seen in group.rounds.items():
            at[key] = seen.targets[position]
            values[key] = _along(scales[key], sizes, target.channels, at[key].shape)
        if number in folded or _differ(at, values):
            return None
        folded[number] = _filled(before, number, at, values)
    return folded


def _along(scale: np.ndarray, sizes: Sequence[int], channels: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """Scales over the channels of an array of a shape, broadcast to it."""
    wanted = [shape[dim] for dim in channels]
    assert prod(wanted) == prod(sizes), "channels are the activation's"
    array = scale.reshape(wanted)
    order = np.argsort(channels)
    wide = [1] * len(shape)
    for dim in channels:
        wide[dim] = shape[dim]
    return np.broadcast_to(array.transpose(order).reshape(wide), tuple(shape))


def _differ(at: Mapping[int, np.ndarray], values: Mapping[int, np.ndarray]) -> bool:
    """Whether two rounds want to scale the same element otherwise."""
    known: dict[int, int] = {}
    for key, positions in at.items():
        first = int(positions.flat[0]) if positions.size else 0
        other = known.setdefault(first, key)
        if other != key and not np.array_equal(values[other], values[key]):
            return True
    return False


def _filled(before: Module, number: int, at: Mapping[int, np.ndarray], values: Mapping[int, np.ndarray]) -> np.ndarray:
    """An array of a parameter's shape: values at the positions of all rounds, 1 elsewhere."""
    dims = before.entry.parameters[number].array_type.dims
    result = np.ones(prod(dims))
    for key, positions in at.items():
        result[positions] = np.broadcast_to(values[key], positions.shape)
    return result.reshape(dims)


def _multiply(factors: dict[int, np.ndarray], number: int, factor: np.ndarray) -> None:
    factors[number] = factors[number] * factor if number in factors else factor


def _reduced(array: np.ndarray) -> np.ndarray:
    """An array with one element along dimensions along which it does not change."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        if (array == first).all():
            array = first
    return array
