"""Fusion: one set of predicates, and a policy for each purpose."""

from __future__ import annotations

import pytest

from hloom.analysis.fusion import EXPENSIVE, KERNELS, MEMORY, FusionModel, FusionPolicy, fused_nodes
from hloom.formats.hlo import parse
from hloom.ir import Node
from hloom.targets.cpu.instruction_fusion import POLICY as XLA_CPU

TEXT = """
HloModule m
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64] parameter(1)
  spread = f32[64,64] broadcast(y), dimensions={0}
  grown = f32[64,64] exponential(x)
  one = f32[64,64] add(grown, spread)
  two = f32[64,64] multiply(grown, spread)
  turned = f32[64,64] transpose(two), dimensions={1,0}
  product = f32[64,64] dot(one, turned), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT all = (f32[64,64], f32[64,64]) tuple(product, one)
}
"""


def nodes() -> dict[str, Node]:
    return {node.name: node for node in parse(TEXT).entry.nodes}


@pytest.mark.parametrize("policy", [MEMORY, KERNELS, XLA_CPU], ids=["memory", "kernels", "xla_cpu"])
def test_elementwise_work_is_fused_into_its_reader_by_every_policy(policy: FusionPolicy):
    named = nodes()
    assert policy.fuses(named["grown"], named["one"])
    assert policy.fuses(named["spread"], named["one"])
    assert not policy.fuses(named["product"], named["all"])
    assert policy.may_duplicate(named["spread"])
    assert not policy.may_duplicate(named["grown"])


def test_what_is_expensive_is_what_xla_says():
    """Of real numbers; xla/service/instruction_fusion.cc, InstructionFusion::IsExpensive."""
    assert EXPENSIVE.issuperset({"acos", "acosh", "asin", "asinh", "atanh", "divide", "exponential", "remainder"})
    assert EXPENSIVE.isdisjoint({"cosine", "sine", "sinh", "tan", "multiply"})


def test_a_transpose_is_read_by_a_dot_as_it_is():
    named = nodes()
    assert MEMORY.fuses(named["turned"], named["product"])
    assert not KERNELS.fuses(named["turned"], named["product"])


def test_what_several_read_and_is_expensive_is_stored():
    graph = parse(TEXT).entry
    fused = {node.name: position for node, position in fused_nodes(graph, graph.nodes).items()}
    names = [node.name for node in graph.nodes]
    assert set(fused) == {"spread", "two", "turned"}
    assert names[fused["two"]] == names[fused["turned"]] == "product"


def test_a_kernel_ends_where_its_result_is_stored():
    groups = FusionModel(is_final=False).groups(parse(TEXT).entry)
    assert [group.root.name for group in groups] == ["product", "turned", "one", "grown"]
