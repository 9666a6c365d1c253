"""Normalisations, softmaxes, activations and casts of cuDNN, oneDNN and Transformer Engine."""

from __future__ import annotations

from hloom.analysis.rules.custom_calls.backend_config import CallConfig
from hloom.analysis.rules.custom_calls.kinds import CallCount, CallWork, array, kind
from hloom.analysis.rules.table import Instruction
from hloom.analysis.sizes import elements

NORM_FLOPS = 7
"""FLOPs per element of a layer norm: mean 1, subtraction 1, variance 2, scaling 1, weight 1, bias 1."""
NORM_GRADIENT_FLOPS = 14
"""FLOPs per element of its gradient: the normalised input 2, the gradients of weight 2 and bias 1, the weighted
gradient 1, its mean 1, its mean with the normalised input 2, and the gradient of the input 5."""
SOFTMAX_FLOPS = 4
"""FLOPs per element of a softmax beside its exponential: maximum, subtraction, sum, division."""
SOFTMAX_GRADIENT_FLOPS = 4
"""FLOPs per element of its gradient: two for the sum of products, subtraction, product."""
ACTIVATION_FLOPS = 3
"""FLOPs per element of an activation beside its transcendental function, and of its gradient beside the same."""


def per_element(flops: int, functions: int = 0, operand: int = 0) -> CallCount:
    """Counts that many FLOPs and transcendental functions for each element of an operand."""

    def count(instruction: Instruction, config: CallConfig) -> CallWork:
        size = elements(array(instruction.operand(operand)))
        return CallWork(flops * size, functions * size)

    return count


def _norm(instruction: Instruction, config: CallConfig) -> CallWork:
    """A call without the gradient's kind is forward, and has a reciprocal square root for each row."""
    settings = config.part("cudnn_norm_backend_config")
    size, row = elements(array(instruction.operand(0))), elements(array(instruction.operand(1)))
    if "BWD" in settings.text("kind"):
        return CallWork(NORM_GRADIENT_FLOPS * size)
    return CallWork(NORM_FLOPS * size, size // row if row else 0)


def _row(targets: str | tuple[str, ...], name: str, count: CallCount, because: str, *, has_scratch: bool) -> None:
    kind(targets, name, count, because=because, has_scratch=has_scratch)


_NORM = f"{NORM_FLOPS} FLOPs per element"
_NORM_GRADIENT = f"{NORM_GRADIENT_FLOPS} FLOPs per element"
_row(r"__cudnn\$norm", "cuDNN layer norm", _norm, f"{_NORM}, gradients {NORM_GRADIENT_FLOPS}", has_scratch=True)
_row(r"__onednn\$layernorm", "oneDNN layer norm", per_element(NORM_FLOPS), _NORM, has_scratch=False)
_row(
    r"__onednn\$softmax",
    "oneDNN softmax",
    per_element(SOFTMAX_FLOPS, 1),
    f"{SOFTMAX_FLOPS} FLOPs and an exponential per element",
    has_scratch=False,
)
_row(
    r"te_(norm|layernorm|rmsnorm)_forward\w*",
    "Transformer Engine norm",
    per_element(NORM_FLOPS),
    _NORM,
    has_scratch=True,
)
_row(
    r"te_(norm|layernorm|rmsnorm)_backward\w*",
    "Transformer Engine norm, gradient",
    per_element(NORM_GRADIENT_FLOPS),
    _NORM_GRADIENT,
    has_scratch=True,
)
_row(
    r"te_scaled(_\w+)?_softmax_forward(_ffi)?",
    "Transformer Engine softmax",
    per_element(SOFTMAX_FLOPS + 1, 1),
    f"{SOFTMAX_FLOPS + 1} FLOPs and an exponential per element",
    has_scratch=False,
)
_row(
    r"te_scaled(_\w+)?_softmax_backward(_ffi)?",
    "Transformer Engine softmax, gradient",
    per_element(SOFTMAX_GRADIENT_FLOPS + 1),
    f"{SOFTMAX_GRADIENT_FLOPS + 1} FLOPs per element",
    has_scratch=False,
)
_row(
    r"te_d?act_\w+",
    "Transformer Engine activation",
    per_element(ACTIVATION_FLOPS, 1),
    f"{ACTIVATION_FLOPS} FLOPs and a transcendental function per element of its first operand",
    has_scratch=True,
)
_row(
    (r"te_(dbias_|grouped_)?(cast|quantize|dequantize)\w*", r"te_transpose\w*"),
    "Transformer Engine cast",
    per_element(2),
    "2 FLOPs per element: the scale, and the largest absolute value",
    has_scratch=True,
)
