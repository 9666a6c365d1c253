"""Convolutions of cuDNN (MIOpen on ROCm, under the same targets) and oneDNN.

The window and the dimension labels of the instruction are those of the forward convolution, whichever of input, filter
and output the call computes; it adds up the same products (xla/service/gpu/transforms/conv_rewriter.cc).
"""

from __future__ import annotations

import math
from dataclasses import replace

from hloom.analysis.rules.contraction import convolution_products
from hloom.analysis.rules.custom_calls.backend_config import CallConfig, Uncountable
from hloom.analysis.rules.custom_calls.kinds import CallCount, CallWork, array, first_result, kind
from hloom.analysis.rules.custom_calls.products import applied, fma, texts
from hloom.analysis.rules.table import Instruction
from hloom.analysis.sizes import elements
from hloom.ir import TensorType, Window

ACTIVATIONS = {"kRelu": "RELU", "kRelu6": "RELU", "kElu": "ELU", "kSigmoid": "SIGMOID", "kTanh": "TANH"}
"""The activations of cuDNN by the names in the configuration."""


def _forward_products(instruction: Instruction, given: TensorType, kernel: TensorType, made: TensorType) -> int:
    labels, window = instruction.attribute("dim_labels"), instruction.attribute("window") or Window()
    if labels is None:
        raise Uncountable("it has no dim_labels")
    sizes = [kernel.dims[dim] for dim in labels.spatial(labels.rhs)]
    if [dimension.size for dimension in window.dimensions] != sizes:
        raise Uncountable("its window does not fit its filter")
    if (given.rank, kernel.rank, made.rank) != (len(labels.lhs), len(labels.rhs), len(labels.output)):
        raise Uncountable("its dim_labels do not fit its operands")
    forward = replace(instruction, operands=(given, kernel), result=made)
    return convolution_products(forward) * _vectors(given, labels.lhs) * _vectors(made, labels.output)


def _vectors(value_type: TensorType, labels: str) -> int:
    """The features in each element of an array that keeps them in vectors (NCHW_VECT_C): dimensions with no label."""
    return math.prod(size for size, label in zip(value_type.dims, labels, strict=True) if label == "?")


def _forward(instruction: Instruction, config: CallConfig) -> CallWork:
    given, kernel, made = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    flops = fma(given) * _forward_products(instruction, given, kernel, made)
    return CallWork(flops, matrix_types=(given, kernel))


def _backward_input(instruction: Instruction, config: CallConfig) -> CallWork:
    gradient, kernel, made = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    flops = fma(gradient) * _forward_products(instruction, made, kernel, gradient)
    return CallWork(flops, matrix_types=(gradient, kernel))


def _backward_filter(instruction: Instruction, config: CallConfig) -> CallWork:
    given, gradient, made = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    flops = fma(given) * _forward_products(instruction, given, made, gradient)
    return CallWork(flops, matrix_types=(given, gradient))


def _bias_activation(instruction: Instruction, config: CallConfig) -> CallWork:
    """The operands are input, filter, bias, and a side input that is scaled and added."""
    settings = config.part("cudnn_conv_backend_config")
    work = _forward(instruction, config)
    count = elements(first_result(instruction))
    flops, functions = applied(["BIAS", ACTIVATIONS.get(settings.text("activation_mode"), "")], count)
    if settings.number("side_input_scale", 0) != 0 and len(instruction.operands) > 3:
        flops += 2 * count
    return replace(work, flops=work.flops + flops, transcendentals=functions)


def _onednn(instruction: Instruction, config: CallConfig) -> CallWork:
    """The configuration holds the dimensions; its window is written in two ways, so products on padding count too.

    Source: xla/service/cpu/onednn_contraction_rewriter.cc, HandleConvolution.
    """
    settings = config.message("onednn_conv_config")
    made_labels, kernel_labels = settings.part("output").part("data"), settings.part("kernel").part("filter")
    given_labels = settings.part("input").part("data")
    given, kernel, made = array(instruction.operand(0)), array(instruction.operand(1)), first_result(instruction)
    if not given.rank == kernel.rank == made.rank:
        raise Uncountable("its filter is packed")
    features = kernel.dims[kernel_labels.count("output_feature_dim", 0)]
    grouped = kernel.dims[kernel_labels.count("input_feature_dim", 0)] * settings.count("feature_groups", 1)
    read = given.dims[given_labels.count("feature_dim", 0)]
    if made.dims[made_labels.count("feature_dim", 0)] != features or read != grouped or not features:
        raise Uncountable("its configuration does not fit its operands")
    count = elements(made)
    flops, functions = applied(texts(settings.part("fusions").values.get("ops")), count)
    product = fma(given) * count * (elements(kernel) // features)
    return CallWork(product + flops, functions, matrix_types=(given, kernel))


def _row(target: str, what: str, count: CallCount, because: str) -> None:
    kind(rf"__cudnn\$conv{target}", f"cuDNN convolution{what}", count, because=because, has_scratch=True)


_SAME = "as a convolution: 2 FLOPs for each product that meets no padding"
_row("Forward(Graph)?", "", _forward, _SAME)
_row("BackwardInput", ", gradient of its input", _backward_input, _SAME)
_row("BackwardFilter", ", gradient of its filter", _backward_filter, _SAME)
_row("BiasActivationForward", " with bias", _bias_activation, f"{_SAME}; and bias, side input and activation")
kind(
    r"__onednn\$convolution",
    "oneDNN convolution",
    _onednn,
    because="2 FLOPs for each product, those with padding too; and fused operations",
)
