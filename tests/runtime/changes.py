"""Transformations of modules for tests of `jit` and `inside_jit`."""

from collections.abc import Callable

from hloom.ir import Module, Node
from hloom.ops import OPS


def sine_to_cosine(module: Module) -> bool:
    """sine(x) -> cosine(x): other numbers."""
    nodes = [node for node in module.nodes() if node.opcode == "sine"]
    for node in nodes:
        node.graph.set_function(node, OPS["cosine"])  # pyright: ignore[reportArgumentType]
    return bool(nodes)


def sine_to_square_of_cosine(module: Module) -> bool:
    """sine(x) -> multiply(cosine(x), cosine(x)): other numbers, and more nodes, whose types have no layout."""
    nodes = [node for node in module.nodes() if node.opcode == "sine"]
    for node in nodes:
        graph, result_type = node.graph, node.type.with_layout(None)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
        cosine = graph.add_apply(OPS["cosine"], node.operands, result_type, before=node)
        graph.replace_uses(node, graph.add_apply(OPS["multiply"], (cosine, cosine), result_type, before=node))
        graph.erase(node)
    return bool(nodes)


def fuse_reciprocal_root(module: Module) -> bool:
    """divide(y, sqrt(x)) -> multiply(y, rsqrt(x)): the same numbers in one operation less."""
    nodes = [node for node in module.nodes() if node.opcode == "divide" and node.operands[1].opcode == "sqrt"]
    for node in nodes:
        graph, root = node.graph, node.operands[1]
        inverse = graph.add_apply(OPS["rsqrt"], root.operands, root.type, before=node)
        graph.replace_uses(node, graph.add_apply(OPS["multiply"], (node.operands[0], inverse), node.type, before=node))
        graph.erase(node)
        if not root.users:
            graph.erase(root)
    return bool(nodes)


def fuse_each(opcode: str) -> Callable[[Module], bool]:
    """op(x) -> fusion(x) of that op alone: the same numbers."""

    def change(module: Module) -> bool:
        nodes = [node for node in module.entry.nodes if node.opcode == opcode]
        for node in nodes:
            _fuse(module, node)
        return bool(nodes)

    return change


def _fuse(module: Module, node: Node) -> None:
    fused, entry = module.add_graph("fused_by_hand"), module.entry
    parameters = [fused.add_parameter(operand.type) for operand in node.operands]
    fused.set_output(fused.add_apply(node.function, parameters, node.type, node.attributes))  # pyright: ignore[reportAttributeAccessIssue]
    attributes = {"kind": "kLoop", "calls": fused}
    entry.replace_uses(node, entry.add_apply(OPS["fusion"], node.operands, node.type, attributes, before=node))
    entry.erase(node)


def nothing(module: Module) -> bool:
    """A change that says that it changed nothing."""
    return False


def everything(module: Module) -> None:
    """A change that says nothing, so the module is taken as changed: it goes all the way and comes back as it was."""


def raising(module: Module) -> None:
    """A change that fails."""
    raise KeyError("no such rule")
