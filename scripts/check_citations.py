"""Whether the XLA files and functions that docstrings name are in the installed jaxlib; run it when jaxlib changes.

    python scripts/check_citations.py

jaxlib's library keeps its symbol table, so the names of all functions that the compiler did not inline are there, and
the names of source files in messages and in the table. A citation of what is not linked for the CPU, or inlined, is
listed in UNLINKED with what it was checked against instead.
"""

from __future__ import annotations

import ast
import mmap
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hloom"

UNLINKED = {
    "PartitionBaseCase": "dot_handler.cc, early 2026",
    "PartitionDotRemovingOutputPartialReplication": "dot_handler.cc, early 2026",
    "PatternMatchMergeOrSplitSharding": "spmd_partitioner.cc, before 2026",
    "TryRemoveUnusedConditionalOperands": "conditional_simplifier.cc, before 2026",
    "RemoveUnusedOperandFromSort": "sort_simplifier.cc, 2024 and later",
    "MatchReduceScatter": "collective_opt_utils.cc, before 2026",
    "AllReduceSimplifier": "all_reduce_simplifier.cc, before 2026",
    "WhileLoopUnroller": "while_loop_unroller.cc, before 2026",
    "call_parameter_cleanup.cc": "openxla/xla, 2025",
    "all_reduce_simplifier.cc": "openxla/xla, before 2026",
    "collective_opt_utils.cc": "openxla/xla, before 2026",
    "cpu_float_support.cc": "openxla/xla; its class is linked",
    "while_loop_unroller.cc": "openxla/xla, before 2026",
    "priority_fusion.cc": "openxla/xla, early 2026",
    "ConditionalCodeMotion": "conditional_code_motion.cc, before 2026",
    "conditional_code_motion.cc": "openxla/xla, before 2026",
    "convert_mover.cc": "openxla/xla, early 2026",
    "MoveConvertPrecisionOps": "convert_mover.cc, early 2026",
    "dot_merger.cc": "openxla/xla, early 2026",
    "DotMerger": "dot_merger.cc, early 2026",
    "while_loop_concat_code_motion.cc": "openxla/xla, before 2026",
    "WhileLoopConcatCodeMotion": "while_loop_concat_code_motion.cc, before 2026",
    "SliceSinker": "slice_sinker.cc, before 2026",
    "all_reduce_reassociate.cc": "openxla/xla, 2026",
    "while_loop_all_reduce_code_motion.cc": "openxla/xla, 2026",
    "WhileLoopAllReduceCodeMotion": "while_loop_all_reduce_code_motion.cc, 2026",
    "dead_dynamic_update_slice_elimination.cc": "openxla/xla, 2026",
    "DeadDynamicUpdateSliceElimination": "dead_dynamic_update_slice_elimination.cc, 2026",
    "hlo_replication_analysis.cc": "openxla/xla, 2026",
    "while_loop_expensive_invariant_code_motion.cc": "openxla/xla, before 2026",
    "reduce_scatter_reassociate.cc": "openxla/xla, 2026",
    "ReduceScatterReassociate": "reduce_scatter_reassociate.cc, 2026",
    "all_reduce_reduce_scatter_reorder.cc": "openxla/xla, 2026",
    "AllReduceReduceScatterReorder": "all_reduce_reduce_scatter_reorder.cc, 2026",
    "all_gather_simplifier.cc": "openxla/xla, 2026",
    "AllGatherSimplifier": "all_gather_simplifier.cc, 2026",
    "slice_hoister.cc": "openxla/xla, 2026",
    "SliceHoister": "slice_hoister.cc, 2026",
    "all_reduce_folder.cc": "openxla/xla, 2026",
    "reduce_scatter_creator.cc": "openxla/xla, 2026",
    "all_gather_broadcast_reorder.cc": "openxla/xla, 2026",
    "AllReduceReassociate": "all_reduce_reassociate.cc, 2026",
    "AllReduceFolder": "all_reduce_folder.cc, 2026",
    "ReduceScatterCreator": "reduce_scatter_creator.cc, 2026",
    "AllGatherBroadcastReorder": "all_gather_broadcast_reorder.cc, 2026",
}
"""What is not in the CPU's library, and where it was seen instead."""
_FILE = re.compile(r"\b(?:xla/[\w/]+/)?(\w+\.cc)\b")
_FUNCTION = re.compile(r"\b((?:[A-Z][a-z0-9]+){2,}[A-Za-z0-9]*)\b")
_OWN_NAMES = {"HloomError", "TypeProblem"}


def cited() -> dict[str, str]:
    """The files and functions of XLA that docstrings name, and where each is named first."""
    names: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for line, paragraph in paragraphs(path):
            functions = set(_FUNCTION.findall(paragraph)) - _OWN_NAMES
            for name in [*_FILE.findall(paragraph), *functions]:
                names.setdefault(name, f"{path.relative_to(ROOT)}:{line}")
    return names


def paragraphs(path: Path) -> Iterator[tuple[int, str]]:
    """The paragraphs of docstrings that name a file of XLA, or say that they follow a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for paragraph in node.value.value.split("\n\n"):
                if re.search(r"\bxla/[\w/]+\.\w+|\bFollows `", paragraph):
                    yield node.lineno, paragraph


def encoded(name: str) -> bytes:
    """How the library writes a name: a function's follows its length, as C++ symbols are mangled."""
    return name.encode() if name.endswith(".cc") else f"{len(name)}{name}".encode()


def main() -> int:
    spec = find_spec("jaxlib")
    if spec is None or spec.origin is None:
        sys.exit("jaxlib is not installed")
    names = cited()
    with (Path(spec.origin).parent / "libjax_common.so").open("rb") as file:
        library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        linked = {name for name in names if library.find(encoded(name)) >= 0}
    absent = [name for name in names if name not in linked and name not in UNLINKED]
    for name in absent:
        print(f"{names[name]}: {name} is not in jaxlib")
    print(f"{len(names)} names, {len(linked)} of them linked, {len(absent)} not accounted for")
    return bool(absent)


if __name__ == "__main__":
    sys.exit(main())
