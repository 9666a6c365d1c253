"""What is read prints, what is printed reads, and XLA sees the same program in both."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import zip_longest
from unittest.mock import patch

import pytest
from hypothesis import given

from hloom.formats.hlo import PrintOptions, parse, print_module
from hloom.formats.hlo.computation_reader import ComputationReader
from hloom.ir import Module, difference
from hloom.ops import COMMON, OPS
from hloom.text import HloomError, HloomWarning
from tests.corpus import handwritten, lowered
from tests.formats.hlo.modules import modules
from tests.formats.hlo.xla import FOREIGN, canonical, full, without_elisions, xla
from tests.helpers.properties import examples, sample

REFUSED = {
    "quirk_element_bits_negative",
    "quirk_layout_dimension_out_of_range",
    "quirk_layout_dimension_twice",
    "quirk_layout_tile_unclosed",
    "quirk_shape_size_overflow",
}
"""Types that XLA accepts and that mean nothing: hloom refuses them."""

UNREADABLE = {
    f"fragments/{name}"
    for name in (
        *("cut_off_at_the_end", "cut_off_at_the_start", "ellipsis_line", "empty", "header_only", "log_prefixes"),
        *("markdown_fence", "only_a_comment", "two_modules", "users_before_definitions"),
    )
}
"""What is not an HLO any more; `test_reader` says why."""


LEFT_OUT = {
    "layout_parts": "XLA does not read back its own print of a tuple whose elements have #(u32) or *(u64)",
    "shape_written_is_believed": "XLA's printer reads the sixth element of a pair, and may die of it",
}
"""Texts that XLA accepts and cannot be asked about twice, and why."""


LOSSLESS = {
    "default": PrintOptions(),
    "without percent": PrintOptions(percent=False),
    "typed operands": PrintOptions(operand_types=True),
    "without signatures": PrintOptions(signatures=False),
}
"""Options that leave out nothing but what the text says twice."""

SHORTER = {
    "numbered names": PrintOptions(canonical_names=True),
    "without metadata": PrintOptions(metadata=False),
    "short": PrintOptions.short_parsable(),
    "without backend configuration": PrintOptions(backend_config=False),
    "without sharding": PrintOptions(sharding=False),
    "canonical": PrintOptions.canonical(),
}
"""Options that leave something out."""

LINES_INSIDE = ("origin_recovery_table", "are kept")
"""What marks the handwritten texts that have line ends inside a value."""

FOLDERS = ("handwritten", "before", "after")


def of_folder(folder: str, today: bool = False) -> dict[str, str]:
    """The texts that hloom reads, or those of them that XLA of today reads too."""
    if folder != "handwritten":
        return lowered(folder)
    return {
        name: text
        for name, text in handwritten().items()
        if name not in REFUSED | UNREADABLE and not (today and (name in LEFT_OUT or name.startswith(FOREIGN)))
    }


def some(texts: dict[str, str], options: str) -> dict[str, str]:
    """An eighth of the texts, for each of the options another one; half of them with the default options."""
    names = [*LOSSLESS, *SHORTER]
    return sample(texts, 2) if options == "default" else sample(texts, 8, names.index(options))


def problems(texts: dict[str, str], check: Callable[[str], None]) -> dict[str, str]:
    """What a check says against each text."""
    failures: dict[str, str] = {}
    for name, text in texts.items():
        try:
            check(text)
        except (AssertionError, HloomError) as problem:
            failures[name] = str(problem)[:300]
    return failures


@contextmanager
def careful_way_only() -> Iterator[None]:
    """Reading without the fast way through plain lines."""
    with patch.object(ComputationReader, "_read_lines", lambda self, cursor, window: None):
        yield


def written_names(module: Module) -> list[tuple[str, list[str]]]:
    return sorted((graph.name, [node.name for node in graph.nodes]) for graph in module)


@cache
def original(text: str) -> Module:
    """A text of the corpus as it is read, once for all tests: they only look at it."""
    return quietly(text)


def quietly(text: str) -> Module:
    """Read a text, its warnings left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        return parse(text)


def assert_same(left: Module, right: Module) -> None:
    """Two readings of one text agree in everything."""
    assert difference(left, right) is None
    assert written_names(left) == written_names(right)
    assert left.name == right.name
    assert left.unresolved == right.unresolved


def assert_equal(left: Module, right: Module) -> None:
    assert difference(left, right) is None, difference(left, right)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("options", LOSSLESS | SHORTER)
def test_what_is_printed_reads_back_as_the_same_and_prints_as_the_same(folder: str, options: str):
    shown = (LOSSLESS | SHORTER)[options]

    def check(text: str) -> None:
        module = original(text)
        printed = print_module(module, shown)
        again = quietly(printed)
        assert print_module(again, shown) == printed
        if options in LOSSLESS:
            assert_equal(module, again)
            assert written_names(module) == written_names(again)

    assert problems(some(of_folder(folder), options), check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_fast_way_and_the_careful_way_agree(folder: str):
    def check(text: str) -> None:
        fast = original(text)
        with careful_way_only():
            careful = quietly(text)
        assert_same(fast, careful)
        assert fast.notes == careful.notes

    assert problems(sample(of_folder(folder), 2, 1), check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_line_ends_do_not_matter(folder: str):
    def check(text: str) -> None:
        printed = print_module(original(text))
        module = quietly(printed)
        assert_same(module, quietly(printed.replace("\n", "\r\n")))
        if not any(word in printed for word in LINES_INSIDE):
            assert_equal(module, quietly(printed.replace("\n", " ")))

    assert problems(sample(of_folder(folder), 4), check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_xla_sees_the_same_program_in_what_is_printed(folder: str):
    def check(text: str) -> None:
        text = without_elisions(text)
        printed = print_module(original(text))
        if full(printed) != full(text):
            raise AssertionError(first_difference(full(printed), full(text)))

    assert problems(sample(of_folder(folder, today=True), 2, 1), check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("options", LOSSLESS)
def test_xla_has_one_canonical_form_for_every_print(folder: str, options: str):
    def check(text: str) -> None:
        text = without_elisions(text)
        printed = print_module(original(text), LOSSLESS[options])
        if canonical(printed) != canonical(text):
            raise AssertionError(first_difference(canonical(printed), canonical(text)))

    assert problems(some(of_folder(folder, today=True), options), check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("options", SHORTER)
def test_xla_reads_every_shorter_print(folder: str, options: str):
    def check(text: str) -> None:
        answer = xla(print_module(original(without_elisions(text)), SHORTER[options]))
        assert answer.verdict == "accepted", answer.message

    assert problems(some(of_folder(folder, today=True), options), check) == {}


def first_difference(left: str, right: str) -> str:
    """The first lines that differ, from a little before where they do."""
    for one, other in zip_longest(left.splitlines(), right.splitlines(), fillvalue="nothing"):
        if one != other:
            pairs = enumerate(zip(one, other, strict=False))
            position = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
            return (
                f"{one[max(0, position - 40) : position + 80]!r} and {other[max(0, position - 40) : position + 80]!r}"
            )
    return "nothing"


def test_numbered_names_hide_all_names():
    for text in list(lowered("before").values())[:40]:
        renamed = parse(text)
        for graph in list(renamed):
            renamed.rename_graph(graph, f"other.{graph.name}")
            for node in list(graph.nodes):
                graph.rename(node, f"other.{node.name}")
        options = PrintOptions.canonical()
        assert print_module(renamed, options) == print_module(parse(text), options)


GENERATED = examples(25)


@GENERATED
@given(modules())
def test_generated_modules_read_the_same_both_ways(text: str):
    fast = parse(text, strict=True)
    with careful_way_only():
        careful = parse(text)
    assert_same(fast, careful)
    assert_same(fast, parse(text))


@GENERATED
@given(modules())
def test_generated_modules_print_and_read_back(text: str):
    module = parse(text)
    for options in LOSSLESS.values():
        printed = print_module(module, options)
        assert difference(module, parse(printed, strict=True)) is None
    for options in SHORTER.values():
        printed = print_module(module, options)
        assert print_module(parse(printed, strict=True), options) == printed


@GENERATED
@given(modules())
def test_xla_sees_the_same_program_in_generated_modules(text: str):
    module = parse(text)
    printed = print_module(module)
    if ".anon" not in full(text):  # XLA makes names of operands unique in the order of the text
        assert full(printed) == full(text)
    assert canonical(print_module(module, PrintOptions(operand_types=True, percent=False))) == canonical(text)


# Every row of the op table

REDUCER = "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
RARE = {
    "all-gather-start": (
        "a = f32[4] parameter(0)",
        "b = (f32[4], f32[8]) all-gather-start(a), replica_groups={}, constrain_layout=true, dimensions={0}",
    ),
    "all-reduce-start": (
        "a = f32[4] parameter(0)",
        "b = f32[4] all-reduce-start(a), replica_groups={}, constrain_layout=true, to_apply=f",
    ),
    "custom-call": (
        "a = f32[4] parameter(0)",
        'b = f32[4] custom-call(a), batch_group_count=2, custom_call_target="f"',
    ),
}
"""Instructions with attributes that no text of the corpus gives."""


def rare(opcode: str) -> str:
    lines = "".join(f"  {line}\n" for line in RARE[opcode])
    return f"HloModule m\n\n{REDUCER}ENTRY e {{\n{lines}}}\n"


@pytest.mark.parametrize("opcode", RARE)
def test_rare_attributes(opcode: str):
    module = parse(rare(opcode), strict=True)
    assert_equal(module, parse(print_module(module), strict=True))
    assert full(print_module(module)) == full(rare(opcode))


def test_every_attribute_of_every_op_is_read_and_printed_by_some_text():
    texts = [text for folder in FOLDERS for text in of_folder(folder).values()] + list(map(rare, RARE))
    seen = {(node.opcode, name) for text in texts for node in original(text).nodes() for name in ("", *node.attributes)}
    rows = {(op.name, name) for op in OPS.values() for name in ("", *op.attributes) if name not in COMMON}
    assert rows - seen == set()
    assert set(COMMON) <= {name for _, name in seen}
