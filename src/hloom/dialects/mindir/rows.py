"""The op rows: MindSpore's primitives that we know, and rows for those that we do not."""

from __future__ import annotations

from functools import lru_cache

from hloom.ir import COMMON, AttributeKind, Effect, Op, optional, required

PREFIX = "mindir."
PRIMITIVE_FUNCTION = "PrimFunc_"
"""What stands before the name of a primitive whose arguments are all operands."""
PRIMITIVE_ATTRIBUTES = "primitive_attrs"
"""The attribute that holds a primitive's attributes: pairs of names and values, as written."""
VALUE = "value"

ARITIES: dict[str, tuple[int, int | None]] = {
    "Return": (1, 1),
    "MakeTuple": (0, None),
    "make_tuple": (0, None),
    "TupleGetItem": (2, 2),
    "Depend": (2, None),
    "Load": (2, 2),
    "UpdateState": (1, None),
    "Switch": (3, 3),
    "switch_layer": (2, 2),
    "SwitchLayer": (2, 2),
    "Partial": (1, None),
}
"""How many operands the primitives of structure and control flow take."""

PRIMITIVES = """
    Abs Adam AdamWeightDecay AdaptiveAvgPool2D AdaptiveAvgPool2DExt Add AddExt Addmm AddN ApplyMomentum ApplyRMSProp
    Arange Argmax ArgMaxExt Argmin ArgMinExt Assign AssignAdd AssignSub Atan Atan2 AvgPool AvgPoolGrad Baddbmm
    BatchMatMul BatchMatMulExt BatchNorm BatchNormGrad BCEWithLogitsLoss BiasAdd BiasAddGrad
    BinaryCrossEntropyWithLogitsBackward BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BoolNot BroadcastTo
    BroadcastToView Cast Ceil ClampScalar ClampTensor ClipByValue Concat ConstantPadND Conv2D Conv2DBackpropFilter
    Conv2DBackpropInput Conv2DTranspose Copy Cos CumSum CumsumExt Dense Div DivNoNan Divs Dot Dropout DropoutGrad Elu
    EluExt Embedding EqScalar Equal Erf Exp ExpandDims ExpandDimsView Expm1 Fill FillScalar FillTensor FillV2 Flatten
    FlattenExt Floor FloorDiv FloorDivScalar FloorMod FullLike Gather GatherD GatherDGradV2 GatherNd GeLU GeluExt
    GeLUGrad Greater GreaterEqual GreaterEqualScalar HSigmoid HSwish Identity IndexSelect Inv IsFinite IsNan LayerNorm
    LayerNormExt LayerNormGrad LayerNormV3 LeakyReLUExt Less LessEqual LessScalar list_getitem Log Log1p LogicalAnd
    LogicalNot LogicalOr LogicalXor LogSoftmax LogSoftmaxExt make_list MakeList MaskedFill MaskedFillScalar MatMul
    MatMulExt Max Maximum MaxPool MaxPoolGrad MeanExt Min Minimum Mish Mm Mod Mul Muls Mv Narrow NarrowView Neg
    NeScalar NotEqual OneHot OneHotExt Ones OnesLike OnesLikeExt Pad PadV3 Pow PowScalarTensor PowTensorScalar ProdExt
    Range RealDiv Reciprocal ReduceAll ReduceAny ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReLU ReLU6
    ReluGrad RemainderScalarTensor RemainderTensorScalar RemainderTensorTensor Reshape ReverseV2 Rint RmsNorm Round
    Rsqrt ScalarAdd ScalarBool ScalarCast ScalarDiv ScalarEq ScalarFloorDiv ScalarGe ScalarGt ScalarLe ScalarLt
    ScalarMod ScalarMul ScalarSub ScalarToTensor ScalarUsub Select SelectExtView SelectView SGD Shape Sigmoid
    SigmoidGrad Sign SiLU Sin Slice SliceExt SliceExtView Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusExt
    SparseSoftmaxCrossEntropyWithLogits Split SplitTensor SplitTensorView SplitV SplitWithSize SplitWithSizeView Sqrt
    Square SquaredDifference Squeeze Stack StackExt StopGradient StridedSlice Sub SubExt SumExt Tan Tanh TanhGrad
    TensorMove TensorShape TensorToScalar Tile Transpose TransposeExtView TransposeView Tril TrilExt Triu Trunc
    UnsortedSegmentSum View Zeros ZerosLike ZerosLikeExt
"""
"""The other primitives that have a lowering; most take arguments that may be left out."""


def row(name: str, arity: tuple[int, int | None], effect: Effect | None = None) -> Op:
    """The row of a known primitive."""
    attributes = {PRIMITIVE_ATTRIBUTES: optional(AttributeKind.ANY, ()), **COMMON}
    return Op(PREFIX + name, arity, attributes=attributes, effect=effect)


ROWS: dict[str, Op] = {
    PREFIX + name: row(name, arity)
    for name, arity in {**dict.fromkeys(PRIMITIVES.split(), (0, None)), **ARITIES}.items()
}
"""The rows of known primitives by opcode."""
RETURN = ROWS[PREFIX + "Return"]
VALUE_ROW = Op(PREFIX + VALUE, (0, 0), attributes={VALUE: required(AttributeKind.ANY), **COMMON})
"""A constant that is not a tensor and no graph: its attribute `value` is a number, a text, a tuple, or a word."""


def row_of(name: str) -> Op:
    """The row of a primitive; one that says it is unknown where no table has it."""
    return ROWS.get(PREFIX + name) or _unknown_row(name)


@lru_cache(maxsize=1 << 12)
def _unknown_row(name: str) -> Op:
    attributes = {PRIMITIVE_ATTRIBUTES: optional(AttributeKind.ANY, ()), **COMMON}
    return Op(PREFIX + name, attributes=attributes, is_known=False)
