"""The scope of every instruction: the path of groups, outermost first, that it belongs to in the user's program.

Frameworks record it in `op_name`. JAX writes the name stack (jax/_src/source_info_util.py: NameStack), with
transformations wrapped around the names; TensorFlow the path of the op; PyTorch/XLA the scope of the module. An
instruction without a name is placed where it is used, or where its operands come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from hloom.analysis.op_names import joined, op_name_of, parts
from hloom.ir import Constant, Graph, Module, Node, Parameter, TensorType, Trait

ScopePath = tuple[str, ...]
"""The groups that an instruction belongs to, outermost first."""

FORWARD, BACKWARD = "forward", "backward"
INPUTS, OUTPUTS = "inputs", "outputs"
NO_SCOPE = "(no scope)"
"""The group of instructions without a scope, their own or inherited."""
MOST_CHARACTERS = 4096
"""The maximum number of characters of an op_name to read."""
MOST_LEVELS = 32
"""The maximum depth of a scope; deeper nesting counts to the 32nd level."""
LARGEST_PART = 400
"""The maximum number of connected instructions without scope to name after a parameter that they read."""

_TRANSFORMATION = re.compile(
    r"^(p?jit|pmap|xla_pmap|jvp|transpose|vmap|shard_map|checkpoint|remat2?|rematted_computation|custom_jvp|custom_vjp)"
    r"\((.*)\)$",
    re.DOTALL,
)
_JIT = frozenset(("jit", "pjit", "pmap", "xla_pmap"))
_REMAT = frozenset(("rematted_computation", "remat", "remat2"))
_UNNAMED = re.compile(r"^(p?jit|xla_call|core_call|closed_call|checkpoint|custom_[jv][jv]p(_call.*)?)$")
"""Levels that JAX inserts for calls and that carry no name."""
_BRANCH = re.compile(r"^(branch_[0-9]+)_fun$")
_KEY = re.compile(r"\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|([^\]]*))\]|\.?([^.\[]+)")
"""A step of a pytree path, as jax.tree_util.keystr writes it: ['key'], [0], .attribute."""


@lru_cache(maxsize=1 << 16)
def scope_of_name(op_name: str) -> ScopePath:
    """The scope given by an op_name: without the operation, its last level, and without the outermost jit.

    >>> scope_of_name("jit(step)/transpose(jvp(layer_0))/mlp/dot_general")
    ('backward', 'layer_0', 'mlp')
    >>> scope_of_name("jit(step)/jvp()/while/body/closed_call/checkpoint/rematted_computation/mlp/tanh")
    ('forward', 'while', 'body', 'remat', 'mlp')
    >>> scope_of_name("jit(step)/jvp(vmap(jit(sort)))/iota"), scope_of_name("reduce_sum")
    (('forward', 'vmap', 'sort'), ())
    """
    names = parts(op_name[:MOST_CHARACTERS])
    levels: list[str] = []
    phase = ""
    for number, name in enumerate(names):
        transformations, inner = _unwrapped(name)
        inner_phase = _phase(transformations, number == 0 and name == "gradient_tape", phase)
        if inner_phase != phase:
            phase = inner_phase
            levels.append(phase)
        levels += [level for level in ("vmap", "shard_map") if level in transformations]
        if transformations & _REMAT:
            levels.append("remat")
        is_outermost = (number == 0 and transformations & _JIT) or (number == 1 and name == "jit(main)")
        if number < len(names) - 1 and not is_outermost and name != "gradient_tape":
            levels += _levels(inner)
    return tuple(levels[:MOST_LEVELS])


def _unwrapped(name: str) -> tuple[set[str], str]:
    """The transformations around a name, and the name."""
    transformations: set[str] = set()
    while match := _TRANSFORMATION.match(name):
        transformations.add(match[1])
        name = match[2]
    return transformations, name


def _phase(transformations: set[str], is_tape: bool, phase: str) -> str:
    if "transpose" in transformations or is_tape:
        return BACKWARD
    return FORWARD if "jvp" in transformations and not phase else phase


def _levels(inner: str) -> Iterator[str]:
    for level in inner.split("/"):
        branch = _BRANCH.match(level)
        if level in _REMAT:
            yield "remat"
        elif branch:
            yield branch[1]
        elif level and not _UNNAMED.match(level):
            yield level


@lru_cache(maxsize=1 << 14)
def pytree_path(name: str) -> ScopePath:
    """The keys of an argument's element, from JAX's name for its parameter.

    >>> pytree_path("state[0]['layers'][3].bias"), pytree_path("params['mlp/linear']['w']"), pytree_path("x")
    (('state', '0', 'layers', '3', 'bias'), ('params', 'mlp', 'linear', 'w'), ('x',))
    """
    if "[" not in name and "." not in name:
        return (name,) if name else ()
    steps = _KEY.findall(name[:MOST_CHARACTERS])
    keys = (key for step in steps for part in step if part for key in part.split("/") if key)
    return tuple(keys)[:MOST_LEVELS]


class ScopePaths:
    """The scope of every instruction of a module; made by `scopes`."""

    def __init__(self, by_node: dict[Node, ScopePath]) -> None:
        self._by_node = by_node

    def __getitem__(self, node: Node) -> ScopePath:
        """The scope of an instruction; raises KeyError for one added later."""
        return self._by_node[node]

    def __len__(self) -> int:
        return len(self._by_node)

    def text(self, node: Node) -> str:
        """The scope of an instruction, with slashes between the levels."""
        return "/".join(self._by_node[node])


def scopes(module: Module) -> ScopePaths:
    """Find the scope of every instruction of a module, in time linear in its size.

    - An instruction whose op_name gives a scope, by itself or after the call that leads to it, is in that scope:
      `scope_of_name`.
    - The entry's parameters are in `inputs` followed by the path of their argument; the entry's result tuple in
      `outputs`.
    - An instruction without op_name is in the scope that its users share, else that of its operands.
    - An instruction whose op_name gives no scope is in `(no scope)`, followed by the path of a parameter that it or
      instructions connected with it read, if these are few. This groups an optimizer's update of a weight together.

    Instructions of a computation with several callers are in the scope that the callers share.
    """
    by_node: dict[Node, ScopePath] = {}
    contexts = _Contexts(module)
    for graph in contexts.order:
        _GraphScopes(graph, contexts.context(graph), module.is_entry(graph), by_node, contexts).find()
    return ScopePaths(by_node)


@dataclass(frozen=True, slots=True)
class _Context:
    """The prefix of op_names in a computation, and the name for instructions without one; empty for the entry."""

    function: str = ""
    default: str = ""


@dataclass(slots=True)
class _Contexts:
    """The callers of each computation with the names they give it; callers precede callees in `order`."""

    module: Module
    order: list[Graph] = field(init=False)
    _calls: dict[Graph, list[_Context]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        waiting = dict.fromkeys(self.module.graphs, 0)
        callees: dict[Graph, list[Graph]] = {}
        for graph in self.module.graphs:
            callees[graph] = [called for node in graph.nodes for called in node.called_graphs if called in waiting]
            for called in callees[graph]:
                waiting[called] += 1
        self.order = [graph for graph, count in waiting.items() if not count]
        for graph in self.order:
            for called in callees[graph]:
                waiting[called] -= 1
                if not waiting[called]:
                    self.order.append(called)
        self.order += [graph for graph, count in waiting.items() if count]  # they call each other in a cycle

    def context(self, graph: Graph) -> _Context:
        """The context that all callers share."""
        calls = self._calls.pop(graph, [])
        if len(calls) == 1:
            return calls[0]
        return _Context(_common_name(call.function for call in calls), _common_name(call.default for call in calls))

    def add_call(self, node: Node, name: str, context: _Context) -> None:
        """Record a call from an instruction with this full name, in a context.

        Names in a called function continue from the call; those in a loop's body or a reduction from where the loop's
        do.
        """
        for called, role in _called(node):
            if node.opcode in ("call", "async-start"):
                call = _Context(name or context.function, name or context.default)
            else:
                scope = name if role else name.rpartition("/")[0]
                default = f"{scope}/{role}" if scope and role else scope
                call = _Context(context.function, default or context.default)
            self._calls.setdefault(called, []).append(call)


def _called(node: Node) -> Iterator[tuple[Graph, str]]:
    """The computations that an instruction calls, and JAX's names for their roles."""
    for attribute, value in node.attributes.items():
        if isinstance(value, Graph):
            yield value, {"body": "body", "condition": "cond"}.get(attribute, "")
        elif isinstance(value, tuple):
            branches = (member for member in value if isinstance(member, Graph))
            yield from ((branch, f"branch_{number}") for number, branch in enumerate(branches))
    if isinstance(node, Constant):
        yield from ((called, "") for called in node.called_graphs)


def _common_name(names: Iterable[str]) -> str:
    """The common prefix of some names, plus their last level if they share it.

    >>> _common_name(["jit(f)/layer_0/jit(gelu)", "jit(f)/layer_1/jit(gelu)"])
    'jit(f)/jit(gelu)'
    """
    paths = sorted({parts(name[:MOST_CHARACTERS]) for name in names})
    if not paths:
        return ""
    common = _common((paths[0], paths[-1]))
    lasts = {path[-1:] for path in paths}
    if len(lasts) == 1 and len(common) < min(map(len, paths)):
        common += paths[0][-1:]
    return "/".join(common)


def _common(paths: Iterable[ScopePath]) -> ScopePath:
    """The levels that all paths begin with."""
    common: ScopePath | None = None
    for path in paths:
        if common is None or path is common:
            common = path
            continue
        length = 0
        for left, right in zip(common, path, strict=False):
            if left != right:
                break
            length += 1
        common = common[:length]
        if not common:
            return common
    return common or ()


@dataclass(slots=True)
class _GraphScopes:
    """Computes the scopes of one computation's instructions, in several passes."""

    graph: Graph
    context: _Context
    is_entry: bool
    by_node: dict[Node, ScopePath]
    contexts: _Contexts
    _silent: list[Node] = field(default_factory=list)
    _outside: list[Node] = field(default_factory=list)

    def find(self) -> None:
        """Add the scope of every instruction to `by_node`."""
        for node in (*self.graph.missing, *self.graph.nodes):
            self._read(node)
        self._silent = self._from_users(self._silent)
        self._name_connected()
        left = [node for node in (*self._silent, *self._outside) if node not in self.by_node]
        order = {node: number for number, node in enumerate((*self.graph.missing, *self.graph.nodes))}
        left = self._from_users(sorted(left, key=order.__getitem__))
        for node in left:
            operands = (self.by_node[operand] for operand in node.operands if operand in self.by_node)
            self.by_node[node] = _common(path for path in operands if path[0] != INPUTS) or (NO_SCOPE,)

    def _read(self, node: Node) -> None:
        """Set the scope that an instruction's op_name gives, or record that it gives none."""
        op_name = op_name_of(node)[:MOST_CHARACTERS]
        if isinstance(node, Parameter) and self.is_entry:
            self.by_node[node] = (INPUTS, *pytree_path(op_name)[:-1])
            return
        name = (
            joined(self.context.function, op_name) if op_name else self.context.default and f"{self.context.default}/."
        )
        if node.attributes.refers or isinstance(node, Constant):
            own = joined(self.context.function, op_name) if op_name else self.context.default
            self.contexts.add_call(node, own, self.context)
        scope = scope_of_name(name)
        if scope:
            self.by_node[node] = scope
        elif self.is_entry and node.is_output and node.opcode == "tuple":
            self.by_node[node] = (OUTPUTS,)
        elif op_name and not _is_shared(node):
            self._outside.append(node)
        else:
            self._silent.append(node)

    def _from_users(self, nodes: list[Node]) -> list[Node]:
        """Put instructions where their users are, last first; returns those whose users share no scope."""
        left: list[Node] = []
        for node in reversed(nodes):
            users = (self.by_node[user] for user in node.users if user in self.by_node)
            scope = _common(path for path in users if path[0] != OUTPUTS)
            if scope:
                self.by_node[node] = scope
            else:
                left.append(node)
        left.reverse()
        return left

    def _name_connected(self) -> None:
        """Put connected instructions without scope where a parameter they read is; scalars do not connect."""
        members = {node for node in (*self._silent, *self._outside) if not _is_shared(node)}
        entered: set[Node] = set()
        for first in members:
            if first in entered:
                continue
            entered.add(first)
            connected = [first]
            for node in connected:
                for other in (*node.operands, *node.users):
                    if other in members and other not in entered:
                        entered.add(other)
                        connected.append(other)
            scope = self._scope_of_connected(connected)
            self.by_node |= dict.fromkeys(connected, scope)

    def _scope_of_connected(self, connected: list[Node]) -> ScopePath:
        operands = {operand for node in connected for operand in node.operands if not _is_shared(operand)}
        parameters = {operand for operand in operands if isinstance(operand, Parameter)}
        if len(connected) > LARGEST_PART:
            return (NO_SCOPE,)
        if parameters and self.is_entry:
            first = min(parameters, key=lambda parameter: parameter.number)
            return (NO_SCOPE, *self.by_node[first][1:])
        return _common(self.by_node[operand] for operand in operands if operand in self.by_node) or (NO_SCOPE,)


def _is_shared(node: Node) -> bool:
    """Whether unrelated parts of a program may share a value: scalars and constants."""
    if isinstance(node, Constant) or node.has_trait(Trait.GENERATES) or node.opcode == "after-all":
        return True
    if isinstance(node.type, TensorType) and not node.type.dims:
        return True
    return node.opcode == "broadcast" and all(
        _is_scalar(operand) or operand.opcode == "constant" for operand in node.operands
    )


def _is_scalar(node: Node) -> bool:
    return isinstance(node.type, TensorType) and not node.type.dims
