"""The layouts that cuDNN takes: features first or last, in the filter too.

Which of three kernels a convolution is says which operand or result is the filter: of a forward convolution the second
operand, of the gradient of its input too, where it is reversed, and of the gradient of its filter the result. Follows
`HeuristicLayoutAssignment` (xla/service/gpu/transforms/layout_assignment.cc) and `MatchBackwardFilter` and
`MatchBackwardInput` (xla/backends/gpu/transforms/conv_rewriter.cc).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.analysis import Device
from hloom.ir import Apply, Node, TensorType
from hloom.targets.gpu.float_support import BEFORE_HOPPER

FORWARD = ("bf", "oi", "bf")
"""The labels of the major and the minor dimension of the data, the filter and the result, if features are last."""
BACKWARD_INPUT = ("bf", "io", "bf")
BACKWARD_FILTER = ("fb", "io", "fb")


def convolution_layout(convolution: Apply, device: Device) -> Sequence[str]:
    """The labels of a convolution's operands and result, most major first; a reversed filter is read as it was."""
    labels = convolution.attributes.get("dim_labels")
    if labels is None:
        return "", "", ""
    spatial = "".join(sorted(label for label in labels.output if label.isdigit()))
    pairs = convolution_kind(convolution)
    data, filter = convolution.operands
    if pairs is BACKWARD_INPUT and filter.opcode == "reverse":
        convolution.graph.set_operands(convolution, (data, filter.operands[0]))
    if _has_features_last(convolution, device):
        return [f"{major}{spatial}{minor}" for major, minor in pairs]
    return [f"{major}{minor}{spatial}" for major, minor in pairs]


def convolution_kind(convolution: Apply) -> Sequence[str]:
    """Which of FORWARD, BACKWARD_INPUT and BACKWARD_FILTER a convolution is: in the last, windows exceed the result."""
    labels = convolution.attributes["dim_labels"]
    places = [(labels.rhs.index(label), labels.output.index(label)) for label in labels.output if label.isdigit()]
    window_size = math.prod(convolution.operands[1].dims[place] for place, _ in places)
    if window_size > math.prod(convolution.dims[place] for _, place in places):
        return BACKWARD_FILTER
    return BACKWARD_INPUT if _is_backward_input(convolution) else FORWARD


def _is_backward_input(convolution: Apply) -> bool:
    window = convolution.attributes.get("window")
    is_dilated = window is not None and any(dim.base_dilation > 1 for dim in window.dimensions)
    return is_dilated or convolution.operands[1].opcode == "reverse"


def _has_features_last(convolution: Node, device: Device) -> bool:
    data = convolution.operands[0].type
    if not isinstance(data, TensorType) or data.dtype.name == "f64":
        return False
    if device.name.startswith(BEFORE_HOPPER) and not data.dtype.is_integer:
        return data.dtype.bits <= 8 or (data.dtype.bits == 16 and data.rank == 4)
    return True
