"""Random inputs of every type."""

import numpy as np
import pytest

from hloom.ir import DTYPES, TensorType
from hloom.runtime import random_inputs, run
from hloom.text import HloomError

NOT_BY_XLA = {"s1", "u1"}
"""What jaxlib's CPU client does not take."""


@pytest.mark.parametrize("name", sorted({*DTYPES} - NOT_BY_XLA))
def test_every_type_goes_through_xla(name):
    result = run(f"ENTRY e {{ x = {name}[2,3] parameter(0) ROOT y = {name}[2,3] copy(x) }}")
    assert result.outputs[0].dtype == DTYPES[name].numpy
    assert result.outputs[0].tobytes() == result.inputs[0].tobytes()


def test_random_inputs_depend_on_seed_and_place_only():
    x, y = TensorType(DTYPES["f32"], (3,)), TensorType(DTYPES["s8"], (100,))
    assert np.array_equal(random_inputs([x, y], 1)[1], random_inputs([y, y], 1)[1])
    assert not np.array_equal(*random_inputs([x, x], 1))  # pyright: ignore[reportArgumentType]
    assert {*random_inputs([y])[0].tolist()} == set(range(8))
    assert {*random_inputs([TensorType(DTYPES["u2"], (100,))])[0].tolist()} == set(range(4))


MIXED = "ENTRY e { x = f32[2] parameter(0) n = s32[2] parameter(1) ROOT t = (f32[2], s32[2]) tuple(x, n) }"


@pytest.mark.parametrize(
    "inputs",
    [
        ([1, 2.5], [3, 4]),
        (np.float16([1, 2.5]), np.int8([3, 4])),  # pyright: ignore[reportArgumentType]
        ((True + 0, 2.5), np.uint16([3, 4])),  # pyright: ignore[reportArgumentType]
    ],
    ids=["nested lists", "narrower types", "mixed"],
)
def test_lists_and_safe_types_are_converted(inputs):
    first, second = run(MIXED, inputs).outputs
    assert (first.dtype, second.dtype) == (np.float32, np.int32)
    assert second.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (([1, 2], [3, 4.5]), "input 1 (n) is f64[2], the program takes s32[2]"),
        (([1, 2], [3, 2**40]), "input 1 (n) is s64[2], the program takes s32[2]"),
        (([1, [2]], [3, 4]), "input 0 (x) is a ragged list, the program takes f32[2]"),
        (([1, 2, 3], [3, 4]), "input 0 (x) is s64[3], the program takes f32[2]"),
        ((np.ones(2), [3, 4]), "input 0 (x) is f64[2], the program takes f32[2]"),
        ((["a", "b"], [3, 4]), "input 0 (x) is a numpy array of <U1, the program takes f32[2]"),
    ],
)
def test_what_would_lose_something_is_refused(inputs, message: str):
    with pytest.raises(HloomError) as caught:
        run(MIXED, inputs)
    assert str(caught.value) == message
