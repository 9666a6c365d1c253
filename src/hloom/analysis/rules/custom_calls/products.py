"""Matrix products of cuBLAS (also on ROCm, under the same targets), oneDNN and Transformer Engine."""

from __future__ import annotations

import math

from hloom.analysis.rules.contraction import COMPLEX_FMA, FMA
from hloom.analysis.rules.custom_calls.backend_config import CallConfig, Uncountable
from hloom.analysis.rules.custom_calls.kinds import CallWork, array, first_result, kind
from hloom.analysis.rules.table import Instruction
from hloom.analysis.sizes import elements
from hloom.ir import TensorType

GELU_FLOPS = 8
"""Operations per element of a GELU beside its hyperbolic tangent: x / 2 (1 + tanh(c (x + d x^3)))."""
EPILOGUES: dict[str, tuple[int, int]] = {
    "BIAS": (1, 0),
    "RELU": (1, 0),
    "GELU": (GELU_FLOPS, 1),
    "SILU": (1, 1),
    "SWISH": (1, 1),
    "GELU_TANH": (GELU_FLOPS, 1),
    "TANH": (0, 1),
    "SIGMOID": (0, 1),
    "ELU": (3, 1),
    "SUM": (1, 0),
    "BINARY_ADD": (1, 0),
    "BINARY_MUL": (1, 0),
    "LINEAR": (2, 0),
}
"""FLOPs and transcendental functions per element of what libraries apply to a product, by words of their settings."""
PRECISE = ("HIGH", "HIGHEST", "ALG_DOT_F32_F32_F32")
"""Settings under which f32 is multiplied with all its bits."""


def fma(value_type: TensorType) -> int:
    """FLOPs of a multiply and the addition of its product."""
    return COMPLEX_FMA if value_type.dtype.is_complex else FMA


def applied(names: list[str], count: int) -> tuple[int, int]:
    """FLOPs and transcendental functions of operations applied to that many elements."""
    known = [EPILOGUES[name] for name in names if name in EPILOGUES]
    return count * sum(flops for flops, _ in known), count * sum(functions for _, functions in known)


def _size(value_type: TensorType, dims: tuple[int, ...]) -> int:
    if any(dim >= value_type.rank for dim in dims) or len(set(dims)) != len(dims):
        raise Uncountable("its configuration names dimensions that its operands lack")
    return math.prod(value_type.dims[dim] for dim in dims)


def _cublas(instruction: Instruction, config: CallConfig) -> CallWork:
    gemm = config.part("gemm_backend_config")
    numbers = gemm.message("dot_dimension_numbers")
    left, right, result = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    width = _size(left, numbers.counts("lhs_contracting_dimensions"))
    batch = _size(left, numbers.counts("lhs_batch_dimensions"))
    right_width = _size(right, numbers.counts("rhs_contracting_dimensions"))
    if right_width != width or _size(right, numbers.counts("rhs_batch_dimensions")) != batch:
        raise Uncountable("its configuration does not fit its operands")
    if elements(left) * elements(right) != elements(result) * width * width * batch:
        raise Uncountable("its result does not fit its operands")
    return _with_epilogue(fma(left) * elements(result) * width, left, right, result, gemm)


def _with_epilogue(product: int, left: TensorType, right: TensorType, result: TensorType, gemm: CallConfig) -> CallWork:
    """A product that is scaled by alpha, added to beta times another matrix, and passed through the epilogue."""
    count = elements(result)
    scaled = gemm.number("alpha_real", 1) != 1 or gemm.number("alpha_imag", 0) != 0
    added = gemm.number("beta", 0)
    flops, functions = applied(gemm.text("epilogue").upper().split("_"), count)
    flops += count * (scaled + (added != 0) + (added not in (0, 1)))
    precision = gemm.part("precision_config")
    words = (*texts(precision.values.get("operand_precision")), precision.text("algorithm"))
    is_fast = not any(word in PRECISE for word in words)
    return CallWork(product + flops, functions, matrix_types=(left, right), is_fast=is_fast)


def texts(values: object) -> list[str]:
    """The texts in a list of a configuration."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _grouped(instruction: Instruction, config: CallConfig) -> CallWork:
    """All rows count, as if the groups filled the ragged dimension."""
    grouped = config.message("grouped_gemm_backend_config")
    ragged = grouped.message("ragged_dot_dimension_numbers")
    numbers = ragged.message("dot_dimension_numbers")
    left, right, result = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    lists = ("rhs_contracting_dimensions", "rhs_batch_dimensions")
    taken = {dim for name in lists for dim in numbers.counts(name)} | set(ragged.counts("rhs_group_dimensions"))
    columns = elements(right) // max(1, _size(right, tuple(taken)))
    return _with_epilogue(
        fma(left) * elements(left) * columns, left, right, result, grouped.part("gemm_backend_config")
    )


def _transformer_engine(instruction: Instruction, config: CallConfig) -> CallWork:
    """Operands are the left matrix, its scales, the right matrix, its scales, the bias and more."""
    return _by_sizes(array(instruction.operand(0)), array(instruction.operand(2)), first_result(instruction))


def _by_sizes(left: TensorType, right: TensorType, result: TensorType) -> CallWork:
    """A product of two matrices whose layouts are not said: m k times k n has k = sqrt(mk * kn / mn)."""
    squared, rest = divmod(elements(left) * elements(right), elements(result) or 1)
    width = math.isqrt(squared)
    if rest or width * width != squared:
        raise Uncountable("its result does not fit its operands")
    return CallWork(fma(left) * elements(result) * width, matrix_types=(left, right))


def _onednn(instruction: Instruction, config: CallConfig) -> CallWork:
    """The rows of the left matrix and of the result are the same, so their sizes give the contracted one."""
    left, right, result = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    columns = result.dims[-1] if result.rank else 1
    width, rest = divmod(elements(left) * columns, elements(result) or 1)
    is_packed = right.rank < 2
    if rest or (not is_packed and (width * columns == 0 or elements(right) % (width * columns))):
        raise Uncountable("its result does not fit its operands")
    settings = config.part("onednn_matmul_config")
    fusions = settings.part("fusions")
    flops, functions = applied(texts(fusions.values.get("ops") or settings.values.get("fused_ops")), elements(result))
    return CallWork(fma(left) * elements(result) * width + flops, functions, matrix_types=(left, right))


def _block_scaled(instruction: Instruction, config: CallConfig) -> CallWork:
    """Operands are [batch, m, k] and [batch, n, k], and their scales, which are multiplied in."""
    left, right, result = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    if left.rank != right.rank or left.rank not in (2, 3) or left.dims[-1] != right.dims[-1]:
        raise Uncountable("its operands do not fit each other")
    width, batch = left.dims[-1], left.dims[0] if left.rank == 3 else 1
    if elements(left) * elements(right) != elements(result) * width * width * batch:
        raise Uncountable("its result does not fit its operands")
    flops = fma(left) * elements(result) * width + elements(left) + elements(right)
    return CallWork(flops, matrix_types=(left, right))


_PRODUCT = "2 m n k FLOPs (8 for complex numbers), with the dimensions of its configuration; and its epilogue"
kind(
    (r"__cublas\$gemm", r"__cublas\$lt\$matmul(\$f8|\$mx)?"),
    "cuBLAS matrix product",
    _cublas,
    because=_PRODUCT,
    has_scratch=True,
)
kind(
    r"__cublas\$lt\$grouped[Mm]atmul",
    "cuBLAS grouped matrix product",
    _grouped,
    because="2 m n k FLOPs, as if the groups filled the ragged dimension",
    has_scratch=True,
)
kind(
    (r"__op\$block_scaled_dot", r"__cudnn\$blockScaledDot"),
    "cuDNN block-scaled matrix product",
    _block_scaled,
    because="2 m n k FLOPs, and a product with its scale for each element of the operands",
    has_scratch=True,
)
kind(
    r"te_gemm(_v2)?(_ffi)?",
    "Transformer Engine matrix product",
    _transformer_engine,
    because="2 m n k FLOPs, from the sizes of both operands and the result",
    has_scratch=True,
)
kind(
    r"te_grouped_gemm\w*",
    "Transformer Engine grouped matrix product",
    None,
    because="the sizes of its groups are known when it runs",
)
kind(
    r"__onednn\$matmul(_reorder)?",
    "oneDNN matrix product",
    _onednn,
    because="2 m n k FLOPs, from the sizes of the left operand and the result; and fused operations",
)
