"""Strict mode refuses what XLA's parser refuses and accepts what it accepts, but for a list that says why.

Covers `strict_checks.py`, `implied_types.py`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from hloom.formats.hlo import parse, print_module
from hloom.text import HloomError, ParseError
from tests.corpus import aborts, handwritten, lowered, refused
from tests.formats.hlo.mutations import TOKEN, originals
from tests.formats.hlo.xla import FOREIGN, xla
from tests.helpers.properties import is_long

REFUSED_ALTHOUGH_XLA_ACCEPTS = {
    "quirk_element_bits_negative": "XLA keeps E(-1), which means nothing",
    "quirk_layout_dimension_out_of_range": "XLA checks only how many dimensions a layout names, and dies later",
    "quirk_layout_dimension_twice": "the same",
    "quirk_layout_tile_unclosed": "XLA reads T(8,128 to the closing brace",
    "quirk_shape_size_overflow": "XLA keeps arrays of more bytes than 63 bits count, and refuses them in tuples and protos",
}
"""Texts that XLA accepts and strict mode does not, and why."""


def modules() -> dict[str, str]:
    return {name: text for name, text in handwritten().items() if not name.startswith(FOREIGN)}


def problem_of(text: str) -> ParseError | None:
    """What strict mode says against a text."""
    try:
        parse(text, strict=True)
    except ParseError as problem:
        return problem
    return None


@pytest.mark.parametrize("folder", [refused, aborts])
def test_what_xla_refuses_or_dies_of_is_refused(folder: Callable[[], dict[str, str]]):
    problems = {name: problem_of(text) for name, text in folder().items()}
    assert [name for name, problem in problems.items() if problem is None or problem.location is None] == []


def test_what_xla_accepts_is_accepted_without_a_note():
    problems: dict[str, object] = {}
    for name, text in modules().items():
        if name not in REFUSED_ALTHOUGH_XLA_ACCEPTS:
            try:
                module = parse(text, strict=True)
                problems[name] = (module.notes, module.unresolved)
            except ParseError as problem:
                problems[name] = problem
    assert {name: problem for name, problem in problems.items() if problem != ([], [])} == {}


@pytest.mark.parametrize("name", list(REFUSED_ALTHOUGH_XLA_ACCEPTS))
def test_what_is_refused_although_xla_accepts(name: str):
    with pytest.raises(ParseError):
        parse(modules()[name], strict=True)


@pytest.mark.parametrize("stage", ["before", "after"])
def test_what_jax_lowers_is_accepted(stage: str):
    for text in lowered(stage).values():
        parse(text, strict=True)


HEADER = "HloModule m\n\nENTRY e {\n"


def agree(text: str) -> None:
    """Strict mode and XLA are of one mind about a text."""
    answer = xla(text)
    try:
        parse(text, strict=True)
    except ParseError as problem:
        assert answer.verdict != "accepted", f"XLA accepts, strict says: {problem}"
    else:
        assert answer.verdict == "accepted", f"strict accepts, XLA says: {answer.message}"


@pytest.mark.parametrize("word", ["nan", "true", "ENTRY", "ROOT", "HloModule", "f32", "token", "maximal", "x", "__x"])
@pytest.mark.parametrize("percent", ["", "%"])
@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\n\nENTRY e {{\n  {} = f32[] parameter(0)\n}}\n",
        "HloModule m\n\nENTRY {} {{\n  a = f32[] parameter(0)\n}}\n",
        "HloModule m\n\n{} {{\n  a = f32[] parameter(0)\n}}\n",
        "HloModule {}\n\nENTRY e {{\n  a = f32[] parameter(0)\n}}\n",
    ],
)
def test_reserved_words_as_names(text: str, percent: str, word: str):
    agree(text.format(percent + word))


@pytest.mark.parametrize("written", ["f32[?]", "f32[5]", "f32[<=5]", "f32[4]", "f32[<=4]", "f32[2,2]", "f32[]"])
@pytest.mark.parametrize("operand", ["f32[?]", "f32[4]", "f32[<=4]", "f32[<=2,2]"])
def test_how_many_elements_a_reshape_may_have(operand: str, written: str):
    agree(HEADER + f"  a = {operand} parameter(0)\n  ROOT b = {written} reshape(a)\n}}\n")


@pytest.mark.parametrize("index", [-1, 0, 1, 2])
@pytest.mark.parametrize("type_text", ["(f32[4], f32[2])", "f32[4]", "()"])
@pytest.mark.parametrize("written", ["", "f32[4] "])
def test_elements_that_a_tuple_has(written: str, type_text: str, index: int):
    agree(HEADER + f"  a = {type_text} parameter(0)\n  ROOT b = {written}get-tuple-element(a), index={index}\n}}\n")


@pytest.mark.parametrize(
    "constraints", ["{f32[2,2]{0,1}}", "{f32[2,2]}", "{f32[2]{0}}", "{f32[2,2]{1,0}, f32[2,2]{1,0}}", "{}"]
)
def test_layout_constraints_fit_the_operands(constraints: str):
    call = f'custom-call(a), custom_call_target="f", operand_layout_constraints={constraints}'
    agree(HEADER + f"  a = f32[2,2] parameter(0)\n  ROOT b = f32[2] {call}\n}}\n")


@pytest.mark.parametrize(
    "literal", ["s32[] 1", "s32[2] {1,2}", "s32[2]{0} {1,2}", "f32[2] {1.5,2}", "f32[2] {-1,2}", "pred[2] {true,false}"]
)
def test_braces_behind_a_type_are_its_layout_if_they_begin_with_an_integer(literal: str):
    agree(HEADER + f'  ROOT b = f32[2] custom-call(), custom_call_target="f", literal={literal}\n}}\n')


@pytest.mark.parametrize("reduction", ["", "max", "min"])
def test_ways_of_being_unreduced(reduction: str):
    sharding = f"{{mesh['x'=2], [{{}}], unreduced={reduction}{{'x'}}}}"
    agree(HEADER + f"  ROOT a = f32[4] parameter(0), sharding={sharding}\n}}\n")


SPACES = ["f32[4] {0}", "f32 [4]{0}", "f32[ 4 ]{ 0 }", "f32[4]/*c*/{0}", "(f32[4]{0} , f32[])", "f32[4]{0 : S ( 1 ) }"]


@pytest.mark.parametrize("type_text", SPACES)
def test_spaces_inside_types(type_text: str):
    agree(HEADER + f"  ROOT a = {type_text} parameter(0)\n}}\n")


# Texts with a token removed, added, replaced, doubled or exchanged

ACCIDENTS = (
    # XLA accepts, strict mode does not
    r"expected an operand, found",  # XLA parses operands twice and forgets what the first way says of stray commas
    r"expected a type, found",  # the same
    r"takes .* operands?.*, not",  # the same
    r"nothing before this is called|expected ',' or '\)' among the operands",  # the same, and 'x:' lexes as a name
    r"expected '=' after the name",  # 'x: = f32[] ...' lexes as a name
    r"layout \{.*\} is not a permutation",
    r"expected a non-negative integer",  # in layouts
    r"expected '[)}]', found",  # T(8,128}
    r"expected an integer, found '\d",  # 92column=0
    r"expected a number, found",  # ulps=}
    r"labels '.*' need",  # b0?, as if the last label were there
    r"places for \d+ devices",  # with subgroups XLA reads beyond the list of devices, and dies of some
    r"expected an? (string|element type|parameter's name and ':')|to open the computation",  # what XLA reads and throws away
    r"async-start must have a type",  # nothing between its parentheses
    # strict mode accepts, XLA does not
    r"OriginalArray|original_value|origin",  # kept as text
    r"sparsity|expects attribute name",  # kept as text
    r"was parsing 1:",  # inside the strings of an origin_recovery_table, kept as text
    r"cannot parse as an instruction name",  # %nan used as nan
    r"[Cc]hannel|text as a HloModule:\n+$",  # what a whole module must agree about: channels
)
"""What strict mode and XLA disagree about and will go on to, by what the one that refuses says."""

UNCHECKED = ("origin", "sparsity_config", "origin_recovery_table", "result_accuracy", "statistics")
"""Values whose insides are kept as text, or are checked less: their texts are not mutated."""


def mutations(seed: int, count: int) -> list[str]:
    """Texts with a change or two, the same ones every time."""
    choose = random.Random(seed)
    texts = [text for text in originals().values() if not any(word in text for word in UNCHECKED)]
    words = [word for text in texts[::4] for word in TOKEN.findall(text) if word.strip()]
    made: list[str] = []
    for _ in range(count):
        tokens = TOKEN.findall(choose.choice(texts))
        for _ in range(choose.choice((1, 1, 2))):
            position = choose.randrange(len(tokens))
            change = choose.randrange(4)
            if change == 0:
                tokens[position : position + 1] = []
            elif change == 1:
                tokens.insert(position, choose.choice(words))
            elif change == 2:
                tokens[position] = choose.choice(words)
            else:
                other = choose.randrange(len(tokens))
                tokens[position], tokens[other] = tokens[other], tokens[position]
        made.append("".join(tokens))
    return made


def disagreement(text: str) -> str | None:
    """What the one that refuses says, where the other accepts."""
    answer = xla(text)
    try:
        parse(text, strict=True)
    except HloomError as problem:
        return f"only strict refuses: {problem}" if answer.verdict == "accepted" else None
    return None if answer.verdict == "accepted" else f"only XLA refuses: {answer.message}\n{text}"


@pytest.mark.parametrize("seed", range(3))
def test_strict_mode_agrees_with_xla_about_texts_that_are_nearly_right(seed: int):
    problems = [problem for text in mutations(seed, 250 if is_long() else 80) if (problem := disagreement(text))]
    unexplained = [problem for problem in problems if not any(re.search(accident, problem) for accident in ACCIDENTS)]
    assert unexplained == []
    assert len(problems) < 12


OVERRULED = (
    "ROOT r = f32[9] outfeed(x, t)",
    "ROOT r = f32[9] send(x, t), channel_id=1",
    "s = f32[2] send(x, t), channel_id=1\n  ROOT r = f32[9] send-done(s), channel_id=1",
    "ROOT r = (f32[9]) recv(t), channel_id=1",
    "s = (f32[9]) recv(t), channel_id=1\n  ROOT r = f32[2] recv-done(s), channel_id=1",
    "ROOT r = (f32[9], s8[]) infeed(t)",
    "ROOT r = f32[9] after-all(t)",
    "ROOT r = f32[9] add-dependency(x, t)",
)
"""Instructions whose written type XLA does not believe: it takes another, also for the computation's signature."""


@pytest.mark.parametrize("line", OVERRULED)
def test_what_is_printed_of_types_that_xla_overrules_is_accepted_as_the_text_was(line: str):
    text = f"{HEADER}  x = f32[2] parameter(0)\n  t = token[] after-all()\n  {line}\n}}\n"
    printed = print_module(parse(text))
    assert xla(text).verdict == xla(printed).verdict == "accepted"
    assert print_module(parse(printed, strict=True)) == printed


@pytest.mark.parametrize("line", ["f32[4] reshape(t)", "(f32[4]) reshape(a)", "f32[2,2] reshape(a)", "f32[] reshape(u)"])
@pytest.mark.parametrize("operands", ["f32[4]", "s32[4]"])
def test_reshapes_of_what_is_no_array(line: str, operands: str):
    agree(f"{HEADER}  a = {operands} parameter(0)\n  t = ({operands}) tuple(a)\n  u = token[] after-all()\n  ROOT b = {line}\n}}\n")


@pytest.mark.parametrize(
    "line",
    [
        *("pred[] compare(t, t), direction=EQ", "pred[4] compare(a, a), direction=EQ"),
        *("f32[2] dynamic-slice(t, i), dynamic_slice_sizes={2}", "f32[2] dynamic-slice(a, t), dynamic_slice_sizes={2}"),
        *("f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}", "f32[4] dynamic-update-slice(t, a, i)"),
        *("f32[4] dynamic-update-slice(a, a, i)", "opaque[] copy(o)", "copy(o)"),
        *("copy(t)", "opaque[] copy(a)", "opt-barrier(a)", "f32[4] opt-barrier(a)", "(f32[4]) map(a), to_apply=f"),
        *("f32[4] map(a), to_apply=f", "token[] map(a), to_apply=f", "f32[] recv-done(n)"),
    ],
)
def test_operands_and_results_that_must_be_arrays(line: str):
    mapped = "f {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n\n"
    parameters = "  a = f32[4] parameter(0)\n  i = s32[] parameter(1)\n  o = opaque[] parameter(2)\n  n = () parameter(3)\n"
    agree(f"HloModule m\n\n{mapped}ENTRY e {{\n{parameters}  t = (f32[4]) tuple(a)\n  ROOT b = {line}\n}}\n")


LAYOUTS = (
    *("T(0)", "T(2,0)", "T(0,2)", "T(8,128)(2,0)", "T(8,128)(2,1)", "T()", "T(2)(*,2)", "#(u32)", "*(u32)", "L(1)", "E(4)"),
    *("S(5)", "SC(0:0)", "SC(0:1)", "SC(0:1,3)", "SC(0:2,1)", "SC(0:4)", "SC(2:1)", "SC(0:1)(0:2)", "SC(0:1)(1:1)", "M(8)"),
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["ROOT p = {} parameter(0)", "ROOT p = ({}) parameter(0)", "p = {} parameter(0)\n  ROOT t = tuple(p)"])
def test_layouts_are_checked_in_tuples_that_are_written(form: str, layout: str):
    agree(HEADER + "  " + form.format(f"f32[4,4]{{1,0:{layout}}}") + "\n}\n")


@pytest.mark.parametrize("statistics", ["{}", "{a=1,}", "{,}", "{a=inf}", "{a=-inf}", "{visualizing_index=0,a=nan}", "{visualizing_index=0,a=1,b=-2.5}"])
def test_statistics(statistics: str):
    agree(f"{HEADER}  a = f32[] parameter(0)\n  ROOT b = f32[] negate(a), statistics={statistics}\n}}\n")


TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


@pytest.mark.parametrize("left_out", [*range(16)])
def test_stack_tables_come_all_together(left_out: int):
    titles = "\n".join(title for position, title in enumerate(TABLES) if not left_out >> position & 1)
    agree(f"HloModule m\n\n{titles}\n\nENTRY e {{\n  ROOT a = f32[] parameter(0)\n}}\n")


@pytest.mark.parametrize("text", ["f32[] parameter(0)", "f32[] parameter(1)", "a = f32[] parameter(2)", "x = f32[] negate(f32[] a)"])
def test_bare_instructions(text: str):
    agree(text)


OPERANDS = ("f32[8]", "(f32[8])", "token[]", "opaque[]", "b(f32[8])", "()")


@pytest.mark.parametrize("type_text", OPERANDS)
@pytest.mark.parametrize(
    "line",
    ["dynamic-update-slice(a, b, i)", "dynamic-update-slice(a, a, b)", "dynamic-slice(a, b), dynamic_slice_sizes={8}"],
)
@pytest.mark.parametrize("operand", ["f32[8]", "b(f32[8])"])
def test_slices_of_arrays_and_buffers_whatever_the_update(operand: str, line: str, type_text: str):
    parameters = f"  a = {operand} parameter(0)\n  b = {type_text} parameter(1)\n  i = s32[] parameter(2)\n"
    agree(f"{HEADER}{parameters}  ROOT r = f32[8] {line}\n}}\n")


COPIED = HEADER + "  ROOT a = f32[8] parameter(0), sharding={devices=TILES last_tile_dim_replicate}\n}\n"


@pytest.mark.parametrize("tiles", ["[2,4]<=[8]", "[4,2]<=[2,4]T(1,0)", "[2,4]0,1,2,3,4,5,6,7", "[1,14]<=[8]"])
def test_tiles_with_copies_may_be_as_many_as_devices(tiles: str):
    agree(COPIED.replace("TILES", tiles))


@pytest.mark.parametrize(
    "tiles",
    ["[2,3]<=[8]", "[2,3]<=[2,4]T(1,0)", "[2,3]0,1,2,3,4,5,6,7", "[2,2]0,1,2,3,4,5,6"],
)
def test_other_numbers_of_tiles_with_copies_are_refused(tiles: str):
    """XLA is not asked: it reads beyond the list of devices, and takes what is there, or dies, at once or later."""
    with pytest.raises(ParseError, match=r"has \d+ places for \d devices"):
        parse(COPIED.replace("TILES", tiles), strict=True)
