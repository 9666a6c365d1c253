"""Custom calls whose values are known without the backend."""

from __future__ import annotations

import numpy as np
import pytest

from hloom import parse
from hloom.evaluator import CannotEvaluate, evaluate


def called(operands: str, target: str) -> object:
    module = parse(
        f"HloModule m\nENTRY e {{ i = s32[3] parameter(0)\n"
        f'ROOT c = s32[3] custom-call({operands}), custom_call_target="{target}" }}'
    )
    (value,) = evaluate(module, [np.array([2, 0, 1], np.int32)])
    return value


def test_a_note_about_indices_is_its_operand():
    np.testing.assert_array_equal(called("i", "AssumeGatherIndicesInBound"), [2, 0, 1])


def test_a_buffer_that_will_be_written_is_zeros():
    np.testing.assert_array_equal(called("", "AllocateBuffer"), [0, 0, 0])


def test_others_are_refused():
    with pytest.raises(CannotEvaluate, match="c: cannot evaluate custom-call: only the backend knows"):
        called("i", "my_call")
