"""Pipelines as a command line says them: `simplify,cse`, `fixpoint(fold,cse),my_rules.json`, `microbatch(n=4)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from hloom.api.apply import load_packages
from hloom.cli.languages import dialect_ops
from hloom.ir import Op
from hloom.passes import PASSES, Pass, fixpoint, read_options, rules_pass
from hloom.rewrite import Rule, RuleError, load_rules
from hloom.text import Cursor, HloomError, ParseError, Source

FIXPOINT = "fixpoint"
"""`fixpoint(a,b)` runs a and b again and again until neither changes anything."""
RULE_FILE = ".json"
"""How the name of a file of rules ends."""

_NAME = re.compile(r"[^\s,()]+")
_DEEPEST = 20
"""How deep fixpoints may nest: reading is recursive, and nobody writes more than two."""


class PipelineReader:
    """Reads pipelines of the passes that can be named; options go to the passes that take them.

    `rows` gives the ops of dialects, which files of rules may name: it is called where there is such a file.
    """

    def __init__(
        self, known: Mapping[str, Pass], rows: Callable[[], Mapping[str, Op]], options: Mapping[str, Any]
    ) -> None:
        self.known = known
        self.rows = rows
        self.options = options
        self.taken: set[str] = set()

    def read(self, text: str) -> list[Pass]:
        """The passes of a text; raises ParseError with its place, and RuleError for a file of rules that is wrong."""
        cursor = Cursor(Source(text, "-p"))
        passes = self._list(cursor, 0)
        if cursor.peek():
            raise cursor.error(f"expected ',' or the end, found {cursor.next_token()}")
        return passes

    def _list(self, cursor: Cursor, depth: int) -> list[Pass]:
        passes = [self._one(cursor, depth)]
        while cursor.accept(","):
            passes.append(self._one(cursor, depth))
        return passes

    def _one(self, cursor: Cursor, depth: int) -> Pass:
        start = cursor.skip()
        name = cursor.read(_NAME, "a pass")[0]
        if not cursor.at("("):
            return self._configured(self._named(name, start, cursor))
        if name != FIXPOINT:
            return self._with_options(self._configured(self._named(name, start, cursor)), start, cursor)
        if depth == _DEEPEST:
            raise cursor.error(f"more than {_DEEPEST} fixpoints, one in another", start)
        cursor.expect("(")
        parts = self._list(cursor, depth + 1)
        if not cursor.accept(")"):
            raise cursor.error(f"expected ',' or ')', found {cursor.next_token()}")
        return fixpoint(cursor.text[start : cursor.position], parts)

    def _with_options(self, named: Pass, start: int, cursor: Cursor) -> Pass:
        if not named.options:
            raise cursor.error(f"'{named.name}' takes no passes and no options, {FIXPOINT} takes passes", start)
        return read_options(named, cursor)

    def load_dialects(self) -> None:
        """Let passes of dialects and of other packages be named: they register when these are imported."""
        load_packages()
        self.rows()
        self.known = PASSES | dict(self.known)

    def _named(self, name: str, start: int, cursor: Cursor) -> Pass:
        if name not in self.known and not name.endswith(RULE_FILE):
            self.load_dialects()
        if name in self.known:
            return self.known[name]
        if name.endswith(RULE_FILE):
            return rules_pass(Path(name).stem, self._rules(name), f"the rules of {name}")
        raise self._unknown(name, start, cursor)

    def _rules(self, name: str) -> list[Rule]:
        try:
            return load_rules(Path(name), self.rows())
        except RuleError as error:
            if name in error.message:
                raise
            raise RuleError(f"{name}: {error.message}", error.location, error.hint) from None

    def _unknown(self, name: str, start: int, cursor: Cursor) -> ParseError:
        if name == FIXPOINT:
            hint = f"{FIXPOINT} takes passes: {FIXPOINT}(simplify,cse)"
        else:
            near = get_close_matches(name, self.known, 3)
            hint = f"near: {', '.join(near)}" if near else "hloom opt --list lists the passes"
        return cursor.error(f"there is no pass named '{name}'", start, hint)

    def _configured(self, named: Pass) -> Pass:
        given = {name: value for name, value in self.options.items() if name in named.options}
        self.taken.update(given)
        return named.with_options(**given)


def pipeline_reader(load: Sequence[Path], options: Mapping[str, Any]) -> PipelineReader:
    """What reads pipelines, of the passes of Python files too, which are executed; options go to their takers."""
    known: dict[str, Pass] = {}
    for path in load:
        from hloom.cli.user_passes import load_passes

        for name, loaded in load_passes(path).items():
            if known.setdefault(name, loaded) is not loaded:
                raise HloomError(f"{path}: there is a pass named '{name}' already")
    return PipelineReader(PASSES | known, dialect_ops, options)


def named_passes(reader: PipelineReader, text: str) -> list[Pass]:
    """The passes of a text; raises UsageError where it does not read."""
    try:
        return reader.read(text)
    except ParseError as error:
        raise click.UsageError(str(error)) from None
