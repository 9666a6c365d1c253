"""The programs that are measured: GPT-2 training steps that JAX lowers on the spot, and texts made to be hard."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from hloom.formats.hlo import parse, print_module
from hloom.ir import Apply, Module, Node, TupleType
from hloom.ops import OPS
from scripts.lower_gpt2 import Config, lower

_GRAPH = re.compile(r"^(?:ENTRY )?(%?[\w.-]+) \{$|((?:to_apply|calls|condition|body)=%?[\w.-]+)", re.MULTILINE)
SMALL, LARGE = Config(), Config(layers=96)
"""GPT-2 small, and a model of GPT-3's depth."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How large the programs are, and how many seconds the samples of one figure may take."""

    small: Config = SMALL
    large: Config = LARGE
    copies: int = 19
    rows: int = 5000
    chain: int = 10_000
    long_chain: int = 300_000
    layers: tuple[int, ...] = (12, 24, 48, 96)
    seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Program:
    """A module's text, what the table calls it, and how many instructions it has."""

    name: str
    text: str
    instructions: int


@cache
def training_step(config: Config, metadata: bool) -> Program:
    """A GPT-2 training step before XLA optimises it."""
    text = lower(config, metadata=metadata)
    name = f"GPT-2, {config.layers} layers{', with metadata' if metadata else ''}"
    return Program(name, text, _count(text))


def training_steps(plan: Plan) -> list[Program]:
    """Both sizes, without and with metadata."""
    return [training_step(config, metadata) for config in (plan.small, plan.large) for metadata in (False, True)]


def repeated(program: Program, copies: int) -> Program:
    """A program several times in one module: its computations under changed names, the last copy's entry the entry."""
    header, _, body = program.text.partition("\n\n")
    parts = [header]
    for number in range(copies):
        copy = _GRAPH.sub(lambda match, tail=f".copy{number}": _renamed(match, tail), body)
        parts.append(copy if number == copies - 1 else copy.replace("\nENTRY ", "\n"))
    text = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    return Program(f"{program.name}, {copies} times", text, _count(text))


def called(program: Program, copies: int) -> Program:
    """A training run of so many steps: each a computation of its own, which the entry calls with the state so far."""
    return _printed(_run(program, copies), f"{program.name}, {copies} steps called")


def unrolled(program: Program, copies: int) -> Program:
    """The same run with all steps in one computation."""
    module = _run(program, copies)
    for call in [node for node in module.entry.nodes if node.opcode == "call"]:
        step = call.attributes["to_apply"]
        module.entry.inline(call)
        module.erase_graph(step)
    return _printed(module, f"{program.name}, {copies} steps in one computation")


def all_equal(rows: int) -> Program:
    """Instructions that all have one type and the same attributes."""
    lines = (f"  %b.{row} = f32[8,16]{{0,1}} transpose(%a), dimensions={{1,0}}" for row in range(rows))
    return _flat("every line alike", "f32[16,8]{1,0}", lines)


def all_different(rows: int) -> Program:
    """Instructions of which each has a type and attributes that no other has."""
    lines = (
        f"  %b.{row} = f32[{row + 1},8]{{1,0}} slice(%a), slice={{[{row}:{2 * row + 1}], [0:8]}}" for row in range(rows)
    )
    return _flat("no two lines alike", f"f32[{2 * rows + 2},8]{{1,0}}", lines)


def _run(program: Program, copies: int) -> Module:
    """The steps, each in its computation, and an entry that gives the state that one yields to the next."""
    module = parse(repeated(program, copies).text)
    stem = f"{parse(program.text).entry.name}.copy"
    first, *others = [graph for graph in module.graphs if graph.name.startswith(stem)]
    run = module.add_graph("run")
    parameters = [run.add_parameter(parameter.type, parameter.name) for parameter in first.parameters]
    call = run.add_apply(OPS["call"], parameters, first.root.type, {"to_apply": first})
    for step in others:
        *state, _loss = _elements(call)
        call = run.add_apply(OPS["call"], [*state, *parameters[len(state) :]], step.root.type, {"to_apply": step})
    run.set_output(call)
    module.entry = run
    return module


def _elements(node: Apply) -> list[Node]:
    kinds = node.type.elements if isinstance(node.type, TupleType) else ()
    return [
        node.graph.add_apply(OPS["get-tuple-element"], [node], element_type, {"index": index})
        for index, element_type in enumerate(kinds)
    ]


def _printed(module: Module, name: str) -> Program:
    return Program(name, print_module(module), module.node_count)


def _flat(name: str, operand: str, lines: Iterable[str]) -> Program:
    body = "\n".join(lines)
    text = f"HloModule flat\n\nENTRY %main {{\n  %a = {operand} parameter(0)\n{body}\n  ROOT %end = () tuple()\n}}\n"
    return Program(name, text, _count(text))


def _renamed(match: re.Match[str], tail: str) -> str:
    return match[0][:-2] + tail + " {" if match[1] else match[0] + tail


def _count(text: str) -> int:
    return parse(text).node_count
