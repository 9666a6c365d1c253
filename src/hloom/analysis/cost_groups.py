"""Grouping keys for costs: opcode, computation, scope, Python layer, source line; as levels, outermost first."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hloom.analysis.op_names import BY, OUTSIDE, UNKNOWN, layer, named_within, op_name_of, parts, source_of
from hloom.analysis.scopes import NO_SCOPE, ScopePath, ScopePaths, scopes
from hloom.ir import Graph, Module, Node, StackTables

STACK_SEPARATOR = " > "
"""The separator between the lines of a stack."""


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """One level of a group: its name, and the file and line it stands for, if any."""

    name: str
    file: str = ""
    line: int = 0


ScopeContext = tuple[Graph, ScopePath] | None


@dataclass(frozen=True, slots=True)
class CostGroups:
    """Assigns instructions to groups by their levels, of which `depth` count; None takes all.

    A computation called by several instructions belongs to the groups of each of them: `inside` gives the context that
    the levels of its instructions depend on.
    """

    what: str
    depth: int | None
    separator: str
    is_by_class: bool  # whether all instructions of one class in a graph are in one group
    levels_of: Callable[[Node, Any], tuple[GroupLevel, ...]]
    inside: Callable[[Node, Graph, Any], Hashable] = lambda call, called, context: None
    outside: Hashable = None

    def levels(self, node: Node, context: Hashable) -> tuple[GroupLevel, ...]:
        """The levels of an instruction that runs in this context."""
        return self.levels_of(node, context)[: self.depth]

    def name(self, node: Node, context: Hashable) -> str:
        """The group of an instruction that runs in this context, as text."""
        levels = self.levels(node, context)
        named = [
            level.name for level, inner in pairwise(levels) if level.line or not level.file or level.file != inner.file
        ]
        return self.separator.join([*named, levels[-1].name])  # a file without its line is not informative


def cost_groups(what: str, module: Module, depth: int | None) -> CostGroups:
    """The grouping with this name; raises ValueError for a name that is not one of BY.

    The levels of a scope are those of `scopes`; of a layer, the names from Python; of a source line, the stack that
    leads to it, outermost first, if the module has stacks and `depth` asks for levels, and file and line otherwise.
    """
    if what == "opcode":
        return CostGroups(what, None, "", True, lambda node, context: (GroupLevel(node.opcode),))
    if what == "computation":
        return CostGroups(what, None, "", True, lambda node, context: (GroupLevel(node.graph.name),))
    if what == "source":
        tables = module.stack_tables
        if depth is None:
            return CostGroups(what, None, "", False, lambda node, context: (_source_level(node, tables),))
        return CostGroups(what, depth, STACK_SEPARATOR, False, lambda node, context: source_levels(node, tables))
    if what == "scope":
        paths = _ContextScopes(module)
        return CostGroups(what, depth, "/", False, paths.levels, paths.inside)
    if what == "layer":
        return CostGroups(what, depth, "/", False, _layer_levels, _full_name, "")
    raise ValueError(f"costs cannot be added up by '{what}', only by {', '.join(BY)}")


def source_levels(node: Node, tables: StackTables | None) -> tuple[GroupLevel, ...]:
    """The stack of source lines if the module has one, else the file and the line."""
    source = source_of(node, tables)
    if source == UNKNOWN:
        return (GroupLevel(UNKNOWN),)
    metadata = node.metadata
    if tables is not None and metadata is not None and metadata.stack_frame_id and not metadata.source_file:
        frames = reversed(tables.trace(metadata.stack_frame_id))
        named = [(f"{frame.function} ({frame.file}:{frame.line})", frame.file, frame.line) for frame in frames]
        return tuple(GroupLevel(*level) for level in named)
    level = _source_level(node, tables)
    return GroupLevel(level.file, level.file), level


def _source_level(node: Node, tables: StackTables | None) -> GroupLevel:
    source = source_of(node, tables)
    file, colon, line = source.rpartition(":")
    return GroupLevel(source, file, int(line)) if colon and source != UNKNOWN else GroupLevel(source)


def _full_name(call: Node, called: Graph, outer: str) -> str:
    return named_within(outer, op_name_of(call))


def _layer_levels(node: Node, outer: str) -> tuple[GroupLevel, ...]:
    return tuple(map(GroupLevel, parts(layer(named_within(outer, op_name_of(node)))))) or (GroupLevel(OUTSIDE),)


@dataclass(slots=True)
class _ContextScopes:
    """Scopes of instructions in computations that run in several contexts.

    `scopes` gives an instruction of a shared computation one scope. When that computation runs for one of its callers,
    the part of this scope that all callers share is replaced by the scope of the call. A context is a shared
    computation and the scope of its call, or None if no enclosing computation is shared.
    """

    module: Module
    _levels: dict[ScopePath, tuple[GroupLevel, ...]] = field(default_factory=dict)
    _callers: dict[Graph, set[ScopePath]] = field(default_factory=dict)
    _paths: ScopePaths = field(init=False)

    def __post_init__(self) -> None:
        self._paths = scopes(self.module)

    def levels(self, node: Node, context: ScopeContext) -> tuple[GroupLevel, ...]:
        path = self.path(node, context)
        if path not in self._levels:
            self._levels[path] = tuple(map(GroupLevel, path)) or (GroupLevel(NO_SCOPE),)
        return self._levels[path]

    def path(self, node: Node, context: ScopeContext) -> ScopePath:
        """The scope of an instruction that runs in this context."""
        own = self._paths[node]
        if context is None:
            return own
        shared, scope = context
        if own[:1] == (NO_SCOPE,):
            return scope or own
        length = max((_common_length(own, path) for path in self._callers_of(shared)), default=0)
        return (*scope, *own[length:]) or own

    def inside(self, call: Node, called: Graph, context: ScopeContext) -> ScopeContext:
        """The context of a computation called by an instruction that itself runs in a context."""
        return context if called.is_called_once else (called, _known(self.path(call, context)))

    def _callers_of(self, graph: Graph) -> set[ScopePath]:
        if graph not in self._callers:
            self._callers[graph] = {_known(self._paths[caller]) for caller in graph.callers}
        return self._callers[graph]


def _known(path: ScopePath) -> ScopePath:
    return () if path[:1] == (NO_SCOPE,) else path


def _common_length(one: ScopePath, other: ScopePath) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length
