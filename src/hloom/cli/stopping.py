"""Where a native rule gave a node up that it says nothing about: the line of its function that decided."""

from __future__ import annotations

import linecache
import sys
from types import CodeType, FrameType
from typing import Any

from hloom.cli.account import short_place
from hloom.ir import Apply, Node
from hloom.rewrite import Builder, Origin, Rule
from hloom.text import HloomError

_RETURNS = ("return", "return None")


def stopped_at(rule: Rule, node: Node) -> str:
    """The place and the line after which a native rule gave up at a node; empty where that cannot be seen."""
    if not rule.native or not isinstance(node, Apply):
        return ""
    code = getattr(rule.function, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    lines = _lines_run(rule, node, code)
    while lines and _source(code, lines[-1]) in _RETURNS:
        lines.pop()
    if not lines:
        return ""
    return f"{short_place(Origin(code.co_filename, lines[-1]))}: {_source(code, lines[-1])}"


def _lines_run(rule: Rule, node: Apply, code: CodeType) -> list[int]:
    """The lines of the rule's own function that ran, in order."""
    lines: list[int] = []

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
        return watch

    build, before = Builder(node, rule.rows), sys.gettrace()
    sys.settrace(watch)
    try:
        rule.function(build, node)
    except HloomError:
        return lines
    finally:
        sys.settrace(before)
        build.discard()
    return lines


def _source(code: CodeType, line: int) -> str:
    return linecache.getline(code.co_filename, line).strip()
