"""Random bits identical to those of XLA's CPU backend; and ops whose numbers depend on the device.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011; for the order in which the words become
elements, `xla/hlo/builder/lib/prng.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, array_type, arrays_of, evaluator, none, type_of
from hloom.ir import Apply, DType, DTypeKind, TensorType, TupleType
from hloom.text import Unsupported

Words: TypeAlias = list[np.ndarray]
"""Arrays of u64, each holding 32 bits, the lowest word first."""

_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@evaluator("rng-bit-generator")
def _rng_bit_generator(node: Apply, operands: Values, run: Runner) -> Value:
    """The state and the numbers, or the numbers alone where the type says so."""
    (state,) = arrays_of(operands)
    operand_type = type_of(node)
    wanted = operand_type.elements[-1] if isinstance(operand_type, TupleType) else array_type(node)
    if not isinstance(wanted, TensorType) or wanted.dtype.kind not in (
        DTypeKind.SIGNED,
        DTypeKind.UNSIGNED,
        DTypeKind.FLOAT,
    ):
        raise Unsupported(f"XLA makes no random bits of {wanted}")
    generate = _ALGORITHMS[node.attribute("algorithm")]
    following, numbers = generate(_as_words(state), wanted.dims, max(wanted.dtype.bits, 32))
    elements = _as_elements(numbers, wanted.dtype)
    return (
        (following.view(state.dtype).reshape(state.shape), elements)
        if isinstance(operand_type, TupleType)
        else elements
    )


def _as_words(state: np.ndarray) -> np.ndarray:
    """The state, of u64 or of twice as many u32, as u64."""
    return np.ascontiguousarray(state).view(np.uint64)


def _as_elements(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """The lowest bits of each number as an element."""
    return np.asarray(numbers.astype(f"u{dtype.byte_count}").view(dtype.numpy))


def three_fry(state: np.ndarray, dims: Sequence[int], bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The state after it, and numbers of 32 or 64 bits; the state is a key and a counter.

    A block of two words is one number of 64 bits, or two of 32, which are neighbours in the first even dimension, or
    in the longest where none is even. Blocks count in row-major order.
    """
    if len(state) != 2:
        raise Unsupported(f"rng_three_fry has a state of 2 u64, not {len(state)}")
    key, counter = state
    if bits == 64:
        counters = counter + np.arange(math.prod(dims), dtype=np.uint64).reshape(dims)
        return _after(state, counters.size), _joined(_three_fry_2x32(_halves(counters), _halves(key)))
    sizes, axis = list(dims) or [1], _paired_dimension(dims)
    sizes[axis] = (sizes[axis] + 1) // 2
    counters = counter + np.arange(math.prod(sizes), dtype=np.uint64).reshape(sizes)
    pairs = np.stack(_three_fry_2x32(_halves(counters), _halves(key)), axis + 1)
    sizes[axis] *= 2
    whole = pairs.reshape(sizes)
    if not dims:
        return _after(state, counters.size), whole[0]
    return _after(state, counters.size), whole[tuple(slice(size) for size in dims)]


def _paired_dimension(dims: Sequence[int]) -> int:
    even = [axis for axis, size in enumerate(dims) if size % 2 == 0]
    return even[0] if even else int(np.argmax(dims)) if dims else 0


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""By how many bits Threefry-2x32 rotates in even and in odd groups of four rounds (Salmon et al. 2011)."""
_PARITY = np.uint64(0x1BD11BDA)


def _three_fry_2x32(counters: Words, key: Words) -> Words:
    """Twenty rounds, in groups of four with a part of the key added between."""
    keys = [*key, key[0] ^ key[1] ^ _PARITY]
    x, y = [(counter + part) & _MASK for counter, part in zip(counters, key, strict=True)]
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = (x + y) & _MASK
            y = x ^ (((y << np.uint64(distance)) | (y >> np.uint64(32 - distance))) & _MASK)
        x = (x + keys[(group + 1) % 3]) & _MASK
        y = (y + keys[(group + 2) % 3] + np.uint64(group + 1)) & _MASK
    return [x, y]


def philox(state: np.ndarray, dims: Sequence[int], bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The state after it, and numbers of 32 or 64 bits; the state is a key and a counter of 128 bits.

    A block of four words is four numbers, or two of 64 bits, in row-major order. A state of 2 u64 has half a counter;
    the upper half is then the key.
    """
    if len(state) not in (2, 3):
        raise Unsupported(f"rng_philox has a state of 2 or 3 u64, not {len(state)}")
    count = math.prod(dims)
    blocks = -(-count * bits // 128)
    low = state[1] + np.arange(blocks, dtype=np.uint64)
    high = (state[2] if len(state) == 3 else state[0]) + (low < state[1]).astype(np.uint64)
    words = _philox_4x32([*_halves(low), *_halves(high)], _halves(state[0]))
    numbers = words if bits == 32 else [_joined(words[:2]), _joined(words[2:])]
    return _after(state, blocks), np.stack(numbers, -1).reshape(-1)[:count].reshape(dims)


_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_RAISES = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))


def _philox_4x32(counters: Words, key: Words) -> Words:
    """Ten rounds of multiplying, with the key raised after each."""
    words, keys = counters, key
    for _ in range(10):
        products = [words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]]
        (low, high), (other_low, other_high) = map(_halves, products)
        words = [other_high ^ words[1] ^ keys[0], other_low, high ^ words[3] ^ keys[1], low]
        keys = [(part + step) & _MASK for part, step in zip(keys, _RAISES, strict=True)]
    return words


def _after(state: np.ndarray, blocks: int) -> np.ndarray:
    """The state with its counter moved on, which carries into the third u64 where there is one."""
    following = state.copy()
    following[1] += np.uint64(blocks)
    following[2:] += np.uint64(following[1] < state[1])
    return following


def _halves(words: np.ndarray | np.uint64) -> Words:
    """The lower and the upper 32 bits."""
    return [np.asarray(words & _MASK), np.asarray(words >> _HALF)]


def _joined(words: Words) -> np.ndarray:
    low, high = words
    return low | (high << _HALF)


_ALGORITHMS: dict[str, Callable[[np.ndarray, Sequence[int], int], tuple[np.ndarray, np.ndarray]]] = {
    "rng_default": philox,
    "rng_philox": philox,
    "rng_three_fry": three_fry,
}
"""The generators; the default is what XLA's CPU has for it."""

none("rng", because="the numbers come from the device, and XLA does not say which")
none("rng-get-and-update-state", because="the state is the device's")
