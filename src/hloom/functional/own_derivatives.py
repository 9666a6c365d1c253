"""Library functions with derivative rules of their own: `jax.custom_jvp`, `jax.custom_vjp`, `jax.lax.stop_gradient`.

HLO knows nothing of such rules. A call of such a function names it by number; before a module is differentiated,

    call(x), to_apply=f  ->  custom-call(x), called_computations={f, cotangents of x, tangents of f(x)}

whose linearization calls what the library makes of the rules: cotangents in reverse mode, tangents in forward mode.
What is left of the custom-calls afterwards becomes calls again, so that derivatives of derivatives find the rules too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloom import autodiff
from hloom.functional.library import import_graphs
from hloom.functional.library_protocols import RULE, rule_attributes
from hloom.ir import Apply, Graph, Module, Node, TensorType, TupleType
from hloom.ops import OPS
from hloom.text import Unsupported

if TYPE_CHECKING:
    from hloom.functional.library import Library

TARGET = "hloom.own_derivative"
COTANGENTS, TANGENTS = "hloom_cotangents", "hloom_tangents"


def with_rules(module: Module, library: Library) -> bool:
    """Put custom-calls in place of the calls of functions with rules; whether all of them have a forward mode."""
    imported: dict[int, tuple[Graph, Graph | None]] = {}
    has_tangents = True
    for graph in list(module.graphs):
        for node in list(graph.nodes):
            text = dict(node.attributes.get("frontend_attributes") or ()).get(RULE)
            if node.opcode != "call" or text is None:
                continue
            number = int(text)
            if number not in imported:
                imported[number] = _graphs_of_rule(module, library, number)
            cotangents, tangents = imported[number]
            has_tangents = has_tangents and tangents is not None
            called = next(iter(node.called_graphs))
            attributes = {
                "custom_call_target": TARGET,
                "called_computations": tuple(made for made in (called, cotangents, tangents) if made is not None),
                "frontend_attributes": (
                    (RULE, text),
                    (COTANGENTS, _number_of(library, library.rules[number].cotangents())),
                    (TANGENTS, _number_of(library, library.rules[number].tangents())),
                ),
            }
            made = graph.add_apply(OPS["custom-call"], node.inputs, node.type, attributes, before=node)
            graph.replace_uses(node, made)
            graph.erase(node)
    return has_tangents


def _graphs_of_rule(module: Module, library: Library, number: int) -> tuple[Graph, Graph | None]:
    rule = library.rules[number]
    tangents = rule.tangents()
    return (
        import_graphs(module, rule.cotangents().module, "cotangents"),
        None if tangents is None else import_graphs(module, tangents.module, "tangents"),
    )


def _number_of(library: Library, traced: Any) -> str:
    """Which rule a traced function has itself, as a text; empty where it has none."""
    return "" if traced is None or traced.rule is None else str(library.number_of(traced.rule))


def without_rules(module: Module) -> Module:
    """The same module with calls in place of the custom-calls."""
    for graph in module.graphs:
        for node in list(graph.nodes):
            if node.opcode == "custom-call" and node.attributes["custom_call_target"] == TARGET:
                attributes = {
                    "to_apply": next(iter(node.attributes["called_computations"])),
                    "frontend_attributes": ((RULE, _texts(node)[RULE]),),
                }
                made = graph.add_apply(OPS["call"], node.inputs, node.type, attributes, before=node)
                graph.replace_uses(node, made)
                graph.erase(node)
    return module


@autodiff.custom_call(TARGET)
def linearize(t: Any, node: Apply, tangents: list[Any]) -> Any:
    """The tangent of a call of a function with rules: of a tuple, those of its elements."""
    graphs, texts = tuple(node.attributes["called_computations"]), _texts(node)
    results: list[Any] = list(node.type.elements) if isinstance(node.type, TupleType) else [node.type]
    moving = [number for number, operand in enumerate(node.inputs) if moves(operand.type)]
    moved = [number for number, result in enumerate(results) if moves(result)]
    made: dict[int, Any] = {}
    if t.is_forward:
        if len(graphs) < 3:
            raise Unsupported(
                "a function of jax.custom_vjp has no forward mode", hint="differentiate it with hloom.grad or hloom.vjp"
            )
        given = [
            t.primal.zeros(node.inputs[number].type) if tangents[number] is None else tangents[number]
            for number in moving
        ]
        called = t.primal.op("call", *node.inputs, *given, to_apply=graphs[2], **rule_attributes(texts[TANGENTS]))
        made = dict(zip(moved, _arrays(t.primal, called), strict=True))
    else:

        def transpose(backward: Any, cotangents: list[Node | None]) -> None:
            given = [
                backward.zeros(results[number]) if cotangent is None else cotangent
                for number, cotangent in zip(moved, cotangents, strict=True)
            ]
            attributes = rule_attributes(texts[COTANGENTS])
            called = backward.op("call", *node.inputs, *given, to_apply=graphs[1], **attributes)
            for number, made in zip(moving, _arrays(backward, called), strict=True):
                backward.give(tangents[number], made)

        outputs = t.call([results[number] for number in moved], [tangents[number] for number in moving], transpose)
        made = dict(zip(moved, outputs, strict=True))
    return [made.get(number) for number in range(len(results))] if isinstance(node.type, TupleType) else made.get(0)


def _arrays(emitter: Any, called: Node) -> list[Node]:
    if not isinstance(called.type, TupleType):
        return [called]
    return [emitter.element(called, number) for number in range(len(called.type.elements))]


def moves(value_type: Any) -> bool:
    """Whether values of a type have tangents."""
    return isinstance(value_type, TensorType) and (value_type.dtype.is_float or value_type.dtype.is_complex)


def _texts(node: Node) -> dict[str, str]:
    return dict(node.attributes["frontend_attributes"])
