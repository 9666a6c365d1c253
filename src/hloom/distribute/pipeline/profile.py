r"""PipeDream's profiles of models: a graph of layers with their times and sizes, as text.

    node1 -- Conv2d(3, 64) -- forward_compute_time=2.5, backward_compute_time=5.1, activation_size=8.0, \
        parameter_size=7.0
    node2 -- LSTM(64, 8) -- forward_compute_time=1.5, backward_compute_time=3.1, activation_size=[8.0; 4.0], \
        parameter_size=9.0
    <tab>node1 -- node2

Times are in milliseconds and sizes in bytes, of one batch; an activation of several tensors is their list. A line that
begins with white space is an edge (PipeDream, graph/graph.py, Graph.from_str and Node.from_str).
"""

from __future__ import annotations

import heapq
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hloom.distribute.pipeline.chain import Chain, LayerCost
from hloom.text import ParseError, Source, read_limited

LARGEST_FILE = 2**26
"""The maximum size of a profile in bytes."""
MOST_LINES = 2**20
"""The maximum number of nodes and edges of a profile."""
MILLISECOND = 1e-3
WEIGHT_SHARE = 0.5
"""The part of a backward that makes the weights' gradients, which profiles do not tell: for a product it is half."""

_METADATA = " -- forward_compute_time="
_FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_NUMBER = re.compile(r"[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?\Z")


@dataclass(frozen=True, slots=True)
class ProfileNode:
    """A layer as it was measured: milliseconds and bytes of one batch."""

    name: str
    description: str
    forward_milliseconds: float
    backward_milliseconds: float
    activation_bytes: float
    parameter_bytes: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The layers of a model and, by number, which reads which: (producer, consumer), without cycles."""

    nodes: tuple[ProfileNode, ...]
    edges: tuple[tuple[int, int], ...]

    def chain(self, batch: int, *, optimizer_slots: int = 0) -> Chain:
        """The layers as a chain, in a topological order, measured at this batch size.

        Between two neighbours goes what any layer up to the first makes and any layer behind it reads, once each.
        Nodes that are called Input and read nothing are the chain's input. The optimizer keeps `optimizer_slots` times
        the parameters.
        """
        consumers: list[list[int]] = [[] for _ in self.nodes]
        reads = [False] * len(self.nodes)
        for producer, consumer in self.edges:
            consumers[producer].append(consumer)
            reads[consumer] = True
        inputs = {
            number
            for number, node in enumerate(self.nodes)
            if not reads[number] and consumers[number] and node.description.startswith("Input")
        }
        ranked = [number for number in _topological(len(self.nodes), self.edges) if number not in inputs]
        rank = {number: position for position, number in enumerate(ranked)}
        ends = [0.0] * (len(ranked) + 1)
        crossing, layers = 0.0, []
        for position, number in enumerate(ranked):
            node = self.nodes[number]
            last_use = max((rank[consumer] for consumer in consumers[number]), default=position)
            if last_use > position:
                crossing += node.activation_bytes
                ends[last_use] += node.activation_bytes
            crossing -= ends[position]
            layers.append(_layer(node, max(0.0, crossing), optimizer_slots))
        return Chain(tuple(layers), batch, math.fsum(self.nodes[number].activation_bytes for number in inputs))


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a profile's file. Raises HloomError where it cannot be read, ParseError with the place where it is wrong."""
    text = read_limited(path, LARGEST_FILE).decode("utf-8", "replace")
    return parse_profile(text, os.fspath(path))


def parse_profile(text: str, name: str = "<text>") -> Profile:
    """Read a profile from its text. Raises ParseError, with line and column, for what is none.

    >>> text = '''node1 -- Input -- forward_compute_time=0, backward_compute_time=0, activation_size=8, parameter_size=0
    ... node2 -- Linear(2, 2) -- forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=16
    ... \\tnode1 -- node2'''
    >>> chain = parse_profile(text).chain(batch=4)
    >>> [(layer.name, layer.backward_seconds, layer.output_bytes) for layer in chain.layers], chain.input_bytes
    ([('node2: Linear(2, 2)', 0.002, 0.0)], 8.0)
    """
    source = Source(text, name)
    numbers: dict[str, int] = {}
    nodes: list[ProfileNode] = []
    lines_of_edges: list[tuple[int, str]] = []
    for position, line in _lines(source):
        if line[0] in " \t":
            lines_of_edges.append((position, line))
            continue
        node = _node(source, position, line)
        if node.name in numbers:
            raise ParseError(f"{node.name} is there twice", source.location(position), "give nodes names of their own")
        numbers[node.name] = len(nodes)
        nodes.append(node)
    if not nodes:
        raise ParseError("a profile without nodes", source.location(0), "expected 'node1 -- description -- ...'")
    edges = tuple(_edge(source, position, line, numbers) for position, line in lines_of_edges)
    if len(_topological(len(nodes), edges)) < len(nodes):
        cyclic = _in_cycles(len(nodes), edges)
        position = next(p for (p, _), edge in zip(lines_of_edges, edges, strict=True) if cyclic.issuperset(edge))
        raise ParseError("the edges go round in a cycle", source.location(position), "layers read earlier ones only")
    return Profile(tuple(nodes), edges)


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their positions."""
    position, count = 0, 0
    while position < len(source.text):
        end = source.text.find("\n", position)
        end = len(source.text) if end < 0 else end
        line = source.text[position:end]
        if line.strip():
            count += 1
            if count > MOST_LINES:
                raise ParseError(f"a profile of more than {MOST_LINES} lines", source.location(position))
            yield position, line.rstrip()
        position = end + 1


def _node(source: Source, position: int, line: str) -> ProfileNode:
    start, split = line.find(" -- "), line.rfind(_METADATA)
    if start <= 0 or split < start:
        raise ParseError(
            "this is not a node",
            source.location(position),
            "expected 'node1 -- description -- forward_compute_time=1.0, backward_compute_time=2.0, "
            "activation_size=8.0, parameter_size=4.0'",
        )
    description = line[start + 4 : split] if split > start else ""
    metadata, offset = line[split + 4 :], position + split + 4
    metadata = metadata.partition(" -- ")[0]  # what may follow is the stage that PipeDream chose
    parts = metadata.split(", ")
    values = []
    for expected, part in zip(_FIELDS, parts, strict=False):
        key, _, value = part.partition("=")
        if key != expected:
            raise ParseError(f"expected {expected}=", source.location(offset))
        values.append(_size(source, offset + len(key) + 1, value))
        offset += len(part) + 2
    if len(parts) != len(_FIELDS):
        at = min(offset, position + len(line))
        raise ParseError(f"{len(parts)} fields", source.location(at), f"expected {', '.join(_FIELDS)}")
    return ProfileNode(line[:start], description, *values)


def _size(source: Source, position: int, text: str) -> float:
    """A number that is not negative, or the sum of a list of them: `[8.0; 4.0]`."""
    if not text.startswith("["):
        return _number(source, position, text)
    if not text.endswith("]"):
        raise ParseError("a list without its end", source.location(position), "expected '[8.0; 4.0]'")
    total, position = 0.0, position + 1
    for item in text[1:-1].split("; "):
        total += _number(source, position, item)
        position += len(item) + 2
    return total


def _number(source: Source, position: int, text: str) -> float:
    value = float(text) if _NUMBER.match(text) else math.inf
    if not math.isfinite(value):
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise ParseError(f"'{shown}' is neither a time nor a size", source.location(position), "write a number")
    return value


def _edge(source: Source, position: int, line: str, numbers: dict[str, int]) -> tuple[int, int]:
    stripped = line.lstrip()
    position += len(line) - len(stripped)
    producer, arrow, consumer = stripped.partition(" -- ")
    if not arrow:
        raise ParseError("this is not an edge", source.location(position), "expected 'node1 -- node2'")
    for name, offset in ((producer, 0), (consumer, len(producer) + 4)):
        if name not in numbers:
            shown = name if len(name) <= 40 else f"{name[:40]}..."
            raise ParseError(f"no instruction is called '{shown}'", source.location(position + offset))
    return numbers[producer], numbers[consumer]


def _topological(count: int, edges: tuple[tuple[int, int], ...]) -> list[int]:
    """The nodes after all that they read, in the profile's order where there is a choice; none that is in a cycle."""
    consumers: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for producer, consumer in edges:
        consumers[producer].append(consumer)
        missing[consumer] += 1
    ready = [number for number in range(count) if not missing[number]]
    ranked = []
    while ready:
        number = heapq.heappop(ready)
        ranked.append(number)
        for consumer in consumers[number]:
            missing[consumer] -= 1
            if not missing[consumer]:
                heapq.heappush(ready, consumer)
    return ranked


def _in_cycles(count: int, edges: tuple[tuple[int, int], ...]) -> set[int]:
    """Nodes that are in a cycle, or between two."""
    behind = set(range(count)) - set(_topological(count, edges))
    within = tuple((consumer, producer) for producer, consumer in edges if producer in behind and consumer in behind)
    return behind - set(_topological(count, within))


def _layer(node: ProfileNode, output_bytes: float, optimizer_slots: int) -> LayerCost:
    backward = node.backward_milliseconds * MILLISECOND
    return LayerCost(
        f"{node.name}: {node.description}",
        node.forward_milliseconds * MILLISECOND,
        backward,
        node.activation_bytes,
        output_bytes,
        node.parameter_bytes,
        optimizer_slots * node.parameter_bytes,
        WEIGHT_SHARE * backward if node.parameter_bytes else 0.0,
    )
