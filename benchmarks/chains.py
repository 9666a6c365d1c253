# pyright: reportMissingImports=false
"""The same chain of operations for hloom, xDSL and torch.fx: links of three, in each of which one pair can be fused.

A link is `multiply`, `add`, `tanh`; the rule makes `fused(x, y, z)` of `add(multiply(x, y), z)`.
"""

# The peers are optional: without them their imports cannot be resolved.
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false

from __future__ import annotations

from typing import Any

from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.rewrite import Rule, RuleIndex, rewrite, rule

LINK = 3


def hloom_chain(links: int) -> Module:
    """The chain as a module."""
    lines = ["ENTRY chain {", "  x0 = f32[8] parameter(0)", "  y = f32[8] parameter(1)", "  z = f32[8] parameter(2)"]
    for link in range(links):
        lines += [
            f"  m{link} = f32[8] multiply(x{link}, y)",
            f"  a{link} = f32[8] add(m{link}, z)",
            f"  x{link + 1} = f32[8] tanh(a{link})",
        ]
    return parse("\n".join([*lines, f"  ROOT r = f32[8] negate(x{links})", "}"]))


@rule
def fuse_multiply_add(p: Any) -> None:
    """add(multiply(x, y), z) -> clamp(x, y, z), which stands in for an op of three operands"""
    x, y, z = p.value("x"), p.value("y"), p.value("z")
    added = p.op("add", p.op("multiply", x, y, commutative=False), z, commutative=False)
    with p.rewrite() as r:
        r.replace({added: r.op("clamp", x, y, z)})


def hloom_pairs(links: int) -> Module:
    """A chain of links of three in each of which two ops of one operand can be replaced together."""
    lines = ["ENTRY pairs {", "  x0 = f32[8] parameter(0)"]
    for link in range(links):
        lines += [
            f"  s{link} = f32[8] sine(x{link})",
            f"  c{link} = f32[8] cosine(x{link})",
            f"  x{link + 1} = f32[8] add(s{link}, c{link})",
        ]
    return parse("\n".join([*lines, f"  ROOT r = f32[8] negate(x{links})", "}"]))


@rule
def replace_pair(p: Any) -> None:
    """sine(x), cosine(x) -> tanh(x), exponential(x), which stand in for one op of two results"""
    x = p.value("x")
    sine, cosine = p.op("sine", x), p.op("cosine", x)
    with p.rewrite() as r:
        r.replace({sine: r.op("tanh", x), cosine: r.op("exponential", x)})


def further_rules(count: int) -> list[Rule]:
    """Rules on the same root that do not fire here: other operations, attributes, constants and types beneath it."""
    opcodes = ["subtract", "divide", "maximum", "minimum", "power", "remainder", "atan2"]
    made = []
    for number in range(count):

        def declare(p: Any, number: int = number) -> None:
            x, z = p.value("x"), p.value("z")
            if number % 3 == 0:
                inner = p.op(opcodes[number // 3 % len(opcodes)], x, float(number), commutative=False)
            elif number % 3 == 1:
                inner = p.op("multiply", x, float(number + 2), commutative=False)
            else:
                inner = p.op("multiply", p.op("reshape", p.op("negate", x)), float(number + 2), commutative=False)
            added = p.op("add", inner, z, commutative=False)
            with p.rewrite() as r:
                r.replace({added: r.op("clamp", x, z, z)})

        made.append(rule(declare, name=f"further-{number}"))
    return made


def hloom_rewrite(module: Module, index: RuleIndex) -> int:
    """Fuse all pairs; how many there were."""
    return rewrite(module, index).matched


FUSE_IN_PDL = """
pdl.pattern : benefit(1) {
  %t = pdl.type
  %x = pdl.operand : %t
  %y = pdl.operand : %t
  %z = pdl.operand : %t
  %multiply = pdl.operation "arith.mulf" (%x, %y : !pdl.value, !pdl.value) -> (%t : !pdl.type)
  %product = pdl.result 0 of %multiply
  %add = pdl.operation "arith.addf" (%product, %z : !pdl.value, !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %add {
    %fused = pdl.operation "math.fma" (%x, %y, %z : !pdl.value, !pdl.value, !pdl.value) -> (%t : !pdl.type)
    pdl.replace %add with %fused
  }
}
"""


def xdsl_chain(links: int) -> Any:
    """The chain as a module of xDSL's own `arith` and `math`."""
    from xdsl.dialects import arith, math
    from xdsl.dialects.builtin import ModuleOp, f32
    from xdsl.dialects.test import TestOp
    from xdsl.ir import Block, Region

    block = Block(arg_types=[f32, f32, f32])
    x, y, z = block.args
    for _ in range(links):
        product = arith.MulfOp(x, y)
        added = arith.AddfOp(product.result, z)
        last = math.TanhOp(added.result)
        block.add_ops([product, added, last])
        x = last.result
    block.add_op(TestOp(operands=[x]))
    return ModuleOp(Region(block))


def xdsl_rewrite(module: Any) -> int:
    """Fuse all pairs with xDSL's greedy driver and a pattern written in Python."""
    from xdsl.dialects import arith, math
    from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

    class Fuse(RewritePattern):
        def match_and_rewrite(self, op: Any, rewriter: PatternRewriter) -> None:
            product = op.lhs.owner if isinstance(op, arith.AddfOp) else None
            if isinstance(product, arith.MulfOp) and product.result.has_one_use():
                rewriter.replace(op, math.FmaOp(product.lhs, product.rhs, op.rhs))
                rewriter.erase(product)

    return _xdsl_run(module, [Fuse()])


def xdsl_pdl_rewrite(module: Any) -> int:
    """Fuse all pairs with xDSL's greedy driver and a declared pattern, which its interpreter of PDL matches."""
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, math, pdl
    from xdsl.interpreters.pdl import PDLRewritePattern
    from xdsl.parser import Parser

    context = Context()
    for dialect in (builtin.Builtin, arith.Arith, math.Math, pdl.PDL):
        context.load_dialect(dialect)
    declared = Parser(context, FUSE_IN_PDL).parse_module()
    rewrites = [op for op in declared.walk() if isinstance(op, pdl.RewriteOp)]
    return _xdsl_run(module, [PDLRewritePattern(rewrite, context) for rewrite in rewrites])


def _xdsl_run(module: Any, patterns: list) -> int:
    from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker

    PatternRewriteWalker(GreedyRewritePatternApplier(patterns)).rewrite_module(module)
    return sum(op.name == "math.fma" for op in module.walk())


def torch_chain(links: int) -> Any:
    """The chain as a torch.fx graph module."""
    import operator

    import torch
    from torch import fx

    graph = fx.Graph()
    x, y, z = (graph.placeholder(name) for name in "xyz")
    for _ in range(links):
        x = graph.call_function(operator.mul, (x, y))
        x = graph.call_function(operator.add, (x, z))
        x = graph.call_function(torch.tanh, (x,))
    graph.output(graph.call_function(torch.neg, (x,)))
    return fx.GraphModule(torch.nn.Module(), graph)


def torch_rewrite(module: Any) -> int:
    """Fuse all pairs with torch.fx's subgraph rewriter."""
    import operator

    import torch
    from torch import fx

    def pattern(x: Any, y: Any, z: Any) -> Any:
        return operator.add(operator.mul(x, y), z)

    def replacement(x: Any, y: Any, z: Any) -> Any:
        return torch.addcmul(z, x, y)

    return len(fx.replace_pattern(module, pattern, replacement))
