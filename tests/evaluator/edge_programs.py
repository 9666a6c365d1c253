"""A grid of edge values for every opcode: which instructions, on which operands, and why an opcode has none.

`EdgeProgram` is one module of many instructions of one element type, so that XLA compiles once. A function of GRIDS
adds instructions to it; ops that work element by element have a grid without one. In texts, `T` is the element type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod

import ml_dtypes
import numpy as np

from hloom.evaluator import TABLE
from hloom.ir import DTYPES, DType, DTypeKind, TensorType, TypeProblem, infer_type
from hloom.ops import OPS
from tests.evaluator.batches import every_pair, integer_values, joined, without_denormals

FLOAT_EDGES = (0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, 1 / 3, 1.5, -2.5, np.inf, -np.inf, np.nan, -np.nan, 100, -7.25)


def edges(dtype: str) -> np.ndarray:
    """Values at which functions have a special result; no denormals, which XLA's CPU takes for zeros."""
    element = DTYPES[dtype]
    if element.is_complex:
        return joined(*every_pair(np.array([0, -0.0, 1, -2.5, np.inf, -np.inf, np.nan]))).astype(element.numpy)
    if element.is_float and element.bits <= 8:
        return np.arange(2**element.bits, dtype=np.uint8)[dtype == "f8e8m0fnu" :].view(element.numpy)[::3]
    if not element.is_float:
        return integer_values(dtype)[:24]
    limits = ml_dtypes.finfo(element.numpy)
    sizes = [float(limits.max), float(limits.smallest_normal)]
    return without_denormals(np.array([*FLOAT_EDGES, *sizes, *np.negative(sizes)]).astype(element.numpy))


class EdgeProgram:
    """A module that is being written: the parameters with their values, the instructions, and what each is for."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.element: DType = DTYPES[dtype]
        self.inputs: list[np.ndarray] = []
        self.opcodes: list[str] = []
        self._lines: list[str] = []
        self._graphs: dict[str, str] = {}

    @property
    def text(self) -> str:
        names = ", ".join(f"r{number}" for number in range(len(self.opcodes)))
        body = "\n  ".join([*self._lines, f"ROOT all = tuple({names})"])
        return "HloModule edges\n" + "\n".join(self._graphs.values()) + f"\nENTRY e {{\n  {body}\n}}\n"

    def parameter(self, values: np.ndarray, dtype: str = "") -> str:
        """The name of a parameter with these values."""
        number = len(self.inputs)
        self.inputs.append(values)
        dims = ",".join(map(str, values.shape))
        self._lines.append(f"x{number} = {dtype or self.dtype}[{dims}] parameter({number})")
        return f"x{number}"

    def drawn(self, *dims: int, seed: int = 0, has_nan: bool = True) -> str:
        """The name of a parameter of edge values in a random order."""
        known = edges(self.dtype)
        if not has_nan and (self.element.is_float or self.element.is_complex):
            known = known[~np.isnan(known)]
        chosen = np.random.default_rng(seed).integers(0, len(known), prod(dims))
        return self.parameter(known[chosen].reshape(dims))

    def graph(self, name: str, text: str) -> str:
        """The name of a computation, written once."""
        self._graphs[name] = f"{name} {{ {self._typed(text)} }}"
        return name

    def combiner(self, opcode: str) -> str:
        """The name of the computation that is one op of two scalars."""
        return self.graph(f"of_{opcode}", f"a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] {opcode}(a, b)")

    def order(self, direction: str, comparison: str = "") -> str:
        """The name of a computation that compares two scalars."""
        text = f"a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = pred[] compare(a, b), direction={direction}{comparison}"
        return self.graph(f"order_{direction}", text)

    def yields(self, opcode: str, type_text: str, operands: Sequence[str], attributes: str = "") -> None:
        """Add an instruction whose value is compared."""
        tail = f", {self._typed(attributes)}" if attributes else ""
        result = f"r{len(self.opcodes)}"
        self._lines.append(f"{result} = {self._typed(type_text)} {opcode}({', '.join(operands)}){tail}")
        self.opcodes.append(opcode)

    def _typed(self, text: str) -> str:
        return re.sub(r"\bT(?=\[)", self.dtype, text)


def add_pointwise(program: EdgeProgram, opcode: str, attributes: str = "", result: str = "") -> None:
    """An op that works element by element: on all pairs in one dimension, on some in two, and on scalars."""
    count = OPS[opcode].arity[0]
    whole = operands_of(program.dtype, opcode, count)
    size = len(whole[0]) // 6 * 6
    scalars = [[operand[index].reshape(()) for operand in whole] for index in (1, len(whole[0]) * 2 // 3)]
    for operands in (whole, [operand[:size].reshape(2, size // 2) for operand in whole], *scalars):
        names = [program.parameter(operand, _dtype_name(operand, program.dtype)) for operand in operands]
        made = result or result_type(program.dtype, opcode, count)
        program.yields(opcode, f"{made}[{','.join(map(str, operands[0].shape))}]", names, attributes)


def operands_of(dtype: str, opcode: str, count: int) -> list[np.ndarray]:
    """One-dimensional operands of edge values: every value, or every pair, beside others."""
    if opcode == "stochastic-convert":
        values = edges(dtype)
        return [values, np.random.default_rng(0).integers(0, 2**DTYPES[dtype].bits, len(values)).astype(f"u{values.itemsize}")]
    values = edges(dtype)
    if count == 1:
        return [values]
    pairs = every_pair(values)
    if opcode == "select":
        return [np.arange(len(pairs[0])) % 3 == 0, *pairs]
    return [*pairs, np.roll(pairs[1], 7)][:count]


def _dtype_name(array: np.ndarray, dtype: str) -> str:
    return dtype if array.dtype == DTYPES[dtype].numpy else "pred" if array.dtype == np.bool_ else f"u{array.itemsize * 8}"


def result_type(dtype: str, opcode: str, count: int) -> str:
    """The element type of a result; raises TypeProblem where the opcode has none of the operands' type."""
    kinds = [TensorType(DTYPES[dtype])] * count
    if opcode == "select":
        kinds[0] = TensorType(DTYPES["pred"])
    attributes = {"direction": "EQ", "exponent_bits": 5, "mantissa_bits": 3}
    row = OPS[opcode]
    made = infer_type(row, kinds, {name: value for name, value in attributes.items() if name in row.attributes})
    assert isinstance(made, TensorType)
    return made.dtype.name


DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


def add_compare(program: EdgeProgram) -> None:
    for direction in DIRECTIONS[: 2 if program.element.is_complex else 6]:
        add_pointwise(program, "compare", f"direction={direction}")
        if program.element.is_float:
            add_pointwise(program, "compare", f"direction={direction}, type=TOTALORDER")


def add_bitcast_convert(program: EdgeProgram) -> None:
    """To every type whose width divides that of the elements, or is a multiple of it, in one and more dimensions."""
    source = program.element
    for target in DTYPES.values():
        few, many = sorted((source.bits, target.bits))
        is_refused = "pred" in (source.name, target.name) or few == 1 or source.is_complex != target.is_complex
        if many % few or is_refused or (source.is_complex and source is not target):
            continue
        ratio = many // few
        for dims in ((6,), (2, 3), ()):
            narrow = (*dims, ratio) if ratio > 1 else dims
            given, made = (narrow, dims) if source.bits < target.bits else (dims, narrow)
            name = program.drawn(*given, seed=len(program.inputs), has_nan=target.is_float)
            program.yields("bitcast-convert", f"{target.name}[{','.join(map(str, made))}]", [name])


def add_convert(program: EdgeProgram) -> None:
    for target in DTYPES:
        if target in ("s1", "u1") or (program.element.is_complex and target == "pred"):
            continue
        if program.dtype == "f4e2m1fn" and (DTYPES[target].is_integer):
            continue  # XLA takes its greatest, 6, for more than any integer type holds
        add_pointwise(program, "convert", result=target)


def add_reduce_precision(program: EdgeProgram) -> None:
    if program.element.is_float:
        for exponent, mantissa in ((5, 10), (8, 7), (4, 3), (2, 0), (1, 1), (5, 0), (8, 23)):
            add_pointwise(program, "reduce-precision", f"exponent_bits={exponent}, mantissa_bits={mantissa}")


def add_complex(program: EdgeProgram) -> None:
    if program.dtype in ("f32", "f64"):
        add_pointwise(program, "complex", result={"f32": "c64", "f64": "c128"}[program.dtype])


def _identity(program: EdgeProgram, opcode: str) -> np.ndarray:
    """What a combiner starts from, so that how often it is combined does not matter."""
    element = program.element
    ones = {"multiply": 1, "add": 0, "or": 0, "xor": 0}
    if opcode in ones:
        return np.array(ones[opcode], element.numpy)
    if not element.is_float:
        numbers = integer_values(program.dtype)
        return np.array(-1 if opcode == "and" and element.kind is DTypeKind.SIGNED else numbers.min() if opcode == "maximum" else numbers.max(), element.numpy)  # fmt: skip
    values = edges(program.dtype)
    values = values[~np.isnan(values)]
    order = np.argsort(values.astype(np.float64))
    return values[order[0 if opcode == "maximum" else -1]]


def _combiners(program: EdgeProgram) -> list[str]:
    """What combines values in any order to the same: of floats no sums, which round."""
    element = program.element
    if element.is_complex:
        return []
    if element.is_float:
        return ["maximum", "minimum"]
    return ["add", "multiply", "maximum", "minimum", "and", "or", *([] if element.kind is DTypeKind.BOOLEAN else ["xor"])]


def add_reduce(program: EdgeProgram) -> None:
    for opcode in _combiners(program):
        start = program.parameter(_identity(program, opcode))
        for dims, axes in (((3, 7), "1"), ((9,), "0"), ((130, 2), "0"), ((2, 3, 4), "0,2"), ((0, 3), "0")):
            kept = [str(size) for axis, size in enumerate(dims) if str(axis) not in axes.split(",")]
            tail = f"dimensions={{{axes}}}, to_apply={program.combiner(opcode)}"
            program.yields("reduce", f"T[{','.join(kept)}]", [program.drawn(*dims, seed=len(dims)), start], tail)


WINDOWS = (
    ((6, 5), "size=2x3 stride=1x2 pad=1_0x0_1", "6,2"),
    ((9,), "size=3 stride=2 pad=1_1 rhs_dilate=2", "4"),
    ((5,), "size=2 lhs_dilate=2", "8"),
    ((7,), "size=2 pad=-1_-2", "3"),
)


def add_reduce_window(program: EdgeProgram) -> None:
    for opcode in _combiners(program):
        start = program.parameter(_identity(program, opcode))
        for dims, window, made in WINDOWS:
            tail = f"window={{{window}}}, to_apply={program.combiner(opcode)}"
            program.yields("reduce-window", f"T[{made}]", [program.drawn(*dims, seed=len(made)), start], tail)


def add_select_and_scatter(program: EdgeProgram) -> None:
    for direction in ("GE", "GT", "LE", "LT") if not program.element.is_complex else ():
        source, start = program.drawn(3, 4, seed=1, has_nan=False), program.drawn(seed=2, has_nan=False)
        combiner = program.combiner("maximum")
        tail = f"window={{size=2x2 stride=2x2}}, select={program.order(direction)}, scatter={combiner}"
        program.yields("select-and-scatter", "T[6,8]", [program.drawn(6, 8, seed=3), source, start], tail)


def add_sort(program: EdgeProgram) -> None:
    """By orders that are orders: NaNs only where the total order places them."""
    if program.element.is_complex or program.dtype in ("s2", "u2"):  # XLA refuses to sort those
        return
    for direction in ("LT", "GT"):
        graph = program.order(direction)
        for dims, axis in (((33,), 0), ((3, 17), 1), ((17, 3), 0), ((1,), 0), ((0, 2), 1)):
            name = program.drawn(*dims, seed=len(dims), has_nan=False)
            tail = f"dimensions={{{axis}}}, is_stable=true, to_apply={graph}"
            program.yields("sort", f"T[{','.join(map(str, dims))}]", [name], tail)


INDICES = {
    "s32": (-100, -1, 0, 1, 3, 4, 5, 6, 2**31 - 1, -(2**31)),
    "s64": (-1, 0, 3, 2**40, -(2**40), 2**63 - 1, -(2**63), 2**32),
    "u32": (0, 3, 5, 2**32 - 1, 2**31), "u64": (0, 3, 2**63, 2**64 - 1, 2**32),
    "s8": (-128, -1, 0, 4, 127), "u8": (0, 4, 255, 128), "s16": (-32768, -1, 2, 32767), "u16": (0, 2, 65535, 32768),
    "s4": (-8, -1, 4, 7), "u4": (0, 4, 15, 8),
}  # fmt: skip
"""Indices within an array of 6 or 5 elements, and beyond on both sides; as other types they may seem to be within."""


def _index_arrays(program: EdgeProgram) -> list[tuple[str, np.ndarray]]:
    """Index types with pairs of indices: all types for one element type, as they do not depend on each other."""
    chosen = INDICES if program.dtype == "f32" else {"s32": INDICES["s32"]}
    return [
        (dtype, np.array([[one, values[(index * 3 + 1) % len(values)]] for index, one in enumerate(values)], object).astype(DTYPES[dtype].numpy))
        for dtype, values in chosen.items()
    ]  # fmt: skip


def add_dynamic_slices(program: EdgeProgram) -> None:
    array, update = program.drawn(6, 5), program.drawn(2, 3, seed=1)
    for dtype, pairs in _index_arrays(program):
        for pair in pairs:
            starts = [program.parameter(start.reshape(()), dtype) for start in pair]
            program.yields("dynamic-slice", "T[2,3]", [array, *starts], "dynamic_slice_sizes={2,3}")
            program.yields("dynamic-update-slice", "T[6,5]", [array, update, *starts])


def add_gather(program: EdgeProgram) -> None:
    array = program.drawn(6, 5)
    for dtype, pairs in _index_arrays(program):
        indices, count = program.parameter(pairs, dtype), len(pairs)
        elements = "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}"
        windows = "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=1, slice_sizes={2,3}"
        program.yields("gather", f"T[{count}]", [array, indices], elements)
        program.yields("gather", f"T[{count},2,3]", [array, indices], windows)


def add_scatter(program: EdgeProgram) -> None:
    """What is outside is dropped; several updates of one element are combined in any order to the same."""
    array = program.drawn(6, 5)
    for dtype, pairs in _index_arrays(program):
        indices, count = program.parameter(pairs, dtype), len(pairs)
        for opcode in _combiners(program):
            graph = f"index_vector_dim=1, to_apply={program.combiner(opcode)}"
            elements = f"update_window_dims={{}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, {graph}"
            windows = f"update_window_dims={{1,2}}, inserted_window_dims={{}}, scatter_dims_to_operand_dims={{1,0}}, {graph}"
            program.yields("scatter", "T[6,5]", [array, indices, program.drawn(count, seed=4)], elements)
            program.yields("scatter", "T[6,5]", [array, indices, program.drawn(count, 2, 3, seed=5)], windows)


PADDINGS = (
    ("1_2_1x0_0", "12,3"), ("-1_-2x1_1_2", "2,9"), ("-2_3_2x-1_0", "14,2"), ("-5_1x0_0_1", "1,5"), ("0_-5x0_0", "0,3"),
    ("2_-3_1x-3_1_1", "8,3"),
)  # fmt: skip
"""Of an array of 5 by 3: what is added before, behind and between, or cropped; and what is made."""


def add_movement(program: EdgeProgram) -> None:
    """Of elements of four bits and more: XLA's CPU compiler dies of moving narrower ones."""
    if program.element.bits == 2:
        return
    array, scalar = program.drawn(4, 3), program.drawn(seed=3)
    program.yields("broadcast", "T[2,4,3]", [array], "dimensions={1,2}")
    program.yields("broadcast", "T[5]", [scalar], "dimensions={}")
    program.yields("transpose", "T[3,4]", [array], "dimensions={1,0}")
    program.yields("reshape", "T[2,2,3]", [array])
    program.yields("reshape", "T[1,1]", [scalar])
    program.yields("reverse", "T[4,3]", [array], "dimensions={0,1}")
    program.yields("slice", "T[2,1]", [array], "slice={[1:4:2],[2:3]}")
    program.yields("slice", "T[0,3]", [array], "slice={[2:2],[0:3]}")
    program.yields("concatenate", "T[9,3]", [array, program.drawn(5, 3, seed=1)], "dimensions={0}")
    padded = program.drawn(5, 3, seed=2)
    for padding, made in PADDINGS:
        program.yields("pad", f"T[{made}]", [padded, scalar], f"padding={padding}")
    if program.element.kind is not DTypeKind.BOOLEAN:
        for dims, axis in (("20", 0), ("300", 0), ("3,5,2", 1), ("1", 0), ("0,2", 1)):
            program.yields("iota", f"T[{dims}]", [], f"iota_dimension={axis}")


def add_map(program: EdgeProgram) -> None:
    if not program.element.is_complex:
        text = (
            "a = T[] parameter(0)  b = T[] parameter(1)  c = pred[] compare(a, b), direction=LT  ROOT r = T[] select(c, b, a)"
        )
        operands = [program.drawn(3, 5), program.drawn(3, 5, seed=1)]
        program.yields("map", "T[3,5]", operands, f"dimensions={{0,1}}, to_apply={program.graph('mapped', text)}")


def add_contractions(program: EdgeProgram) -> None:
    """Of integers, whose products and sums wrap around."""
    if program.element.is_integer and program.element.bits > 2:  # XLA refuses dots of types of two bits
        left, right, vector = program.drawn(2, 3, 5), program.drawn(2, 5, 4, seed=1), program.drawn(5, seed=2)
        batched = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
        program.yields("dot", "T[2,3,4]", [left, right], batched)
        program.yields("dot", "T[2,3]", [left, vector], "lhs_contracting_dims={2}, rhs_contracting_dims={0}")
        program.yields("dot", "T[]", [vector, vector], "lhs_contracting_dims={0}, rhs_contracting_dims={0}")
        operands = [program.drawn(1, 6, 6, 2, seed=3), program.drawn(3, 3, 2, 3, seed=4)]
        tail = "window={size=3x3 stride=2x2 pad=1_0x0_1}, dim_labels=b01f_01io->b01f"
        program.yields("convolution", "T[1,3,3,3]", operands, tail)


def add_control_flow(program: EdgeProgram) -> None:
    """Branches by numbers that none has: the last one is taken."""
    reverse = program.graph("backwards", "p = T[4] parameter(0)  ROOT r = T[4] reverse(p), dimensions={0}")
    same = program.graph("same", "p = T[4] parameter(0)  ROOT r = T[4] copy(p)")
    array, other = program.drawn(4), program.drawn(4, seed=1)
    for number in (-(2**31), -1, 0, 1, 2, 7):
        chosen = program.parameter(np.array(number, np.int32), "s32")
        program.yields("conditional", "T[4]", [chosen, array, other], f"branch_computations={{{reverse}, {same}}}")
    program.yields("call", "T[4]", [array], f"to_apply={reverse}")


GRIDS: dict[str, Callable[[EdgeProgram], None]] = {
    "bitcast-convert": add_bitcast_convert,
    "broadcast": add_movement,
    "call": add_control_flow,
    "compare": add_compare,
    "complex": add_complex,
    "conditional": add_control_flow,
    "convert": add_convert,
    "convolution": add_contractions,
    "dot": add_contractions,
    "dynamic-slice": add_dynamic_slices,
    "dynamic-update-slice": add_dynamic_slices,
    "gather": add_gather,
    "map": add_map,
    "reduce": add_reduce,
    "reduce-precision": add_reduce_precision,
    "reduce-window": add_reduce_window,
    "scatter": add_scatter,
    "select-and-scatter": add_select_and_scatter,
    "sort": add_sort,
    **dict.fromkeys(("concatenate", "iota", "pad", "reshape", "reverse", "slice", "transpose"), add_movement),
}
"""Grids of ops that need more than operands; some are for several opcodes together."""

_ROUNDED = "sums are rounded in an order of the backend's own: tests of its family compare within tolerances"
_STATE = "it passes values on, and computes none"
_PARTNER = "it needs other devices, or a host: tests of its family run it on one"
_LACKING = "XLA's CPU has no such op: tests of its family compare with Python's own"
WITHOUT_GRID: dict[str, str] = {
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "mulhi", "stochastic-convert"), _LACKING),
    **dict.fromkeys(("batch-norm-grad", "batch-norm-inference", "batch-norm-training", "cholesky", "fft", "ragged-dot",
                     "scaled-dot", "scan", "triangular-solve"), _ROUNDED),
    **dict.fromkeys(("add-dependency", "after-all", "async-done", "async-start", "async-update", "copy-done", "copy-start",
                     "domain", "get-tuple-element", "opt-barrier", "tuple", "tuple-select"), _STATE),
    **dict.fromkeys(("all-gather", "all-gather-done", "all-gather-start", "all-reduce", "all-reduce-done",
                     "all-reduce-start", "all-to-all", "collective-broadcast", "collective-permute",
                     "collective-permute-done", "collective-permute-start", "infeed", "outfeed", "partition-id",
                     "ragged-all-to-all", "recv", "recv-done", "reduce-scatter", "replica-id", "send", "send-done"), _PARTNER),
    **dict.fromkeys(("rng", "rng-get-and-update-state"), "the numbers are the device's own, and not evaluated"),
    "rng-bit-generator": "it takes a state, and no edge values: test_random.py compares its bits",
    "bitcast": "XLA's client takes none: hloom writes reshapes, transposes and bitcast-converts instead",
    "custom-call": "only the backend knows what it computes",
    "dynamic-reshape": "its sizes are those of the run: test_data_movement.py has them",
    "get-dimension-size": "its sizes are those of the run: test_data_movement.py has them",
    "set-dimension-size": "its sizes are those of the run: test_data_movement.py has them",
    "fusion": "XLA's client takes none: it is run as a call",
    "topk": "XLA's CPU orders equal elements and NaNs as a sort does: test_sort.py compares it",
    "while": "its values are its body's: test_control_flow.py has loops of no round and of many",
}  # fmt: skip
"""Opcodes that have no grid, and why."""


def pointwise_opcodes() -> list[str]:
    """The opcodes that work element by element and have neither a grid of their own nor a reason for none."""
    return [opcode for opcode in OPS if TABLE[opcode].is_pointwise and opcode not in GRIDS and opcode not in WITHOUT_GRID]


def add_every_pointwise(program: EdgeProgram, left_out: frozenset[str] = frozenset()) -> None:
    """All ops that work element by element and that the type has."""
    for opcode in pointwise_opcodes():
        if opcode in left_out:
            continue
        try:
            result_type(program.dtype, opcode, OPS[opcode].arity[0])
        except TypeProblem:
            continue
        add_pointwise(program, opcode)
