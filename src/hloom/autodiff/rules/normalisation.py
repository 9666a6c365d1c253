"""Batch normalisation, expressed by elementwise ops and sums and differentiated as such.

Source of the definitions: xla/service/batchnorm_expander.cc.
"""

from __future__ import annotations

import math
from typing import Any

from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.rules.combiners import expanded
from hloom.autodiff.table import expansion
from hloom.ir import Apply, Graph, Node


class _Features:
    """Arrays of one value for each feature, and arrays of all."""

    def __init__(self, emitter: Emitter, operand: Node, node: Apply) -> None:
        self.emitter = emitter
        self.kind = array_type(operand)
        self.feature = node.attributes["feature_index"]
        self.others = [dim for dim in range(self.kind.rank) if dim != self.feature]
        self.count = math.prod(self.kind.dims[dim] for dim in self.others)
        self.epsilon = node.attributes["epsilon"]

    def spread(self, vector: Node) -> Node:
        return self.emitter.broadcast(vector, self.kind.dims, [self.feature])

    def mean(self, whole: Node) -> Node:
        total = self.emitter.reduce("add", whole, self.others)
        return self.emitter.div(total, self.emitter.like(self.count, total))

    def inverse_deviation(self, variance: Node) -> Node:
        shifted = self.emitter.add(variance, self.emitter.like(self.epsilon, variance))
        return self.emitter.elementwise("rsqrt", shifted)

    def normalised(self, operand: Node, scale: Node, offset: Node, mean: Node, variance: Node) -> Node:
        e = self.emitter
        factor = e.mul(self.inverse_deviation(variance), scale)
        centred = e.sub(operand, self.spread(mean))
        return e.add(e.mul(centred, self.spread(factor)), self.spread(offset))


@expansion("batch-norm-training")
def training(session: Any, node: Apply) -> Graph:
    def make(e: Emitter, given: list[Node]) -> list[Node]:
        operand, scale, offset = given
        features = _Features(e, operand, node)
        mean = features.mean(operand)
        centred = e.sub(operand, features.spread(mean))
        variance = features.mean(e.mul(centred, centred))
        return [features.normalised(operand, scale, offset, mean, variance), mean, variance]

    return expanded(session, node, make)


@expansion("batch-norm-inference")
def inference(session: Any, node: Apply) -> Graph:
    def make(e: Emitter, given: list[Node]) -> Node:
        operand, scale, offset, mean, variance = given
        return _Features(e, operand, node).normalised(operand, scale, offset, mean, variance)

    return expanded(session, node, make)


@expansion("batch-norm-grad")
def gradient(session: Any, node: Apply) -> Graph:
    """(scale / deviation) (g - mean(g) - x' mean(g x')), x' the normalised operand."""

    def make(e: Emitter, given: list[Node]) -> list[Node]:
        operand, scale, mean, variance, cotangent = given
        features = _Features(e, operand, node)
        inverse = features.inverse_deviation(variance)
        normal = e.mul(e.sub(operand, features.spread(mean)), features.spread(inverse))
        of_scale = e.reduce("add", e.mul(cotangent, normal), features.others)
        of_offset = e.reduce("add", cotangent, features.others)
        count = e.like(features.count, of_scale)
        along = e.mul(normal, features.spread(e.div(of_scale, count)))
        rest = e.sub(e.sub(cotangent, features.spread(e.div(of_offset, count))), along)
        return [e.mul(rest, features.spread(e.mul(scale, inverse))), of_scale, of_offset]

    return expanded(session, node, make)
