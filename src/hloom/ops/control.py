"""Tuples, calls, loops, branches, fusions, asynchronous pairs, and order."""

from hloom.ir import AttributeKind, optional, required
from hloom.ops.rows import (
    ALIASING,
    ANY,
    BOOLEAN,
    ENUM,
    GRAPH,
    GRAPHS,
    INTEGER,
    INTEGERS,
    STRING,
    TO_APPLY,
    row,
    table,
)

FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")

_THREAD = {"async_execution_thread": optional(STRING)}

ROWS = table(
    row("after-all", ANY, omits_type=True),
    row("tuple", ANY, omits_type=True),
    row("get-tuple-element", 1, {"index": required(INTEGER)}, omits_type=True),
    row("call", ANY, {**TO_APPLY, "is_composite": optional(BOOLEAN, False)}, omits_type=True),
    row("map", ANY, {"dimensions": optional(INTEGERS), **TO_APPLY}, omits_type=True),
    row("while", 1, {"condition": required(GRAPH), "body": required(GRAPH)}, omits_type=True),
    row(
        "conditional",
        (1, None),
        {
            "true_computation": optional(GRAPH),
            "false_computation": optional(GRAPH),
            "branch_computations": optional(GRAPHS),
        },
        omits_type=True,
    ),
    row("fusion", ANY, {"kind": required(ENUM, choices=FUSION_KINDS), **ALIASING, "calls": required(GRAPH)}),
    row("async-start", ANY, {**_THREAD, **ALIASING, "calls": required(GRAPH)}),
    row("async-update", (1, None), {**_THREAD, "calls": optional(GRAPH)}),
    row("async-done", 1, {**_THREAD, "calls": optional(GRAPH)}),
    row("domain", 1, {"domain": required(AttributeKind.DOMAIN)}, omits_type=True),
)
