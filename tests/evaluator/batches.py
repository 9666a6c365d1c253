"""Many opcodes in one program, XLA's results beside ours; how far apart floats are; values to try."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from hloom.evaluator import evaluate
from hloom.evaluator.sort import total_order_keys
from hloom.formats.hlo import parse
from hloom.ir import DTYPES, DTypeKind
from hloom.ir.number_conversion import integer_range
from hloom.runtime import run_text

INTEGER_OPS = (
    "count-leading-zeros", "copy", "negate", "not", "popcnt",
)  # fmt: skip
INTEGER_PAIR_OPS = (
    "add", "and", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "subtract", "xor",
)  # fmt: skip
DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


def batch(opcodes: Sequence[str], inputs: Sequence[np.ndarray], results: Sequence[str] | None = None) -> list[tuple]:
    """XLA's result and ours of each opcode, which may be followed by attributes, on inputs of its own dimensions."""
    shapes = [f"{dtype_name(array)}[{','.join(map(str, array.shape))}]" for array in inputs]
    whole = max(shapes, key=len)
    types = [whole] * len(opcodes) if results is None else [result + whole[whole.index("[") :] for result in results]
    lines = [f"x{index} = {shape} parameter({index})" for index, shape in enumerate(shapes)]
    operands = ", ".join(f"x{index}" for index in range(len(inputs)))
    for number, (opcode, result_type) in enumerate(zip(opcodes, types, strict=True)):
        name, _, attributes = opcode.partition(", ")
        lines.append(f"y{number} = {result_type} {name}({operands}){', ' if attributes else ''}{attributes}")
    lines.append(f"ROOT all = tuple({', '.join(f'y{number}' for number in range(len(opcodes)))})")
    text = "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}"
    return list(zip(opcodes, run_text(text, inputs).outputs, evaluate(parse(text), inputs), strict=True))


def dtype_name(array: np.ndarray) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype.numpy == array.dtype)


def one(opcode: str, *inputs: np.ndarray, result: str | None = None) -> np.ndarray:
    """Our result of one opcode."""
    shapes = [f"{dtype_name(array)}[{','.join(map(str, array.shape))}]" for array in inputs]
    lines = [f"x{index} = {shape} parameter({index})" for index, shape in enumerate(shapes)]
    name, _, attributes = opcode.partition(", ")
    operands = ", ".join(f"x{index}" for index in range(len(inputs)))
    root = f"ROOT y = {result or shapes[0]} {name}({operands}){', ' if attributes else ''}{attributes}"
    return evaluate(parse("ENTRY e {\n  " + "\n  ".join([*lines, root]) + "\n}"), inputs)[0]


def without_denormals(array: np.ndarray) -> np.ndarray:
    """Zeros for what XLA takes for zeros, or rounds to the least normal number after taking it so.

    What f8e8m0fnu has for zero, which it cannot hold, is NaN.
    """
    name = dtype_name(array)
    if name == "f8e8m0fnu":
        return np.where(array.view(np.uint8) == 0, np.array(np.nan, array.dtype), array)
    if name not in ("f32", "f64", "bf16"):
        return array
    least = ml_dtypes.finfo(array.dtype).smallest_normal
    zeros = np.where(np.signbit(array), np.array(-0.0, array.dtype), np.array(0, array.dtype))
    with np.errstate(all="ignore"):
        return np.where(np.abs(array) <= least, zeros, array)


def distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How many floats are between; none between NaNs, infinitely many between a NaN and a number."""
    with np.errstate(all="ignore"):
        sides = [without_denormals(side) for side in (left, right)]
        keys = [total_order_keys(side).astype(object if left.dtype.itemsize == 8 else np.int64) for side in sides]
        is_nan = [np.isnan(side) for side in sides]
        apart = np.abs(keys[0] - keys[1]).astype(np.float64)
    return np.where(is_nan[0] | is_nan[1], np.where(is_nan[0] & is_nan[1], 0.0, np.inf), apart)


def assert_all(
    holds: np.ndarray, opcode: str, theirs: np.ndarray, ours: np.ndarray, inputs: Sequence[np.ndarray]
) -> None:
    wrong = np.flatnonzero(~holds)
    shown = [
        f"{opcode}({', '.join(str(array.flat[index]) for array in inputs)}): XLA {theirs.flat[index]}, we {ours.flat[index]}"
        for index in wrong[:5]
    ]
    assert not wrong.size, f"{wrong.size} differ: " + "; ".join(shown)


def every_pair(values: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(array.ravel()) for array in np.meshgrid(values, values, indexing="ij")]


def integer_values(dtype: str) -> np.ndarray:
    """Every value of a byte; edges and random sizes of wider ones."""
    element_type = DTYPES[dtype]
    if element_type.kind is DTypeKind.BOOLEAN:
        return np.array([False, True])
    least, greatest = integer_range(element_type)
    if element_type.bits <= 8:
        return np.arange(least, greatest + 1).astype(element_type.numpy)
    generator = np.random.default_rng(0)
    edges = [
        0,
        1,
        2,
        3,
        5,
        8,
        15,
        16,
        17,
        31,
        32,
        33,
        63,
        64,
        65,
        -1,
        -2,
        -3,
        -7,
        2**15,
        2**31,
        least,
        least + 1,
        greatest,
    ]
    wide = generator.integers(least, greatest, 600, dtype=element_type.numpy, endpoint=True)
    held = np.array([edge for edge in edges if least <= edge <= greatest], object).astype(element_type.numpy)
    return np.concatenate([held, wide, wide >> generator.integers(0, element_type.bits, 600).astype(element_type.numpy)])


def integer_pairs(dtype: str) -> list[np.ndarray]:
    values = integer_values(dtype)
    if len(values) <= 256:
        return every_pair(values)
    generator = np.random.default_rng(3)
    return [np.concatenate([operand, generator.choice(values, 3000)]) for operand in every_pair(values[:24])]


def joined(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    whole = np.empty(real.shape, np.complex128)
    whole.real, whole.imag = real, imaginary
    return whole


def is_same(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether both parts are equal, or both NaN."""
    parts = [(np.real(left), np.real(right)), (np.imag(left), np.imag(right))]
    return np.logical_and.reduce([(a == b) | (np.isnan(a) & np.isnan(b)) for a, b in parts])
