"""Types shared by the parts of the interpreter: call frames, how statements exit, how paths end."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hloom.functions.code import Code
from hloom.functions.values import Const, Scope, Variable
from hloom.text import Unsupported


class Completion(Enum):
    """How a function's body stopped running."""

    NORMAL = 0
    BREAK = 1
    CONTINUE = 2
    RETURN = 3


NORMAL, RETURN = Const(Completion.NORMAL), Const(Completion.RETURN)
BREAK, CONTINUE = Const(Completion.BREAK), Const(Completion.CONTINUE)


PYTHON_ERRORS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError, ImportError)
"""Exceptions that Python's functions raise for unsuitable values when called while compiling."""


class PathEnds(Exception):
    """Control flow does not go on from here: an error was raised, or an endless recursion is looked into."""


class Refusal(Unsupported):
    """What Python may mean by it, a graph cannot; points at the line."""


class RecursionMet(Exception):
    """A function calls itself with arguments of the types that it is being interpreted for."""

    def __init__(self, frame: CallFrame, broaden: bool) -> None:
        self.frame = frame
        self.broaden = broaden


@dataclass(eq=False)
class CallFrame:
    """One call that is being interpreted."""

    code: Code
    scope: Scope
    tag: Variable
    result: Variable
    part: ast.AST
    caller: CallFrame | None
    depth: int
    steps: int = 0
    arguments: Any = None
    is_shared: bool = False
    """Whether it is interpreted for a graph that several calls use."""
