"""The syntax tree of a function, found through its source, with its scope: which names are local.

Python's own rules determine the scope of a name (`symtable`'s, as in the language reference, "Naming and binding").
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any

from hloom.functions.subset import check_subset
from hloom.text import HloomError, Location, escape

FunctionNode = ast.FunctionDef | ast.Lambda
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class Code:
    """A function's syntax tree; compared by identity, for each tree is made once."""

    node: FunctionNode
    filename: str
    name: str
    compiled: CodeType | None = None
    """The compiled code, unless it is a function inside another one."""

    @property
    def body(self) -> list[ast.stmt]:
        """The statements; a lambda's is a return."""
        if isinstance(self.node, ast.Lambda):
            return [self._returned]
        return self.node.body

    @cached_property
    def _returned(self) -> ast.Return:
        assert isinstance(self.node, ast.Lambda)
        return ast.copy_location(ast.Return(self.node.body), self.node.body)

    @cached_property
    def declared_nonlocal(self) -> frozenset[str]:
        """The names that `nonlocal` binds to an enclosing function."""
        return frozenset(name for part in own_parts(self.node) if isinstance(part, ast.Nonlocal) for name in part.names)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, `*args` and `**kwargs` included."""
        arguments = self.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
        return tuple(argument.arg for argument in every)

    @cached_property
    def local_names(self) -> frozenset[str]:
        """The names of the function's own variables."""
        return frozenset({*self.parameters, *stored_names(own_parts(self.node))} - self.declared_nonlocal)

    def metadata(self, part: ast.AST) -> str:
        """HLO metadata for code generated from a part of the tree: the function's name, the file and the line."""
        line = getattr(part, "lineno", self.node.lineno)
        return f'op_name="{escape(self.name)}" source_file="{escape(self.filename)}" source_line={line}'

    def location(self, part: ast.AST) -> Location:
        """Where a part of the tree stands, with its source line."""
        line = getattr(part, "lineno", self.node.lineno)
        column = getattr(part, "col_offset", 0)
        excerpt = linecache.getline(self.filename, line).rstrip("\n")
        column = len(excerpt.encode()[:column].decode(errors="replace"))
        return Location(self.filename, line, column + 1, excerpt, column)


def own_parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function that run in its own scope: not those of nested functions, whose defaults do."""
    pending: list[ast.AST]
    pending = [node.body] if isinstance(node, ast.Lambda) else list(getattr(node, "body", [node]))
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, SCOPES):
            arguments = getattr(part, "args", None)
            if arguments is not None:
                pending.extend(default for default in (*arguments.defaults, *arguments.kw_defaults) if default)
            pending.extend(getattr(part, "decorator_list", ()))
        elif isinstance(part, COMPREHENSIONS):
            pending.append(part.generators[0].iter)
            pending.extend(walrus for walrus in ast.walk(part) if isinstance(walrus, ast.NamedExpr))
        else:
            pending.extend(ast.iter_child_nodes(part))


def stored_names(parts: Iterator[ast.AST]) -> set[str]:
    """The names that these parts bind."""
    names: set[str] = set()
    for part in parts:
        if isinstance(part, ast.Name) and isinstance(part.ctx, (ast.Store, ast.Del)):
            names.add(part.id)
        elif isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            names.add(part.name)
        elif isinstance(part, ast.NamedExpr):
            names.add(part.target.id)
        elif isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
            names.add(part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest:
            names.add(part.rest)
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in part.names)
    return names


def code_of(function: Callable[..., Any]) -> Code:
    """The code of a Python function; raises HloomError if its source is not available or not in the subset."""
    if not isinstance(function, FunctionType):
        raise HloomError(f"{function!r} is not a function written in Python")
    return _code_of(function.__code__, function.__name__)


@lru_cache(maxsize=4096)
def _code_of(code: CodeType, name: str) -> Code:
    filename = code.co_filename
    for node in _functions_at(filename, code):
        check_subset(node, filename)
        return Code(node, filename, name, code)
    raise HloomError(
        f"the source of {name} cannot be read: {filename} has no such function at line {code.co_firstlineno}",
        hint="write the function in a file, or in a notebook cell",
    )


def _functions_at(filename: str, code: CodeType) -> Iterator[FunctionNode]:
    """The function in a file that compiles to this code."""
    tree = _tree_of(filename, "".join(linecache.getlines(filename)))
    if tree is None:
        yield from _dedented(code)
        return
    first = code.co_firstlineno
    if code.co_name == "<lambda>":
        spans = [span for span in code.co_positions() if None not in span and span[0] is not None]
        yield from _lambdas_at(tree, first, spans)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name == code.co_name:
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if start == first:
                yield node  # type: ignore[misc]  # an async function is refused by check_subset


def _lambdas_at(tree: ast.AST, line: int, spans: list[Any]) -> Iterator[ast.Lambda]:
    """The lambdas whose body contains the positions of the code's instructions."""
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
    if len(lambdas) == 1:
        yield lambdas[0]
        return
    bodies = {
        (node.body.lineno, node.body.col_offset, node.body.end_lineno, node.body.end_col_offset): node
        for node in lambdas
    }
    for first, last, column, last_column in spans[::-1]:
        node = bodies.get((first, column, last, last_column))
        if node is not None:
            yield node
            return
    inside = [
        node
        for node in lambdas
        if any((node.body.lineno, node.body.col_offset) <= (span[0], span[2]) for span in spans)
        and all(
            (node.lineno, node.col_offset) <= (span[0], span[2])
            and (span[1], span[3]) <= (node.end_lineno, node.end_col_offset)
            for span in spans
            if span[2] != span[3]
        )
    ]
    yield from sorted(inside, key=lambda node: -node.col_offset)


@lru_cache(maxsize=256)
def _tree_of(filename: str, text: str) -> ast.Module | None:
    if not text:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _dedented(code: CodeType) -> Iterator[FunctionNode]:
    """The function of a source that is only to be had in part, as `inspect` finds it."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    ast.increment_lineno(tree, first - 1)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            yield node


def compiled_code(outer: CodeType, code: Code) -> CodeType | None:
    """The compiled code of a function defined inside another one; None if it cannot be identified."""
    node = code.node
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    level = [outer]
    while level:
        level = [constant for parent in level for constant in parent.co_consts if isinstance(constant, CodeType)]
        for candidate in level:
            if (candidate.co_name, candidate.co_firstlineno) == (code.name, first) and _is_within(candidate, node):
                return candidate
    return None


def _is_within(code: CodeType, node: FunctionNode) -> bool:
    """Whether all instructions that have places come from a part of the tree."""
    if not isinstance(node, ast.Lambda):
        return True
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    spans = [span for span in code.co_positions() if None not in span and span[2] != span[3]]
    return bool(spans) and all(begin <= (span[0], span[2]) and (span[1], span[3]) <= end for span in spans)


@lru_cache(maxsize=16384)
def nested_code(node: FunctionNode, filename: str) -> Code:
    """The code of a function defined in another one."""
    return Code(node, filename, getattr(node, "name", "<lambda>"))
