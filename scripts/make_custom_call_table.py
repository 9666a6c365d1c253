"""Write docs/custom_calls.md: the custom calls whose cost is known, what is counted, and why others are not.

python scripts/make_custom_call_table.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hloom.analysis.rules.custom_calls import KINDS, CallKind

PAGE = Path(__file__).resolve().parent.parent / "docs" / "custom_calls.md"

HEAD = """# Custom calls

Which calls of libraries does hloom count, and how? An optimised module for a GPU does most of its arithmetic in custom
calls. XLA's `HloCostAnalysis` counts -1 for each. hloom looks up the target, reads the call's configuration, and takes
the rest from the types of operands and results. `scripts/make_custom_call_table.py` makes this page from the source,
and a test keeps it up to date.

- **FLOPs** are those of what is computed: a matrix product by cuBLAS counts as much as the `dot` it came from, and runs
  at the matrix rate of the types it multiplies in `hloom roofline`. Epilogues (bias, activation, beta) count too.
- **Bytes** are those of operands and results. The workspace that a library takes as the last element of its result is
  scratch: it is memory, but no traffic. A kernel's own estimate replaces them.
- **Configurations** are read in all their forms: `{"gemm_backend_config":{...}}`, the message alone in a quoted text,
  as XLA wrote until 2023, and the dictionaries of typed FFI calls, `{lower = true}`. A configuration that is missing,
  or does not fit the operands, leaves the call uncounted.
- **What is not counted** makes every total "at least": `cost`, `roofline`, `diff`, `passes` and the page name the
  targets and how many calls there are, and so does their JSON (`is_lower_bound`, `uncounted_kinds`). Such calls still
  count the bytes of their operands and results.
- **Fusions** of kind `kCustom` (`__triton_gemm`, `__triton_nested_gemm_fusion`, `__cudnn$fusion`) hold the computation
  that their kernel runs, which is counted as in any other fusion.

Patterns are regular expressions for whole targets, with `*` for any letters, digits and underscores.
"""
SECTIONS = (
    ("Counted", lambda row: row.runs_computation or (row.count is not None and not row.because.startswith("no "))),
    ("No arithmetic", lambda row: row.count is not None and row.because.startswith("no ")),
    ("Not counted", lambda row: row.count is None and not row.runs_computation),
)


def page() -> str:
    """The page as text."""
    parts = [HEAD]
    for title, belongs in SECTIONS:
        parts += [f"\n## {title}\n", *_table(filter(belongs, KINDS))]
    return "\n".join(parts) + "\n"


def _table(rows: Iterable[CallKind]) -> Iterator[str]:
    yield "| what it is | targets | what is counted, or why not |"
    yield "|---|---|---|"
    for row in rows:
        targets = ", ".join(f"`{_readable(pattern)}`" for pattern in row.targets)
        yield f"| {row.name} | {targets} | {row.because} |"


def _readable(pattern: str) -> str:
    return re.sub(r"\\w[*+]", "*", pattern).replace("\\", "").replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page())
