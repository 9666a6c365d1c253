"""Pairs of modules whose differences are known: a pass was run on one of them, or a line of its program was edited.

Which instruction stands for which is not asked of the differ. Before a pass runs, every instruction has a name of its
own, which what stays keeps. Every line of an edited program has a scope of its own in both versions, which stands in
op_name; the differ does not see it.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

from hloom.analysis import op_name_of
from hloom.api.opt import opt
from hloom.formats.hlo import parse
from hloom.inspection.diff import diff
from hloom.ir import Module, Node
from scripts.lower_gpt2 import Config, lower

PASSES = (
    "simplify",
    "cse",
    "simplify,cse,dce",
    "inline",
    "inline,cse,dce",
    "outline",
    "simplify-xla",
    "simplify-xla,cse,dce",
    "microbatch(2)",
    "microbatch(4)",
    "remat(budget=7GiB)",
    "remat(budget=6GiB)",
)
STEP = Config(layers=2)
SIZE, BATCH = 32, 8
"""The edited programs: the width of what goes from layer to layer, and rows of a batch."""
WIDTHS = {"0": 32, "1": 48, "2": 64, "3": 80, "x": 96}
"""The inner width of each layer: which of several equal layers is gone, nobody could say."""
SCOPE = "line"
"""What the scopes of lines begin with."""


@dataclass(frozen=True, slots=True)
class KnownPair:
    """Two modules, and which instruction of the first stands for which of the second, as far as that is known."""

    name: str
    before: Module
    after: Module
    pairs: dict[Node, Node]


@dataclass(frozen=True, slots=True)
class PairQuality:
    """How many known pairs were matched, how many there are, and how many other pairs their instructions are in."""

    name: str
    instructions: int
    known: int
    right: int
    wrong: int

    @property
    def precision(self) -> float:
        """Of the pairs with an instruction whose partner is known, the share that is right."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Of the known pairs, the share that was matched."""
        return self.right / max(1, self.known)


def qualities() -> Iterator[PairQuality]:
    """The quality of the differ on every pair."""
    for pair in known_pairs():
        yield quality(pair)


def quality(pair: KnownPair) -> PairQuality:
    """Compare what the differ says with what is known."""
    matches = diff(pair.before, pair.after, costs=False).matches
    partners = set(pair.pairs.values())
    right = sum(matches.get(one) is other for one, other in pair.pairs.items())
    stated = sum(one in pair.pairs or other in partners for one, other in matches.items())
    return PairQuality(pair.name, pair.before.node_count, len(pair.pairs), right, stated - right)


def known_pairs() -> Iterator[KnownPair]:
    """All pairs: of a training step of GPT-2 before and after passes, and of programs before and after edits."""
    step = parse(lower(STEP, metadata=False))
    for number, name in enumerate(PASSES):
        yield passed(step, name, number)
    for name, edit in EDITS.items():
        yield edited(name, edit)


def passed(module: Module, name: str, seed: int) -> KnownPair:
    """A module before and after a pass, then under names that say nothing."""
    before = module.clone()
    for graph in before.graphs:
        for number, node in enumerate(graph.nodes):
            graph.rename(node, f"{graph.name}_{number}_{node.opcode}")
    after, _ = opt(before, re.split(r",(?![^(]*\))", name))
    known = {node.name: node for node in after.nodes()}
    pairs = {node: known[node.name] for node in before.nodes() if node.name in known}
    draw = random.Random(seed)
    for graph in after.graphs:
        for node in graph.nodes:
            graph.rename(node, f"v{draw.randrange(10**9)}")
    return KnownPair(f"pass {name}", before, after, pairs)


@dataclass(frozen=True, slots=True)
class Network:
    """A small network and its loss, line by line; each field is a line that an edit may change."""

    activation: Callable[[Any], Any] = jnp.tanh
    activation_of_layer_1: Callable[[Any], Any] | None = None
    layers: tuple[str, ...] = ("0", "1", "2")
    dtype_of_layer_1: Any = jnp.float32
    has_bias: bool = True
    has_residual: bool = True
    norm: str = "layer"
    scale: float = 1.0
    loss: str = "squares"
    has_second_output: bool = False
    is_clipped: bool = False
    is_attention: bool = False
    rate: float = 0.1
    has_momentum: bool = False
    width_of_layer_1: int = WIDTHS["1"]
    takes_mean_of: str = "all"


def line(name: str) -> AbstractContextManager[Any]:
    """The scope of a line."""
    return jax.named_scope(f"{SCOPE}_{name}")


def step_of(network: Network) -> Callable[..., Any]:
    """A training step of a network: loss, gradients, update."""

    def layer(name: str, x: Any, weights: dict[str, Any]) -> Any:
        kept = x
        with line(f"{name}_norm"):
            x = x - jnp.mean(x, axis=-1, keepdims=True) if network.norm == "layer" else x
            x = x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weights["scale"]
        dtype = network.dtype_of_layer_1 if name == "1" else jnp.float32
        with line(f"{name}_dot"):
            x = (x.astype(dtype) @ weights["in"].astype(dtype)).astype(jnp.float32)
        if network.has_bias:
            with line(f"{name}_bias"):
                x = x + weights["bias"]
        activation = network.activation_of_layer_1 if name == "1" else None
        with line(f"{name}_activation"):
            x = (activation or network.activation)(x)
        with line(f"{name}_out"):
            x = x @ weights["out"]
        if network.is_attention:
            with line(f"{name}_attention"):
                x = jax.nn.softmax(x @ x.T / 6.0, axis=-1) @ x
        if network.has_residual:
            with line(f"{name}_residual"):
                x = x + kept * network.scale
        return x

    def loss(parameters: dict[str, Any], x: Any, y: Any) -> Any:
        for name in network.layers:
            x = layer(name, x, parameters[name])
        with line("loss"):
            if network.loss == "squares":
                error = (x - y) ** 2
                return jnp.mean(error if network.takes_mean_of == "all" else error[:4])
            return -jnp.mean(jnp.sum(jax.nn.log_softmax(x) * y, axis=-1))

    def step(parameters: dict[str, Any], momentum: dict[str, Any], x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        updated = {}
        for name in parameters:
            for key in parameters[name]:
                with line(f"update_{name}_{key}"):
                    change = gradients[name][key]
                    if network.is_clipped:
                        change = jnp.clip(change, -1.0, 1.0)
                    if network.has_momentum:
                        change = change + 0.9 * momentum[name][key]
                    updated[name, key] = parameters[name][key] - network.rate * change
        return (value, updated, jnp.max(jnp.abs(x))) if network.has_second_output else (value, updated)

    return step


def lowered(network: Network) -> Module:
    """The HLO of a network's step, with metadata."""

    def array(*dims: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    def weights(name: str) -> dict[str, Any]:
        width = network.width_of_layer_1 if name == "1" else WIDTHS[name]
        return {"in": array(SIZE, width), "bias": array(width), "out": array(width, SIZE), "scale": array(SIZE)}

    parameters = {name: weights(name) for name in network.layers}
    batch = array(BATCH, SIZE)
    lowered_step = jax.jit(step_of(network)).lower(parameters, parameters, batch, batch)
    return parse(lowered_step.as_text("hlo", debug_info=True))


EDITS: dict[str, Network] = {
    "every activation: tanh to gelu": Network(activation=jax.nn.gelu),
    "one activation: tanh to relu": Network(activation_of_layer_1=jax.nn.relu),
    "a layer in bf16": Network(dtype_of_layer_1=jnp.bfloat16),
    "a layer more at the end": Network(layers=("0", "1", "2", "3")),
    "a layer more in the middle": Network(layers=("0", "1", "x", "2")),
    "a layer less": Network(layers=("0", "2")),
    "a wider layer": Network(width_of_layer_1=56),
    "no biases": Network(has_bias=False),
    "no residuals": Network(has_residual=False),
    "layer norm to RMS norm": Network(norm="rms"),
    "residuals scaled": Network(scale=0.5),
    "squares to cross-entropy": Network(loss="entropy"),
    "one output more": Network(has_second_output=True),
    "gradients clipped": Network(is_clipped=True),
    "attention added": Network(is_attention=True),
    "another learning rate": Network(rate=0.01),
    "momentum": Network(has_momentum=True),
    "the loss of half the batch": Network(takes_mean_of="half"),
}
"""The edits of one program, each as the network that it makes."""


def edited(name: str, network: Network) -> KnownPair:
    """The program and an edited version of it; pairs have an op_name and opcode that as many others have in both."""
    before, after = lowered(Network()), lowered(network)
    keys = [_keys(module) for module in (before, after)]
    pairs = {node: keys[1][key] for key, node in keys[0].items() if key in keys[1]}
    for module in (before, after):
        for graph in module.graphs:
            for node in graph.nodes:
                graph.set_metadata(node, None)
    return KnownPair(f"edit: {name}", before, after, pairs)


def _keys(module: Module) -> dict[tuple[object, ...], Node]:
    """Instructions by op_name and opcode, how many have both, and which of them it is."""
    counted: dict[tuple[str, str], list[Node]] = {}
    for node in module.nodes():
        name = op_name_of(node)
        if SCOPE in name or (name and node.opcode == "parameter"):
            counted.setdefault((name, node.opcode), []).append(node)
    return {(*key, len(nodes), number): node for key, nodes in counted.items() for number, node in enumerate(nodes)}


def table(measured: list[PairQuality]) -> str:
    """The qualities as a table of Markdown."""
    lines = ["| what was done | instructions | known pairs | precision | recall |", "|---|---:|---:|---:|---:|"]
    for one in (*measured, together(measured)):
        shares = f"{100 * one.precision:.1f} % | {100 * one.recall:.1f} %"
        lines.append(f"| {one.name} | {one.instructions:,} | {one.known:,} | {shares} |")
    return "\n".join(lines)


def together(measured: list[PairQuality]) -> PairQuality:
    """The quality over all pairs, each instruction counting once."""
    counts = [sum(getattr(one, part) for one in measured) for part in ("instructions", "known", "right", "wrong")]
    return PairQuality("together", *counts)


if __name__ == "__main__":
    print(table(list(qualities())))
