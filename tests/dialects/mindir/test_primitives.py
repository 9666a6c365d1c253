"""Each primitive's lowering and the numbers that MindSpore's kernels give, of `scripts/make_mindspore_primitives.py`.

With numpy here and with XLA in `make test-long`. Of arguments at which MindSpore's CPU kernels leave IEEE arithmetic,
`left_out` has the list: HLO's numbers are IEEE's there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

import hloom
from hloom.dialects import mindir
from hloom.dialects.mindir.rows import PREFIX
from hloom.ir import TensorType, TupleType, Type
from tests.dialects.mindir.samples import FOLDER, PrimitiveCase, primitive_cases

CASES = primitive_cases(FOLDER / "primitives")
BY_PRIMITIVE: dict[str, list[PrimitiveCase]] = defaultdict(list)
for _case in CASES:
    BY_PRIMITIVE[_case.primitive].append(_case)

TOLERANCES = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-6}
"""Some kernels of f64 compute in f32."""
INEXACT = {"Mish": 100, "LogSoftmaxExt": 10}
"""By how much more."""
IGNORE_NAN = {"ReLU", "ReLU6", "Sign", "SoftplusExt", "Softplus", "Maximum", "Minimum", "ClampScalar", "Max", "Min"}
"""They compare, so that NaN counts as a number that is not greater; HLO's results are NaN there."""
DIVIDE = {"Div", "RealDiv", "FloorDiv", "FloorMod", "Mod", "RemainderTensorTensor"}
"""They know no negative zero, and their remainders of infinity are NaN."""
REFUSED = {
    "FloorDiv_bool": "the left operand must be",
    "SubExt_bool": "the left operand must be",
    "Range": "a value here must be known when the program is compiled",
}
"""Cases that MindSpore takes and that have no lowering, with the reason."""
UNWRITTEN = {"BatchNorm_training": (1, 2), "BatchNorm": (1, 2, 3, 4)}
"""Results that MindSpore's CPU kernels leave as they find them."""


def left_out(case: PrimitiveCase, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of a result that are not compared."""
    none = np.zeros(shape, bool)
    arguments = [argument for argument in case.arguments if argument.dtype.kind in "iuf"]
    same = [argument.astype(np.float64) for argument in arguments if argument.shape == shape]
    if case.primitive in IGNORE_NAN:
        has_nan = [np.isnan(argument.astype(np.float64)) for argument in arguments]
        return np.logical_or.reduce([*has_nan, none]) if len(same) == len(arguments) else none | np.any(has_nan[0])
    if case.primitive in DIVIDE and len(same) == 2:
        with np.errstate(all="ignore"):  # the kernel of f64 rounds the quotient, Python and HLO do not
            rest, divisor = np.abs(np.fmod(*same)), np.abs(same[1])
            is_rounded = (rest > 0) & (np.minimum(rest, divisor - rest) < 1e-12) & (case.name[-7:] == "float64")
        return (same[1] == 0) | np.isinf(same[0]) | np.isinf(same[1]) | is_rounded
    if case.primitive == "HSwish":
        return np.isneginf(same[0])
    if case.primitive == "Mish":
        return same[0] > 30
    if case.primitive == "Inv":
        return same[0] == 0
    if case.name == "StridedSlice.4":
        return ~none  # its kernel pays no heed to new_axis_mask
    if case.primitive == "Round":
        return np.abs(same[0]) > 2**53
    return none


def check(case: PrimitiveCase, run: Callable[[hloom.Module, list[np.ndarray]], list[np.ndarray]]) -> None:
    module = mindir.parse(case.text)
    if case.name in REFUSED:
        with pytest.raises(hloom.Unsupported, match=REFUSED[case.name]):
            mindir.lower(module)
        return
    try:
        lowered = mindir.lower(module)
    except hloom.Unsupported as problem:
        assert not case.results and "operand must be of" in problem.message, problem
        return
    assert hloom.verify(lowered).level is hloom.Level.HLO
    if not case.results:
        assert is_of(lowered.entry.root.type, module.entry.root.type), case.name
        return
    made = run(lowered, list(case.arguments))
    assert len(made) == len(case.results), case.name
    for index, (actual, expected) in enumerate(zip(made, case.results, strict=True)):
        if index in UNWRITTEN.get(case.name.split(".")[0], ()):
            continue
        if case.name == "RemainderScalarTensor_int_2":
            assert actual.dtype == np.int64, "so its graph says; the kernel gives s32"
            actual = actual.astype(np.int32)
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), case.name
        compared = ~left_out(case, expected.shape)
        tolerance = TOLERANCES.get(str(expected.dtype), 0) * INEXACT.get(case.primitive, 1)
        pair = [array[compared].astype(np.float64 if tolerance else array.dtype) for array in (actual, expected)]
        np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance / 10, err_msg=case.name)


def is_of(made: Type | None, written: Type | None) -> bool:
    if isinstance(written, TupleType):
        return isinstance(made, TupleType) and all(map(is_of, made.elements, written.elements))
    return not isinstance(written, TensorType) or not written.is_static or made == written


def arrays(outputs: object) -> list[np.ndarray]:
    if isinstance(outputs, (tuple, list)):
        return [array for output in outputs for array in arrays(output)]
    return [np.asarray(outputs)]


def with_numpy(module: hloom.Module, arguments: list[np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return arrays(hloom.evaluate(module, arguments))


def with_xla(module: hloom.Module, arguments: list[np.ndarray]) -> list[np.ndarray]:
    return arrays(hloom.run(module, arguments).outputs)


@pytest.mark.parametrize("primitive", BY_PRIMITIVE)
def test_a_primitive_yields_mindspores_numbers(primitive):
    for case in BY_PRIMITIVE[primitive]:
        check(case, with_numpy)


@pytest.mark.long
@pytest.mark.parametrize("primitive", BY_PRIMITIVE)
def test_a_primitive_yields_mindspores_numbers_on_xla(primitive):
    for case in BY_PRIMITIVE[primitive]:
        check(case, with_xla)


def test_primitives_without_numbers_are_few():
    """What MindSpore's CPU has no kernel for has the types of its graphs, and the numbers of the documentation."""
    used = {node.opcode for case in CASES for node in mindir.parse(case.text).nodes() if node.opcode.startswith(PREFIX)}
    assert len(used) > 200
