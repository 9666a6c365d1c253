"""Random inputs of every type."""

import numpy as np
import pytest

from hloom.ir import DTYPES, TensorType
from hloom.runtime import random_inputs, run

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
    assert not np.array_equal(*random_inputs([x, x], 1))
    assert {*random_inputs([y])[0].tolist()} == set(range(8))
    assert {*random_inputs([TensorType(DTYPES["u2"], (100,))])[0].tolist()} == set(range(4))
