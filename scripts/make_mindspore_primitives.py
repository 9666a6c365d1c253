"""Make samples of single primitives: each as MindSpore's graph of it, with the numbers that MindSpore's kernels give.

    /tmp/mindspore-venv/bin/python scripts/make_mindspore_primitives.py tests/dialects/mindir/samples

Writes `primitives/FAMILY.txt`: for each case a line `## NAME`, its arguments and results (`# argument float32 [2,3]
BASE64`), and the `.ir` text of stage `validate`, without comments. Arguments that a primitive changes stand behind
its results. A case is a primitive with arguments and element types. Where its graph does not run, the numbers are
those of the eager kernel; a primitive that has no kernel on the CPU has a graph and no results. What MindSpore
refuses is listed. Further arguments are regular expressions of the only cases to make.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

DUMPS = tempfile.mkdtemp(prefix="mindspore-ir-")
os.environ.update(MS_DEV_SAVE_GRAPHS="1", MS_DEV_SAVE_GRAPHS_PATH=DUMPS, MS_DEV_DUMP_IR_PASSES="validate", GLOG_v="4")

import mindspore  # pyright: ignore[reportMissingImports]
import numpy as np
from mindspore import Tensor, mutable, nn  # pyright: ignore[reportMissingImports]
from mindspore.ops import operations as O  # noqa: N812  # pyright: ignore[reportMissingImports]
from mindspore.ops.auto_generate import gen_ops_prim as P  # noqa: N812  # pyright: ignore[reportMissingImports]
from mindspore.ops.operations import _grad_ops as G  # noqa: N812  # pyright: ignore[reportMissingImports]

RANDOM = np.random.default_rng(1)
F16, F32, F64, S8, S16, S32, S64 = (
    getattr(np, n) for n in ["float16", "float32", "float64", "int8", "int16", "int32", "int64"]
)
U8, BOOL = np.uint8, np.bool_
FLOATS = (F16, F32, F64)
SIGNED = (S8, S16, S32, S64)
NUMBERS = (*FLOATS, *SIGNED, U8)
NAN, INFINITY = float("nan"), float("inf")
SPECIAL = [
    0.0,
    -0.0,
    0.5,
    1.5,
    -0.5,
    -1.5,
    2.5,
    -2.5,
    3.25,
    -7.75,
    INFINITY,
    -INFINITY,
    NAN,
    1e-3,
    -1e-3,
    60.0,
    -60.0,
    12,
]
"""Numbers at which functions of floats may differ."""


class Case(nn.Cell):
    """A primitive applied to tensors, tuples of tensors, and constants, as a template says."""

    def __init__(self, primitive, template: tuple[tuple[str, Any], ...]) -> None:
        super().__init__()
        self.primitive = primitive
        self.template = template

    def construct(self, *tensors):
        arguments = ()
        rest = tensors
        for role, value in self.template:
            if role == "tensor":
                arguments = (*arguments, rest[0])
                rest = rest[1:]
            elif role == "tuple":
                arguments = (*arguments, rest[:value])
                rest = rest[value:]
            else:
                arguments = (*arguments, value)
        return self.primitive(*arguments)


CASES: dict[str, tuple[object, list[object]]] = {}


def case(name: str, primitive, *arguments) -> None:
    """A case of a primitive: arrays and lists of arrays are given when it runs, all else is constant.

    `primitive` is an instance, or a class with no arguments; None stands for what this MindSpore lacks.
    """
    made = primitive() if isinstance(primitive, type) else primitive
    number = sum(known == name or known.startswith(f"{name}.") for known in CASES)
    CASES[f"{name}.{number}" if number else name] = made, list(arguments)


def array(*dims: int, element: type = F32, low: float = -1, high: float = 1) -> np.ndarray:
    """Random numbers in [low, high)."""
    if element is BOOL:
        return RANDOM.uniform(0, 1, dims) < 0.5
    if issubclass(element, np.integer):
        low = max(low, 0) if issubclass(element, np.unsignedinteger) else low
        return RANDOM.integers(int(low), int(high) + 1, dims).astype(element)
    return RANDOM.uniform(low, high, dims).astype(element)


def special(element: type) -> np.ndarray:
    """Numbers at which functions may differ."""
    if element is BOOL:
        return np.array([True, False])
    if issubclass(element, np.integer):
        limits = np.iinfo(element)
        numbers = [0, 1, 2, 3, 7, 100, limits.max, limits.min, *([-1, -2, -7] if limits.min else [])]
        return np.array(numbers, element)
    return np.array(SPECIAL, element)


def pairs(element: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of some numbers, the second ones not zero where they are whole."""
    if element is BOOL:
        return np.array([True, True, False, False]), np.array([True, False, True, False])
    if issubclass(element, np.integer):
        left = [0, 1, 7, 6, 100, *([] if element is U8 else [-1, -7, -6, -100])]
        right = [1, 2, 3, 6, *([] if element is U8 else [-1, -2, -3])]
    else:
        left = right = [0.0, -0.0, 1.0, -1.0, 7.5, -7.5, 3.0, -2.0, INFINITY, -INFINITY, NAN, 0.3]
    grid = [(a, b) for a in left for b in right]
    return np.array([a for a, _ in grid], element), np.array([b for _, b in grid], element)


def elementwise() -> None:
    """Functions of one and of two arrays, in the element types that MindSpore has kernels for."""
    for name in [
        "Abs",
        "ReLU",
        "ReLU6",
        "GeLU",
        "HSigmoid",
        "HSwish",
        "Sigmoid",
        "SiLU",
        "SoftplusExt",
        "Tanh",
        "Exp",
        "Expm1",
        "Log",
        "Log1p",
        "Sqrt",
        "Rsqrt",
        "Reciprocal",
        "Square",
        "Neg",
        "Sign",
        "Floor",
        "Ceil",
        "Sin",
        "Cos",
        "Tan",
        "Atan",
        "Erf",
        "IsFinite",
        "ZerosLike",
        "OnesLike",
        "Identity",
        "Copy",
        "BitwiseNot",
        "Round",
        "Trunc",
        "LogicalNot",
        "Elu",
        "EluExt",
        "LeakyReLUExt",
        "GeluExt",
        "ZerosLikeExt",
        "OnesLikeExt",
    ]:
        for element in (F32, F16, F64, S32, S64, U8, BOOL):
            case(f"{name}_{np.dtype(element)}", getattr(P, name), special(element))
    for name in ["Softplus", "Mish", "Inv", "Rint", "IsNan"]:
        for element in (F32, F16, F64, S32):
            case(f"{name}_{np.dtype(element)}", getattr(O, name), special(element))
    for name in [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "RealDiv",
        "Maximum",
        "Minimum",
        "FloorDiv",
        "FloorMod",
        "Equal",
        "NotEqual",
        "Less",
        "LessEqual",
        "Greater",
        "GreaterEqual",
        "LogicalAnd",
        "LogicalOr",
        "LogicalXor",
        "Atan2",
        "RemainderTensorTensor",
        "AddExt",
        "SubExt",
    ]:
        for element in (F32, S32, U8, BOOL, *((F16, F64, S64) if "i" in name else ())):
            case(f"{name}_{np.dtype(element)}", getattr(P, name), *pairs(element))
    for name in ["DivNoNan", "Mod", "SquaredDifference", "BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
        for element in (F32, S32, S64, BOOL):
            case(f"{name}_{np.dtype(element)}", getattr(O, name), *pairs(element))
    case("DivNoNan_zero", O.DivNoNan(), np.array([1, 0, -3], S32), np.array([0, 0, 2], S32))
    case("Pow_float32", P.Pow(), *pairs(F32))
    case("Pow_int32", P.Pow(), np.array([2, 3, -2, 0, -3], S32), np.array([3, 2, 3, 0, 1], S32))
    case("AddExt_alpha", P.AddExt(), array(2, 3), array(3), 2.5)
    case("SubExt_alpha", P.SubExt(), array(2, 3, element=S32, high=9), array(3, element=S32, high=9), 2)
    x, i = array(5, low=-3, high=3), np.array([-7, -3, 0, 5, 8], S32)
    for name in [
        "Muls",
        "Divs",
        "EqScalar",
        "LessScalar",
        "GreaterEqualScalar",
        "FloorDivScalar",
        "RemainderTensorScalar",
        "PowTensorScalar",
    ]:
        for what, value in (("float", x), ("int", i)):
            for number in (2, -3, 1.5):
                case(f"{name}_{what}_{number}", getattr(P, name), value, number)
    for name in ("RemainderScalarTensor", "PowScalarTensor"):
        for what, value in (("float", x), ("int", np.array([-3, 1, 2, 4], S32))):
            for number in (2, 2.5):
                case(f"{name}_{what}_{number}", getattr(P, name), number, value)
    case("AddN", P.AddN(), [array(2, 3), array(2, 3), array(2, 3)])
    case("AddN_int", P.AddN(), [array(2, 3, element=S32, high=9), array(2, 3, element=S32, high=9)])
    for low, high in ((-0.5, 0.25), (None, 1), (0, None), (1, -1), (-1.5, 2)):
        case("ClampScalar", P.ClampScalar(), special(F32), low, high)
        case("ClampScalar_int", P.ClampScalar(), i, low, high)
    case("ClampTensor", P.ClampTensor(), array(2, 3), np.array([-0.5], F32), np.array([0.25, 0.1, 0.3], F32))
    case("ClampTensor_int", P.ClampTensor(), i, np.array(-2, S32), np.array(4, S32))
    case("ClampTensor_mixed", P.ClampTensor(), i, np.array(-2.5, F32), np.array(4.5, F32))
    case("Round_decimals", P.Round(), special(F32) * 1.37, 1)
    case("Round_negative", P.Round(), array(6, high=1000), -2)
    case("Round_int", P.Round(), i * 13, -1)
    case("GeluExt_tanh", P.GeluExt(), special(F32), "tanh")
    case("LeakyReLUExt_slope", P.LeakyReLUExt(), special(F32), 0.3)
    case("SoftplusExt_beta", P.SoftplusExt(), special(F32), 2, 3)
    case("EluExt_alpha", P.EluExt(alpha=0.7), special(F32))
    case("Elu_alpha", P.Elu(alpha=1.0), array(7, low=-4, high=4))
    for source in (F32, F64, F16, S64, S32, U8, S8, BOOL):
        for target in ("float32", "float16", "int32", "int64", "uint8", "int8", "bool_"):
            numbers = np.array([0, 1.7, -1.7, 2.5, 100.9, 0.4, -0.4, 300.5], np.float64).clip(
                0 if source is U8 else -9, 127 if source in (S8, U8) else 301
            )
            case(f"Cast_{np.dtype(source)}_{target}", O.Cast(), numbers.astype(source), getattr(mindspore, target))
    x, y, b = array(2, 3), array(3), array(2, 3, element=BOOL)
    case("Select", P.Select(), b, x, array(2, 3))
    case("Select_broadcast", P.Select(), b, x, y)
    case("MaskedFill", P.MaskedFill(), x, b, np.array(2.5, F32))
    case("MaskedFill_number", P.MaskedFill(), x, b, 2.5)
    case("MaskedFill_int", P.MaskedFill(), array(2, 3, element=S32), b, np.array(3, S32))
    case("MaskedFillScalar", P.MaskedFillScalar(), x, b, 2.5)
    case("MaskedFillScalar_int", P.MaskedFillScalar(), array(2, 3, element=S32, high=9), b, 3)
    case("BiasAdd", P.BiasAdd(), array(2, 3, 4, 4), y)
    case("BiasAdd_2d", P.BiasAdd(), array(2, 3), y)
    case("BiasAdd_3d", P.BiasAdd(), array(2, 3, 5), y)
    case("BiasAdd_nhwc", P.BiasAdd(data_format="NHWC"), array(2, 4, 4, 3), y)
    for dims in ((2, 3), (2, 3, 4), (2, 3, 4, 5)):
        case("BiasAddGrad", P.BiasAddGrad(), array(*dims))
    case("ReluGrad", P.ReluGrad(), array(5), np.array([0, -1, 2, NAN, 1e-9], F32))
    case("TanhGrad", P.TanhGrad(), array(5), array(5))
    case("SigmoidGrad", P.SigmoidGrad(), array(5), array(5))
    case("StopGradient", O.StopGradient(), x)
    case("ScalarToTensor_list", P.Ones(), (2, 3), mindspore.int32)


def reductions() -> None:
    """Primitives that put elements together."""
    x, i, b = array(2, 3, 4), array(2, 3, 4, element=S32, low=-9, high=9), array(2, 3, 4, element=BOOL)
    for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
        for keep in (False, True):
            for axis in ((), 1, (0, 2), -1):
                case(name, getattr(P, name)(keep), x, axis)
        for element in (F16, F64, S32, U8, BOOL):
            case(f"{name}_{np.dtype(element)}", getattr(P, name)(), array(2, 3, element=element, high=9), 1)
    case("ReduceSum_skip", P.ReduceSum(False, True), x, ())
    for name in ("ReduceAll", "ReduceAny"):
        case(name, getattr(P, name)(), b, 1)
        case(name, getattr(P, name)(True), b, (0, 1))
        case(name, getattr(P, name)(), b, ())
    for name in ("SumExt", "MeanExt", "ProdExt"):
        primitive = getattr(P, name)
        axis = 1 if name == "ProdExt" else (0, -1)
        case(name, primitive(), x)
        case(name, primitive(), x, axis)
        case(name, primitive(), x, axis, True)
        for element in (F16, S32, U8, BOOL):
            case(f"{name}_{np.dtype(element)}", primitive(), array(2, 3, element=element, high=9), 1)
        case(f"{name}_dtype", primitive(), i, axis, False, mindspore.float32)
        case(f"{name}_int_dtype", primitive(), array(2, 3, high=9), 1, False, mindspore.int32)
    for name in ("Max", "Min"):
        case(name, getattr(P, name)(), x)
        case(f"{name}_nan", getattr(P, name)(), np.array([1, NAN, 3], F32))
    repeated = np.array([[1, 5, 5, 0], [3, 3, -2, -2]], F32)
    for name in ("Argmax", "Argmin"):
        for axis in (0, 1, -1):
            case(name, getattr(P, name)(axis), repeated)
        case(f"{name}_nan", getattr(P, name)(), np.array([1, NAN, 3, NAN], F32))
        case(f"{name}_nan", getattr(P, name)(), np.array([NAN, 1, 3, NAN], F32))
        case(f"{name}_nan", getattr(P, name)(), np.array([NAN, -INFINITY, INFINITY, NAN], F32))
        case(f"{name}_nan", getattr(P, name)(), np.array([-INFINITY, NAN, NAN], F32))
        case(f"{name}_int", getattr(P, name)(), np.array([3, -7, 3, -7], S32))
        case(f"{name}_int64", getattr(P, name)(0, mindspore.int64), repeated)
    for name in ("ArgMaxExt", "ArgMinExt"):
        case(name, getattr(P, name)(), repeated)
        case(name, getattr(P, name)(), repeated, 0)
        case(name, getattr(P, name)(), repeated, 1, True)
        case(f"{name}_nan", getattr(P, name)(), np.array([1, NAN, 3, NAN], F32))
    for exclusive in (False, True):
        for reverse in (False, True):
            case("CumSum", P.CumSum(exclusive, reverse), x, 1)
    case("CumSum_u8", P.CumSum(), array(5, element=U8, high=200), 0)
    case("CumSum_int", P.CumSum(), i, -1)
    case("CumSum_nan", P.CumSum(), np.array([1, INFINITY, 2, NAN, 3], F32), 0)
    case("CumsumExt", P.CumsumExt(), x, 2)
    case("CumsumExt_int", P.CumsumExt(), i, 0)
    case("CumsumExt_dtype", P.CumsumExt(), i, 0, mindspore.float32)
    case("CumsumExt_u8", P.CumsumExt(), array(5, element=U8, high=200), 0)


def moves() -> None:
    """Primitives that move elements."""
    x = array(2, 3, 4)
    m = array(4, 5)
    case("Reshape", P.Reshape(), x, (-1, 6))
    case("View", P.View(), x, (4, 6))
    case("View", P.View(), x, (-1,))
    case("Flatten", P.Flatten(), x)
    case("FlattenExt", P.FlattenExt(), x)
    case("FlattenExt", P.FlattenExt(), x, 1, 2)
    case("FlattenExt", P.FlattenExt(), x, -3, -2)
    case("Transpose", P.Transpose(), x, (2, 0, -2))
    case("TransposeView", P.TransposeView(), x, (2, 0, 1))
    case("TransposeExtView", P.TransposeExtView(), x, 0, -1)
    case("ExpandDims", P.ExpandDims(), x, -2)
    case("ExpandDimsView", P.ExpandDimsView(), x, 1)
    case("ExpandDimsView", P.ExpandDimsView(), x, -1)
    case("Squeeze", P.Squeeze(), array(1, 3, 1))
    case("Squeeze", P.Squeeze(-1), array(1, 3, 1))
    case("BroadcastTo", P.BroadcastTo((2, -1, 4)), array(3, 1))
    case("BroadcastToView", P.BroadcastToView(), array(3, 1), (2, 3, 4))
    case("BroadcastToView", P.BroadcastToView(), array(3, 1), (-1, 4))
    case("Tile", O.Tile(), array(2, 3), (2, 1, 2))
    case("Tile", O.Tile(), array(2, 3), (2,))
    case("Concat", P.Concat(1), [array(2, 3), array(2, 2)])
    case("Concat", P.Concat(-1), [array(2, 3), array(2, 2), array(2, 1)])
    case("Stack", O.Stack(1), [array(2, 3), array(2, 3)])
    case("Stack", O.Stack(-1), [array(2, 3), array(2, 3)])
    case("StackExt", P.StackExt(1), [array(2, 3), array(2, 3)])
    case("StackExt", P.StackExt(-1), [array(2, 3), array(2, 3)])
    case("Split", P.Split(2, 2), x)
    case("Split", P.Split(0, 2), x)
    case("SplitTensor", P.SplitTensor(), x, 3, 2)
    case("SplitTensor", P.SplitTensor(), x, 1)
    case("SplitTensorView", P.SplitTensorView(), x, 2, 1)
    case("SplitV", O.SplitV([1, -1], 1, 2), x)
    case("SplitV", O.SplitV([1, 2], 1, 2), x)
    case("SplitWithSize", P.SplitWithSize(), x, (1, 3), 2)
    case("SplitWithSize", P.SplitWithSize(), x, (1, 1), 0)
    case("SplitWithSizeView", P.SplitWithSizeView(), x, (2, 1), -2)
    case("Slice", P.Slice(), x, (0, 1, 1), (2, 2, 3))
    case("Slice", P.Slice(), x, (0, 1, 1), (-1, 1, -1))
    for start, end, step in ((1, 3, 1), (-3, -1, 1), (0, 100, 2), (1, -1, 2), (3, 1, 1)):
        case("SliceExt", P.SliceExt(), x, 2, start, end, step)
        case("SliceExtView", P.SliceExtView(), x, -1, start, end, step)
    case("Narrow", P.Narrow(), x, 1, 1, 2)
    case("Narrow", P.Narrow(), x, -1, -2, 2)
    case("NarrowView", P.NarrowView(), x, 2, 0, 3)
    case("SelectExtView", P.SelectExtView(), x, 1, 2)
    case("SelectExtView", P.SelectExtView(), x, -1, -1)
    for masks in ((0, 0, 0, 0, 0), (1, 2, 0, 0, 0), (0, 0, 0, 0, 1), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0), (0, 0, 2, 1, 4)):
        case("StridedSlice", P.StridedSlice(*masks), x, (1, 0, 1), (2, 2, 4), (1, 1, 2))
    case("StridedSlice", P.StridedSlice(), x, (-1, 2, 3), (-3, 0, -6), (-1, -1, -2))
    case("StridedSlice", P.StridedSlice(), x, (0, 1), (2, 3), (1, 1))
    case("Gather", P.Gather(), m, np.array([[0, 3], [2, 1]], S32), 0)
    case("Gather", P.Gather(), m, np.array([0, 4, -1, -5], S64), 1)
    case("Gather_outside", P.Gather(), m, np.array([0, 9, -9, 4], S32), 0)
    case("Gather_batch", P.Gather(1), x, np.array([[0, 2], [1, 1]], S32), 1)
    case("Gather_batch", P.Gather(1), x, np.array([[0, 2, 3], [1, -1, 0]], S32), 2)
    case("Gather_batch", P.Gather(2), x, array(2, 3, 2, element=S32, low=0, high=3), 2)
    case("Embedding", P.Embedding(), np.array([[0, 3], [2, 1]], S32), m)
    case("IndexSelect", P.IndexSelect(), m, 1, np.array([0, 2, 2], S32))
    case("IndexSelect", P.IndexSelect(), m, 0, np.array([3, 0], S64))
    case("GatherNd", P.GatherNd(), x, np.array([[0, 1], [1, 2]], S32))
    case("GatherNd", P.GatherNd(), x, np.array([[[0], [1]]], S32))
    case("OneHot", P.OneHot(), np.array([[0, 2], [5, -1]], S32), 3, np.array(2.0, F32), np.array(-1.0, F32))
    case("OneHot", P.OneHot(0), np.array([0, 2], S32), 3, np.array(2.0, F32), np.array(-1.0, F32))
    case("OneHotExt", P.OneHotExt(), np.array([0, 2], S64), 3, np.array(1, S64), np.array(0, S64))
    for element in ("float32", "int32", "bool_", "float16"):
        case("Zeros", P.Zeros(), (2, 3), getattr(mindspore, element))
        case("Ones", P.Ones(), (2, 3), getattr(mindspore, element))
        case("FillScalar", P.FillScalar(), (2, 3), 1, getattr(mindspore, element))
    case("FillScalar", P.FillScalar(), (2, 3), 2.5, None)
    case("FillScalar", P.FillScalar(), (2,), 3, None)
    case("FillTensor", P.FillTensor(), (2, 3), np.array(2.5, F32), None)
    case("FillTensor", P.FillTensor(), (2, 3), np.array(2.5, F32), mindspore.int32)
    case("Fill", O.Fill(), mindspore.float32, (2, 3), 7)
    case("FillV2", O.FillV2(), (2, 3), np.array(7, S32))
    case("FullLike", P.FullLike(), x, 7.5)
    case("FullLike", P.FullLike(), x, 7.5, mindspore.int32)
    case("ZerosLikeExt", P.ZerosLikeExt(), x, mindspore.int32)
    case("OnesLikeExt", P.OnesLikeExt(), x, mindspore.int32)
    case("Arange", P.Arange(), 0, 10, 3)
    case("Arange", P.Arange(), 0.5, 2.0, 0.25)
    case("Arange", P.Arange(), 5, -1, -2)
    case("Arange", P.Arange(), 0, 5, 1, mindspore.float32)
    case("Range", P.Range(), np.array(1, S32), np.array(9, S32), np.array(3, S32))
    case("Range", P.Range(), 1, 9, 3)
    for diagonal in (0, 1, -1):
        case("Tril", O.Tril(diagonal), m)
        case("Triu", P.Triu(diagonal), m)
        case("TrilExt", P.TrilExt(), x, diagonal)
    case("Pad", O.Pad(((0, 1), (2, 0))), m)
    case("PadV3", O.PadV3(), m, (1, 2, 0, 1), np.array(3.0, F32))
    case("PadV3_apart", O.PadV3(paddings_contiguous=False), m, (1, 2, 0, 1), np.array(3.0, F32))
    case("PadV3_negative", O.PadV3(), m, (-1, 2), np.array(3.0, F32))
    case("ConstantPadND", P.ConstantPadND(), m, (1, 2))
    case("ConstantPadND", P.ConstantPadND(), m, (1, 0, 2, 1), 3.5)
    case("ConstantPadND", P.ConstantPadND(), m, (-1, 2, 0, -1), 3)
    case("ReverseV2", P.ReverseV2([0, -1]), x)
    case("Shape", O.Shape(), x)
    case("TensorShape", P.TensorShape(), x)
    case("TensorToScalar", P.TensorToScalar(), np.array(3, S64))


def layers() -> None:
    """Products, convolutions, pooling, normalisation."""
    a, b = array(3, 4), array(4, 5)
    for left, right in ((False, False), (True, False), (False, True)):
        case("MatMul", P.MatMul(left, right), a.T.copy() if left else a, b.T.copy() if right else b)
        case(
            "BatchMatMul",
            P.BatchMatMul(left, right),
            *(array(2, *dims) for dims in (((4, 3) if left else (3, 4)), ((5, 4) if right else (4, 5)))),
        )
    case("MatMul_f16", P.MatMul(), a.astype(F16), b.astype(F16))
    case("MatMul_int", P.MatMul(), array(3, 4, element=S32, high=9), array(4, 5, element=S32, high=9))
    case("BatchMatMul_broadcast", P.BatchMatMul(), array(2, 1, 3, 4), array(2, 3, 4, 5))
    case("MatMulExt", P.MatMulExt(), a, b)
    case("MatMulExt", P.MatMulExt(), array(2, 3, 4), array(4))
    case("MatMulExt", P.MatMulExt(), array(4), array(2, 4, 5))
    case("BatchMatMulExt", P.BatchMatMulExt(), array(2, 3, 4), array(2, 4, 5))
    case("Mm", P.Mm(), a, b)
    case("Mv", P.Mv(), a, array(4))
    case("Dot", P.Dot(), array(4), array(4))
    case("Dense", P.Dense(), a, array(5, 4), array(5))
    case("Dense", P.Dense(), array(2, 3, 4), array(5, 4), None)
    case("Dense", P.Dense(), array(4), array(5, 4), array(5))
    case("Dense", P.Dense(), array(4), array(4), array())
    case("Addmm", P.Addmm(), array(3, 5), a, b, 2, 0.5)
    case("Addmm", P.Addmm(), array(5), a, b)
    case("Baddbmm", P.Baddbmm(), array(2, 3, 5), array(2, 3, 4), array(2, 4, 5), 2, 0.5)
    image = array(2, 4, 7, 6)
    for mode, pad in (("valid", 0), ("same", 0), ("pad", (1, 0, 2, 1))):
        case("Conv2D", O.Conv2D(6, (3, 2), 1, mode, pad, 2, 1, 2), image, array(6, 2, 3, 2))
        case("Conv2D", O.Conv2D(6, (3, 2), 1, mode, pad, (1, 2), (2, 1)), image, array(6, 4, 3, 2))
    for mode in ("valid", "same"):
        case("MaxPool", O.MaxPool((3, 2), 2, mode), image)
        case("AvgPool", P.AvgPool((3, 2), 2, mode), image)
        case("MaxPool_low", O.MaxPool(3, 2, mode), image - 9)
    case("AdaptiveAvgPool2D", O.AdaptiveAvgPool2D((3, 2)), array(2, 3, 6, 6))
    case("AdaptiveAvgPool2D_uneven", O.AdaptiveAvgPool2D((3, 2)), array(2, 3, 7, 5))
    case("AdaptiveAvgPool2DExt", P.AdaptiveAvgPool2DExt(), array(2, 3, 6, 6), (3, 2))
    x, gamma, beta = array(2, 3, 4), array(4), array(4)
    case("Softmax", P.Softmax(1), x)
    case("Softmax", P.Softmax(), array(3, low=90, high=100) * 10)
    case("LogSoftmax", P.LogSoftmax(1), x)
    case("LogSoftmaxExt", P.LogSoftmaxExt(), x, 1)
    case("LogSoftmaxExt", P.LogSoftmaxExt(), x, -1, mindspore.float64)
    case("LayerNorm", P.LayerNorm(2, 2, 1e-3), x, gamma, beta)
    case("LayerNorm", P.LayerNorm(1, 1, 1e-3), x, array(3, 4), array(3, 4))
    case("LayerNorm", P.LayerNorm(1, 2, 1e-3), x, gamma, beta)
    case("LayerNorm_f16", P.LayerNorm(2, 2, 1e-3), x.astype(F16), gamma.astype(F16), beta.astype(F16))
    case("LayerNormV3", P.LayerNormV3(2, 2, 1e-3), x, gamma, beta)
    case("LayerNormExt", P.LayerNormExt(), x, (4,), gamma, beta)
    case("LayerNormExt", P.LayerNormExt(), x, (3, 4), None, None, 1e-3)
    case("RmsNorm", P.RmsNorm(1e-3), x, gamma)
    case("RmsNorm", P.RmsNorm(1e-3), x.astype(F16), gamma.astype(F16))
    scale, bias, mean, variance = array(3), array(3), array(3), array(3, low=0.5, high=2)
    image = array(4, 3, 2, 2)
    for dims in ((4, 3, 2, 2), (5, 3)):
        case("BatchNorm", O.BatchNorm(False, 1e-3), array(*dims), scale, bias, mean, variance)
        for momentum in (0.1, 0.3, 1.0):
            case("BatchNorm_training", O.BatchNorm(True, 1e-3, momentum), array(*dims), scale, bias, mean, variance)
        for is_training in (False, True):
            case(
                f"BatchNormGrad_{is_training}",
                P.BatchNormGrad(is_training, 1e-3),
                array(*dims),
                array(*dims),
                scale,
                mean,
                variance,
                array(3),
            )
    case("DropoutGrad", G.DropoutGrad(0.8), image, (array(4, 3, 2, 2) > 0).astype(F32))
    case("Dropout", P.Dropout(1.0), image)


def gradients() -> None:
    """Losses, and derivatives of layers."""
    x, mask = array(4, 3), array(4, 3, element=BOOL).astype(F32)
    case("GeLUGrad", P.GeLUGrad(), x, x * 3, x)
    case("SoftmaxCrossEntropyWithLogits", O.SoftmaxCrossEntropyWithLogits(), x * 3, np.eye(3, dtype=F32)[[0, 2, 1, 1]])
    for is_grad in (False, True):
        made = O.SparseSoftmaxCrossEntropyWithLogits(is_grad)
        case("SparseSoftmaxCrossEntropyWithLogits", made, x * 3, np.array([0, 2, 1, 1], S32))
    for reduction in ("none", "mean", "sum"):
        made = O.BCEWithLogitsLoss(reduction)
        case("BCEWithLogitsLoss", made, x * 3, mask, array(4, 3, low=0), array(3, low=0, high=2))
    for axis, wide in ((1, x), (2, array(4, 2, 3))):
        statistics = wide.var(axis, keepdims=True), wide.mean(axis, keepdims=True)
        case("LayerNormGrad", P.LayerNormGrad(axis, axis), wide, array(*wide.shape), *statistics, array(3))
    numbers = np.array([[0, -1, 2, 0], [1, 1, -3, 2]], S32)
    case("GatherD", P.GatherD(), x, 0, numbers[:, :3])
    case("GatherD", P.GatherD(), x, 1, np.array([[0], [2], [1], [-1]], S64))
    case("GatherDGradV2", P.GatherDGradV2(), x, 1, np.array([[0, 0], [2, 1], [1, 1], [0, 2]], S32), array(4, 2))
    case("UnsortedSegmentSum", P.UnsortedSegmentSum(), x, np.array([2, 0, 2, -1], S32), 4)
    case("UnsortedSegmentSum", P.UnsortedSegmentSum(), x, array(4, 3, element=S32, low=0, high=1), 2)
    image = array(2, 4, 7, 6)
    for mode, size in (("valid", (3, 3)), ("same", (4, 3))):
        pooled = array(2, 4, *size)
        case("AvgPoolGrad", P.AvgPoolGrad((3, 2), 2, mode), image, pooled, pooled * 2)
        largest = pooled_maxima(image, mode, size)
        case("MaxPoolGrad", G.MaxPoolGrad((3, 2), 2, mode), image, largest, pooled * 2)
    for mode, pads, stride, dilation, group, size in (
        ("valid", 0, 1, 1, 1, (5, 5)),
        ("valid", 0, 2, 1, 2, (3, 3)),
        ("same", 0, 2, 1, 1, (4, 3)),
        ("pad", (1, 0, 2, 1), 2, 1, 1, (3, 4)),
        ("valid", 0, 1, 2, 1, (3, 4)),
    ):
        gradient, kernel = array(2, 6, *size), array(6, 4 // group, 3, 2)
        given = {"pad_mode": mode, "pad": pads, "stride": stride, "dilation": dilation, "group": group}
        case("Conv2DBackpropInput", O.Conv2DBackpropInput(6, (3, 2), **given), gradient, kernel, image.shape)
        given |= {"stride": (stride, stride), "dilation": (1, 1, dilation, dilation)}
        case("Conv2DBackpropFilter", G.Conv2DBackpropFilter(6, (3, 2), **given), gradient, image, kernel.shape)


def pooled_maxima(image: np.ndarray, mode: str, size: tuple[int, int]) -> np.ndarray:
    """What MaxPool of windows (3, 2) and stride 2 gives."""
    rows = 1 if mode == "same" else 0
    padded = np.pad(image, ((0, 0), (0, 0), (rows, rows), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))[:, :, ::2, ::2]
    return windows.max((-2, -1))[:, :, : size[0], : size[1]].copy()


@mindspore.jit
def scalars(a, b):
    """What Python's operators on numbers are, where the numbers are not known."""
    return a + b, a - b, a * b, a / b, a // b, a % b, a == b, a < b, a > b, a <= b, a >= b, a != b, -a, not a


def numbers() -> list[str]:
    """The cases of numbers that are not tensors."""
    texts: list[str] = []
    for name, a, b in (("scalars_int", 7, -3), ("scalars_float", -7.5, 2.0), ("scalars_mixed", 7, 2.5)):
        before = set(Path(DUMPS).rglob("*validate*.ir"))
        results = scalars(mutable(a), mutable(b))
        types = {int: np.int64, float: np.float32, bool: np.bool_}
        given, made = ([np.array(v, types[type(v)]) for v in values] for values in ((a, b), results))
        texts.append(case_text(name, given, made, dumped(before)))
    return texts


def dumped(before: set[Path]) -> str:
    """The graph that MindSpore wrote since: parameters and graphs alone."""
    path = max((path for path in Path(DUMPS).rglob("*validate*.ir") if path not in before), key=lambda path: path.name)
    text = path.read_text()
    path.unlink()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("# In file")]
    graphs = next(index for index, line in enumerate(lines) if line.startswith("subgraph @"))
    start = next((index for index, line in enumerate(lines) if line.startswith("# Params")), graphs)
    end = next((index for index in range(start, graphs) if not lines[index]), graphs)
    kept = [line for line in lines[graphs:] if "# Fullname" not in line and not re.match(r"\w[\w ]*: ", line)]
    kept = [re.sub(r" cnode_attrs: \{checkpoint: Bool\(1\)\}", "", line) for line in kept]
    return "\n".join([lines[0], *lines[start:end], "", *kept]) + "\n"


def results_of(primitive, arguments: list) -> tuple[str, list[np.ndarray], str]:
    """A case's graph, its results, and behind them the arguments that it has changed; why there are none."""
    template = tuple(
        ("tensor", 0) if isinstance(a, np.ndarray) else ("tuple", len(a)) if isinstance(a, list) else ("value", a)
        for a in arguments
    )
    given = [Tensor(a) for argument in arguments if isinstance(argument, (np.ndarray, list))
             for a in (argument if isinstance(argument, list) else [argument])]  # fmt: skip
    before = set(Path(DUMPS).rglob("*validate*.ir"))
    reason = ""
    changed: list[np.ndarray] = []
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        old = [tensor.asnumpy().copy() for tensor in given]
        arrays = arrays_of(Case(primitive, template)(*given))
        pairs_behind = zip(old, [tensor.asnumpy().copy() for tensor in given], strict=True)
        changed = [new for before_it, new in pairs_behind if before_it.tobytes() != new.tobytes()]
    except Exception as problem:
        reason, arrays = str(problem), []
    try:
        text = dumped(before)
    except ValueError:
        return "", [], reason
    if arrays:  # some kernels change what their graph does not say that they do
        return text, arrays + changed * ("is_inplace" in text), ""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    try:
        tensors = iter(given)
        eager = [
            next(tensors)
            if isinstance(a, np.ndarray)
            else tuple(next(tensors) for _ in a)
            if isinstance(a, list)
            else a
            for a in arguments
        ]
        return text, arrays_of(primitive(*eager)), ""
    except Exception as problem:
        return text, [], f"{reason} | {problem}"


def arrays_of(results) -> list[np.ndarray]:
    if isinstance(results, (tuple, list)):
        return [array for result in results for array in arrays_of(result)]
    return [results.asnumpy().copy() if isinstance(results, Tensor) else np.array(results)]


def packed(role: str, array: np.ndarray) -> str:
    """An array as a line of text."""
    dims = ",".join(map(str, array.shape))
    return f"# {role} {array.dtype} [{dims}] {base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}"


def main(folder: Path, wanted: list[str]) -> None:
    families: dict[str, str] = {}
    for family in (elementwise, reductions, moves, layers, gradients):
        family()
        for name in CASES:
            families.setdefault(name, family.__name__)
    texts: dict[str, list[str]] = {}
    refused: list[str] = []
    for name, (primitive, arguments) in CASES.items():
        if wanted and not any(re.fullmatch(pattern, name) for pattern in wanted):
            continue
        text, results, reason = results_of(primitive, arguments)
        words = " ".join(line for line in reason.splitlines() if line.strip(" -"))
        if not text or (not results and "Unsupported op [" not in words):
            refused.append(f"{name}: {words[:160]}")
            continue
        given = [a for argument in arguments if isinstance(argument, (np.ndarray, list))
                 for a in (argument if isinstance(argument, list) else [argument])]  # fmt: skip
        texts.setdefault(families[name], []).append(case_text(name, given, results, text))
    if not wanted:
        mindspore.set_context(mode=mindspore.GRAPH_MODE)
        texts["numbers"] = numbers()
    (folder / "primitives").mkdir(exist_ok=True)
    for name, parts in texts.items():
        (folder / "primitives" / f"{name}.txt").write_text("".join(parts))
    print("\n".join(refused))
    print(sum(map(len, texts.values())), "cases,", len(refused), "refused by MindSpore")


def case_text(name: str, arguments: list[np.ndarray], results: list[np.ndarray], text: str) -> str:
    arrays = [packed("argument", array) for array in arguments] + [packed("result", array) for array in results]
    return "\n".join([f"## {name}", *arrays, text.strip("\n"), "\n"])


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    finally:
        shutil.rmtree(DUMPS)
