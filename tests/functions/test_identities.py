"""What moves nothing is not in the program of a function, however NumPy and jax spell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hloom

X = np.arange(6, dtype=np.float32).reshape(2, 3)

IDENTITIES: dict[str, Callable[[Any], Any]] = {
    "transpose by the identity": lambda x: np.transpose(x, (0, 1)),
    "the method": lambda x: x.transpose(0, 1),
    "by negative numbers": lambda x: x.transpose((0, -1)),
    "transpose twice": lambda x: np.transpose(np.transpose(x)),
    "T twice": lambda x: x.T.T,
    "mT twice": lambda x: x.mT.mT,
    "moveaxis": lambda x: np.moveaxis(x, 0, 0),
    "moveaxis there and back": lambda x: np.moveaxis(np.moveaxis(x, 0, 1), 1, 0),
    "swapaxes twice": lambda x: jnp.swapaxes(jnp.swapaxes(x, 0, 1), 0, 1),
    "rollaxis": lambda x: np.rollaxis(x, 0),
    "einsum": lambda x: np.einsum("ij->ij", x),
    "reshape": lambda x: x.reshape(x.shape),
    "reshape there and back": lambda x: x.reshape(-1).reshape(2, 3),
    "broadcast_to": lambda x: np.broadcast_to(x, x.shape),
    "a slice of everything": lambda x: x[:, :],
    "backwards twice": lambda x: x[::-1][::-1],
    "flip of nothing": lambda x: np.flip(x, ()),
    "concatenate of one": lambda x: np.concatenate([x]),
    "pad by nothing": lambda x: np.pad(x, 0),
    "roll by nothing": lambda x: np.roll(x, 0),
    "squeeze": lambda x: np.squeeze(x[None]),
    "astype": lambda x: x.astype(np.float32),
}


@pytest.mark.parametrize("function", IDENTITIES.values(), ids=IDENTITIES)
def test_nothing_is_left_of_what_moves_nothing(function: Callable[[Any], Any]):
    compiled = hloom.function(function)
    assert {node.opcode for node in compiled.hlo(X).nodes()} <= {"parameter", "tuple"}
    np.testing.assert_array_equal(compiled(X), function(X))


def test_products_read_what_is_transposed_before():
    program = hloom.function(lambda x: x @ x.T.T.T).hlo(X)
    assert [node.opcode for node in program.nodes()] == ["parameter", "dot", "tuple"]
