"""What an op is stands in its row: how many lists of opcodes there are elsewhere.

A list is an assignment at the top of a module whose words are opcodes, two or more. One that starts from a trait, a flow
or a set that follows from them is none: its words are named exceptions. Nor are tables that say something of each opcode.
An inline list is one of three or more opcodes with which an opcode is compared where it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hloom import ops

SOURCE = Path(ops.__file__).parent.parent
OPCODES = {*ops.OPS, "constant", "parameter"}
DERIVED = {
    *("with_trait", "ASYNC_PARTS", "CALLERS", "CONTROL_FLOW", "EXTREMES", "INLINABLE", "OPS", "OWNERS", "PRODUCTS"),
    *("REDUCERS", "SAME_BYTES"),
    *("BROADCASTS", "DATA_MOVEMENT", "DOTS", "ELEMENTWISE", "EXPENSIVE", "MASKABLE", "MOVABLE", "POINTWISE", "SLICES"),
    "VIEWS",
}
"""Names of what a set can start from: those of `ops`, and sets of `analysis`, `autodiff` and `passes` that are made of
traits."""
NO_OPCODES = {"inspection/query/expression.py: KEYWORDS"}
"""Lists of words that look like opcodes: those of the language of queries."""
MOST_LISTS = 30
"""Of these, five are what the compiler for TPUs was seen to do."""
MOST_CITED = 7
"""How many more there may be that restate a list of XLA's, and name its file."""
MOST_INLINE = 12


@cache
def sources() -> dict[str, ast.Module]:
    """The files outside `ops`."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if not path.is_relative_to(SOURCE / "ops")]
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in paths}


def lists() -> Iterator[tuple[str, bool]]:
    """The lists outside `ops`, and whether each cites XLA's."""
    for file, tree in sources().items():
        body = tree.body
        for statement, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(statement, ast.Assign | ast.AnnAssign) and is_list(statement.value):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                text = following.value if isinstance(following, ast.Expr) else None
                cites = isinstance(text, ast.Constant) and "xla/" in str(text.value)
                name = f"{file}: {ast.unparse(target)}"
                if name not in NO_OPCODES:
                    yield name, cites


def inline_lists() -> Iterator[str]:
    """The comparisons outside `ops` of an opcode with three or more of them."""
    for file, tree in sources().items():
        for part in ast.walk(tree):
            if not isinstance(part, ast.Compare) or not isinstance(part.comparators[0], ast.Tuple | ast.Set | ast.List):
                continue
            members = [member.value for member in part.comparators[0].elts if isinstance(member, ast.Constant)]
            if sum(member in OPCODES for member in members) >= 3 and "opcode" in ast.unparse(part.left):
                yield f"{file}:{part.lineno}: {ast.unparse(part)}"


def is_list(value: ast.expr | None) -> bool:
    if value is None or isinstance(value, ast.Dict):
        return False
    parts = list(ast.walk(value))
    if DERIVED & {part.id for part in parts if isinstance(part, ast.Name)}:
        return False
    members = [member for part in parts if isinstance(part, ast.Set | ast.Tuple | ast.List) for member in part.elts]
    members += [part.value for part in parts if isinstance(part, ast.Attribute) and part.attr == "split"]
    texts = [part.value for part in (value, *members) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    words = [word for text in texts for word in text.split()]
    opcodes = [word for word in words if word in OPCODES]
    return len(opcodes) > 1 and len(opcodes) >= 0.7 * len(words)


def test_lists_of_opcodes_outside_ops_are_few():
    """Ask a trait or a flow of the op, or add a trait that three places need; then lower the bound."""
    uncited = [name for name, cites in lists() if not cites]
    assert len(uncited) <= MOST_LISTS, uncited


def test_inline_lists_of_opcodes_are_few():
    """Those that are left say what one file does with these opcodes, or follow XLA's code line by line."""
    assert len(inline := list(inline_lists())) <= MOST_INLINE, inline


def test_lists_that_restate_those_of_xla_are_few():
    assert len([name for name, cites in lists() if cites]) <= MOST_CITED
