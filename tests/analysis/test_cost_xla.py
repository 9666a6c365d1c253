"""Our counts beside XLA's own: every instruction of the corpus alone, and every module in total."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import cache
from zlib import crc32

import numpy as np
import pytest

from hloom.analysis import Cost, cost
from hloom.formats.hlo import parse
from hloom.ir import Apply, Module
from hloom.runtime import cost as ask_xla
from hloom.text import HloomError
from tests.analysis.alone import alone
from tests.corpus import handwritten, lowered
from tests.helpers.properties import is_long

FOREIGN = ("fragments/", "tensorflow_2020/", "year_2026/")
"""Folders of texts that this XLA need not read."""
MALFORMED = {
    "quirk_convolution_operand_scalar": "a convolution of scalars, whose spatial dimensions are not there",
}
NARROW_CONSTANTS = ("values.narrow_float_constants", "values.narrow_integer_constants")
"""Reading a text, XLA forgets that a constant's elements are packed (E(4)); its users then read twice the bytes."""
SHARE = 16
"""One in so many instructions of lowered programs is compared in `make test`, all in `make test-long`."""
TOTAL_TOLERANCE = 1e-4
"""XLA adds up in float32."""


@cache
def modules(source: str) -> list[tuple[str, str, Module]]:
    """The modules that hloom reads, with their names and texts; what reading refuses is the reader's matter."""
    texts = handwritten() if source == "handwritten" else lowered(source)
    read: list[tuple[str, str, Module]] = []
    for name, text in texts.items():
        if not name.startswith(FOREIGN) and name not in MALFORMED:
            with suppress(HloomError):
                read.append((name, text, parse(text)))
    return read


def some_modules(source: str) -> list[tuple[str, str, Module]]:
    """A third of the modules in `make test`."""
    return modules(source)[:: 1 if is_long() else 3]


@cache
def xla(text: str) -> Cost | str:
    """What XLA says, in its own float32, or why it says nothing."""
    try:
        analysis = ask_xla(text)
    except HloomError as error:
        return error.message
    return Cost(*(analysis.get(name, 0.0) for name in ("flops", "transcendentals", "bytes accessed")))  # type: ignore[arg-type]


def rounded(count: Cost) -> tuple[float, ...]:
    return tuple(float(np.float32(number)) for number in count.to_json().values())


@pytest.mark.parametrize("source", ["handwritten", "before", "after"])
def test_every_instruction_alone_is_counted_as_xla_counts_it(source: str):
    verdicts: Counter[str] = Counter()
    seen: set[str] = set()
    wrong: list[str] = []
    for name, _, module in modules(source):
        for node in (node for node in module.nodes() if isinstance(node, Apply)):
            text = alone(node)
            if text in seen or not (is_long() or crc32(text.encode()) % (2 if source == "handwritten" else SHARE) == 0):
                continue
            seen.add(text)
            theirs = xla(text)
            if isinstance(theirs, str):
                verdicts["XLA refuses it alone"] += 1
                continue
            verdicts["compared"] += 1
            ours = cost(parse(text)).total_once
            if rounded(ours) != rounded(theirs):
                wrong.append(f"{name}: {node!r}: {ours}, not {theirs}")
    assert not wrong, "\n".join(wrong)
    assert verdicts["compared"] > 150
    assert verdicts["XLA refuses it alone"] < 40


@pytest.mark.parametrize("source", ["handwritten", "before", "after"])
def test_totals_are_xlas_when_loops_count_once(source: str):
    compared = 0
    for name, text, module in some_modules(source):
        theirs = xla(text)
        if isinstance(theirs, str) or name in NARROW_CONSTANTS:
            continue
        compared += 1
        ours = cost(module).total_once
        for mine, other in zip(rounded(ours), rounded(theirs), strict=True):
            assert mine == pytest.approx(other, rel=TOTAL_TOLERANCE), f"{name}: {ours}, not {theirs}"
    assert compared > 50


@pytest.mark.parametrize("name", NARROW_CONSTANTS)
def test_packed_constants_are_counted_packed(name: str):
    text = lowered("after")[name]
    theirs = xla(text)
    assert isinstance(theirs, Cost)
    assert cost(parse(text)).total_once.bytes_accessed < theirs.bytes_accessed


def test_instructions_are_the_same_alone_and_in_their_module():
    for name, _, module in some_modules("after"):
        if not name.startswith(("models.", "control.")):
            continue
        for node_cost in cost(module).per_node:
            assert node_cost.once == cost(parse(alone(node_cost.node))).total_once


def test_loop_free_modules_cost_the_same_once_and_in_full():
    for name, _, module in some_modules("before"):
        report = cost(module)
        if not report.loops and not report.custom_calls:  # XLA counts -1 for a custom call
            assert report.total == report.total_once, name


def test_the_sum_over_instructions_is_the_total():
    for source in ("before", "after"):
        for name, _, module in some_modules(source):
            report = cost(module)
            total = sum((node_cost.total for node_cost in report.per_node), Cost())
            assert total == report.total, name


FUSED = """
inner {{
  x = f32[8,4] parameter(0)
  {inner}
}}
outer {{
  a = f32[8,4] parameter(0)
  i = s32[] parameter(1)
  {outer}
}}
ENTRY main {{
  a = f32[8,4] parameter(0)
  i = s32[] parameter(1)
  ROOT r = {result} fusion(a, i), kind=kLoop, calls=outer
}}
"""


@pytest.mark.parametrize(
    ("inner", "outer", "result"),
    [
        ("ROOT y = f32[8,4] negate(x)", "ROOT f = f32[8,4] fusion(a), kind=kLoop, calls=inner", "f32[8,4]"),
        (
            "ROOT y = f32[8,4] negate(x)",
            "f = f32[8,4] fusion(a), kind=kLoop, calls=inner\n  ROOT s = f32[2,4] slice(f), slice={[0:2], [0:4]}",
            "f32[2,4]",
        ),
        (
            "ROOT y = f32[8,4] negate(x)",
            "f = f32[8,4] fusion(a), kind=kLoop, calls=inner\n  z = s32[] constant(0)\n"
            "  ROOT s = f32[1,4] dynamic-slice(f, i, z), dynamic_slice_sizes={1,4}",
            "f32[1,4]",
        ),
        (
            "ROOT y = f32[8,4] negate(x)",
            "f = f32[8,4] fusion(a), kind=kLoop, calls=inner\n  z = s32[] constant(0)\n  o = f32[1,4] constant({...})\n"
            "  ROOT s = f32[8,4] dynamic-update-slice(f, o, i, z)",
            "f32[8,4]",
        ),
        (
            "n = f32[8,4] negate(x)\n  ROOT y = f32[8,4] add(n, x)",
            "f = f32[8,4] fusion(a), kind=kLoop, calls=inner\n  ROOT s = f32[2,4] slice(f), slice={[0:2], [0:4]}",
            "f32[2,4]",
        ),
        (
            "ROOT y = f32[8,4] negate(x)",
            "f = f32[8,4] fusion(a), kind=kLoop, calls=inner\n  g = f32[8,4] add(f, a)\n  h = f32[8,4] add(f, g)\n"
            "  b = f32[8,4,2] broadcast(a), dimensions={0,1}\n  ROOT s = (f32[8,4], f32[8,4,2]) tuple(h, b)",
            "(f32[8,4], f32[8,4,2])",
        ),
        (
            "ROOT y = f32[8,4] negate(x)",
            "z = s32[] constant(0)\n  w = f32[2,4] slice(a), slice={[0:2], [0:4]}\n"
            "  u = f32[8,4] dynamic-update-slice(a, w, i, z)\n  k = f32[3,4] constant({...})\n"
            "  ROOT s = (f32[8,4], f32[3,4], s32[]) tuple(u, k, i)",
            "(f32[8,4], f32[3,4], s32[])",
        ),
    ],
)
def test_bytes_of_fusions_are_xlas(inner: str, outer: str, result: str):
    text = FUSED.format(inner=inner, outer=outer, result=result)
    theirs = xla(text)
    assert isinstance(theirs, Cost), theirs
    assert rounded(cost(parse(text)).total_once) == rounded(theirs)


@pytest.mark.parametrize("opcode", ["gather", "scatter"])
def test_a_custom_fusion_around_a_gather_or_scatter_is_counted_as_one(opcode: str):
    made = {
        "gather": "ROOT g = f32[5,4] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,4}",
        "scatter": "u = f32[5,4] broadcast(z), dimensions={}\n  ROOT g = f32[8,4] scatter(a, i, u), "
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=sum",
    }
    result = {"gather": "f32[5,4]", "scatter": "f32[8,4]"}
    text = f"""
sum {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}}
fused {{
  a = f32[8,4] parameter(0)
  i = s32[5,1] parameter(1)
  z = f32[] constant(1)
  {made[opcode]}
}}
ENTRY main {{
  a = f32[8,4] parameter(0)
  i = s32[5,1] parameter(1)
  ROOT r = {result[opcode]} fusion(a, i), kind=kCustom, calls=fused
}}
"""
    theirs = xla(text)
    assert isinstance(theirs, Cost), theirs
    assert rounded(cost(parse(text)).total_once) == rounded(theirs)
