"""A program in half precision, to forecast its memory: f32 computed in bf16, with parameters and results unchanged.

    x = f32[8] parameter(0); y = f32[8] tanh(x); ROOT z = f32[8] negate(y)
      ->
    x = f32[8] parameter(0); h = bf16[8] convert(x); y = bf16[8] tanh(h); n = bf16[8] negate(y); ROOT z = convert(n)

What is about the bits of numbers, and calls of libraries, stay in f32. It says how much memory would be saved, not that
a training would go as well: which values may be rounded so, the model's author decides.
"""

from __future__ import annotations

import numpy as np

from hloom.ir import (
    Constant,
    Graph,
    Literal,
    Module,
    Node,
    Parameter,
    TensorType,
    Trait,
    TupleType,
    Type,
    dtype,
    infer_types,
    map_leaves,
    verify,
)
from hloom.ops import OPS, with_trait
from hloom.passes import canonicalize_in_place, sort_topologically
from hloom.text import Unsupported

WIDE, NARROW = dtype("f32"), dtype("bf16")
KEPT = with_trait(Trait.REPRESENTATION) | {"custom-call", "infeed", "rng"}
"""Opcodes that stay in f32: they are about the bits of numbers, or belong to a library."""


def in_half_precision(module: Module) -> Module:
    """A copy that computes in bf16 what the module computes in f32; raises Unsupported where that cannot be written."""
    copy = module.clone()
    infer_types(copy)
    canonicalize_in_place(copy)
    copy.index_users()
    results = [(node, node.type) for node in _results(copy)]
    kept = {node: node.type for graph in copy.graphs for node in graph.nodes if _is_kept(node, copy)}
    for graph in copy.graphs:
        for node in list(graph.nodes):
            if node not in kept:
                _narrow(graph, node)
    for node in kept:
        _surround(node, kept)
    _restore_results(copy.entry, results)
    for graph in copy.graphs:
        sort_topologically(graph)
    verify(copy)
    return copy


def narrow(value_type: Type) -> Type:
    """A type with bf16 for f32."""
    return map_leaves(value_type, _narrow_leaf)


def _narrow_leaf(leaf: Type) -> Type:
    return leaf.with_dtype(NARROW) if isinstance(leaf, TensorType) and leaf.dtype is WIDE else leaf


def _results(module: Module) -> tuple[Node, ...]:
    root = module.entry.root
    return root.operands if root.opcode == "tuple" else (root,)


def _is_kept(node: Node, module: Module) -> bool:
    """Whether an instruction stays in f32: by its opcode, as a parameter of the program, as an element of such one."""
    while node.opcode == "get-tuple-element":
        node = node.operands[0]
    return node.opcode in KEPT or (isinstance(node, Parameter) and module.is_entry(node.graph))


def _narrow(graph: Graph, node: Node) -> None:
    if node.type is not None and narrow(node.type) is not node.type:
        graph.set_type(node, narrow(node.type))
    if isinstance(node, Constant) and node.literal is not None:
        graph.set_value(node, _narrow_literal(node.literal))


def _narrow_literal(literal: Literal) -> Literal:
    if literal.is_tuple:
        return Literal.tuple([_narrow_literal(element) for element in literal.elements])
    made = narrow(literal.type)
    if made is literal.type or not isinstance(made, TensorType):
        return literal
    if literal.is_left_out:
        return Literal.elided(made)
    with np.errstate(over="ignore"):
        if literal.is_splat:
            return Literal.splat(made, np.asarray(literal.splat_value()).astype(NARROW.numpy))
        return Literal.array(made, literal.numpy().astype(NARROW.numpy))


def _surround(node: Node, kept: dict[Node, Type | None]) -> None:
    """Convert what an instruction in f32 reads from bf16, and what others read of it to bf16."""
    graph = node.graph
    operands = [
        graph.add_apply(OPS["convert"], [operand], _wide_leaf(operand, node), before=node)
        if operand not in kept and _is_narrow(operand)
        else operand
        for operand in node.operands
    ]
    if operands != list(node.operands):
        graph.set_operands(node, operands)
    if node.type is None or narrow(node.type) is node.type:
        return
    users = [user for user in node.users if user not in kept]
    if users and not isinstance(node.type, TensorType):
        raise Unsupported(f"{node.name} in {graph.name}: the tuple of a {node.opcode} is passed on whole")
    if users:
        made = graph.add_apply(OPS["convert"], [node], narrow(node.type), before=users[0])
        for user in users:
            graph.set_operands(user, [made if operand is node else operand for operand in user.operands])


def _is_narrow(node: Node) -> bool:
    return (
        any(isinstance(leaf, TensorType) and leaf.dtype is NARROW for leaf in node.type.leaves())
        if node.type
        else False
    )


def _wide_leaf(operand: Node, node: Node) -> Type:
    if not isinstance(operand.type, TensorType):
        raise Unsupported(f"{node.name} in {node.graph.name}: a {node.opcode} reads a tuple of values in bf16")
    return operand.type.with_dtype(WIDE)


def _restore_results(entry: Graph, results: list[tuple[Node, Type | None]]) -> None:
    """Let the program yield the types that it yielded."""
    root = entry.root
    made: list[Node] = []
    for (node, before), operand in zip(results, root.operands if root.opcode == "tuple" else (root,), strict=True):
        del node
        if operand.type is before:
            made.append(operand)
        elif isinstance(before, TensorType):
            made.append(entry.add_apply(OPS["convert"], [operand], before))
        else:
            raise Unsupported(f"{entry.name}: a result of type {before} would have to be taken apart")
    if root.opcode != "tuple":
        entry.set_output(made[0])
    elif made != list(root.operands):
        entry.set_operands(root, made)
        entry.set_type(root, TupleType([node.type for node in made if node.type is not None]))
