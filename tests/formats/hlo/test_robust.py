"""Whatever the text, reading ends soon, and ends well or with an error that points into the text."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.growing import GROWING, HEADER, chain
from hloom.formats.hlo import parse, print_module
from hloom.ir import Module
from hloom.text import HloomError, HloomWarning, ParseError
from tests.corpus import handwritten, lowered
from tests.formats.hlo.mutations import CHANGES, LARGEST, WORDS, cut, mutated
from tests.formats.hlo.test_round_trip import careful_way_only, difference, written_names
from tests.helpers.properties import examples
from tests.helpers.work import calls, growth

TEXTS = tuple(
    text
    for text in (*handwritten().values(), *list(lowered("after").values())[::8], *list(lowered("before").values())[::8])
    if 0 < len(text) < LARGEST
)


def read(text: str, strict: bool = False) -> Module | ParseError:
    """The module, or the one kind of error there may be, after a look at its place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        try:
            return parse(text, strict=strict)
        except ParseError as problem:
            error = problem
    assert error.location is not None and error.message
    lines = text.replace("\r\n", "\n").split("\n")
    assert 1 <= error.location.line <= len(lines)
    assert 1 <= error.location.column <= len(lines[error.location.line - 1]) + 1
    assert str(error).startswith(f"<text>:{error.location.line}:{error.location.column}: ")
    return error


def most_calls(text: str) -> int:
    return CALLS_A_CHARACTER * (len(text) + LEAST_CHARACTERS)


MUTATED = examples(75)
CALLS_A_CHARACTER, LEAST_CHARACTERS = 5, 2000
"""What reading takes at most, for any text; even the shortest text takes what this many characters do."""


@MUTATED
@given(mutated(TEXTS))
def test_a_damaged_text_reads_or_says_where_it_is_damaged(text: str):
    answers: list[Module | ParseError] = []
    assert calls(lambda: answers.append(read(text))) < most_calls(text)
    for module in answers:
        if isinstance(module, Module):
            read(print_module(module))


@MUTATED
@given(mutated(TEXTS), st.booleans())
def test_a_damaged_text_in_strict_mode(text: str, on_one_line: bool):
    read(text.replace("\n", " ") if on_one_line else text, strict=True)


@MUTATED
@given(mutated(TEXTS))
def test_the_fast_way_and_the_careful_way_agree_about_damaged_texts(text: str):
    fast = read(text)
    with careful_way_only():
        careful = read(text)
    if isinstance(careful, Module):
        assert isinstance(fast, Module), str(fast)
        assert difference(fast, careful) is None
        assert written_names(fast) == written_names(careful)
        assert fast.unresolved == careful.unresolved


@MUTATED
@given(st.sampled_from(TEXTS), st.data())
def test_a_text_that_breaks_off(text: str, data: st.DataObject):
    read(text[: data.draw(st.integers(0, len(text)))])


@MUTATED
@given(st.sampled_from(TEXTS), st.data())
def test_a_text_with_a_part_of_another_inside(text: str, data: st.DataObject):
    other = data.draw(st.sampled_from(TEXTS))
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(other)), st.integers(0, len(other)))))
    position = data.draw(st.integers(0, len(text)))
    read(text[:position] + other[start:end] + text[position:])


@MUTATED
@given(st.lists(st.sampled_from([*WORDS, "HloModule m\n", "ENTRY e {\n", " a = f32[] ", "add(", "constant(", "\n}"])))
def test_tokens_in_any_order(words: list[str]):
    read("".join(words))


@MUTATED
@given(st.text(max_size=200))
def test_any_characters(text: str):
    read(text)


@MUTATED
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes):
    read(data.decode("utf-8", "surrogateescape"))
    read("HloModule m\n\nENTRY e {\n  x = f32[] " + data.decode("latin-1") + "\n}\n")


def test_every_change_is_among_the_changes():
    assert cut not in CHANGES and len(CHANGES) == 7


# Nesting

DEEP = 20_000


def many(opening: str, middle: str = "", closing: str = "") -> str:
    return opening * DEEP + middle + closing * DEEP


NESTED = {
    "parentheses": HEADER + "  b = " + many("("),
    "braces": HEADER + "  b = " + many("{"),
    "brackets": HEADER + "  b = f32" + many("["),
    "tuple types": HEADER + f"  b = {many('(', 'f32[]', ')')} tuple(a)\n}}\n",
    "open tuple types": HEADER + f"  b = {many('(f32[], ')}",
    "buffer types": HEADER + f"  b = {many('b(', 'f32[]', ')')} parameter(1)\n}}\n",
    "operands": HEADER + f"  b = f32[] {many('negate(f32[] ', 'a', ')')}\n}}\n",
    "open operands": HEADER + f"  b = f32[] {many('negate(')}",
    "computations": HEADER + f"  b = f32[] {many('call(a), to_apply={ c = f32[] ', 'negate(a)', ' }')}\n}}\n",
    "branches": HEADER + f"  b = f32[] {many('conditional(a), branch_computations={{ c = f32[] ')}",
    "open metadata": HEADER + f"  b = f32[] negate(a), metadata={many('{')}",
    "shardings": HEADER + f"  b = f32[] negate(a), sharding={many('{', 'replicated', '}')}\n}}\n",
    "sharding metadata": HEADER + f"  b = f32[] negate(a), sharding={{replicated metadata={many('{')}",
    "literals": HEADER + f"  b = f32[2] constant({many('{', '1', '}')})\n}}\n",
    "tuple literals": HEADER + f"  b = (f32[], f32[]) constant({many('(', '1', ')')})\n}}\n",
    "deep tuple literals": HEADER + f"  b = {many('(', 'f32[]', ')')} constant({many('(', '1', ')')})\n}}\n",
    "typed literals": HEADER
    + f'  b = f32[] custom-call(), custom_call_target="f", literal={many("(", "s32[] 1", ")")}\n}}\n',
    "configuration": HEADER + f"  b = f32[] negate(a), backend_config={many('{')}",
    "frontend attributes": HEADER + f"  b = f32[] negate(a), frontend_attributes={{a={many('{')}",
    "unknown values": HEADER + f"  b = f32[] negate(a), speed={many('{(', '', '}')}\n}}\n",
    "replica groups": HEADER + f"  b = f32[] all-to-all(a), replica_groups={many('{', '', '}')}\n}}\n",
    "slices": HEADER + f"  b = f32[] slice(a), slice={many('{[', '', '}')}\n}}\n",
    "origins": HEADER + f"  b = f32[] negate(a), origin={many('{(')}",
    "header": f"HloModule m, entry_computation_layout={many('{(')}\n{HEADER}}}\n",
    "unknown header": f"HloModule m, colour={many('{(')}\n{HEADER}}}\n",
    "comments": HEADER + many("/* "),
    "comments inside comments": HEADER + many("/* ", "", "*/ ") + "\n}\n",
    "signatures": "HloModule m\n\nENTRY e " + many("(a: "),
    "computations without names": "HloModule m\n" + many("{"),
    "entries": many("ENTRY "),
    "modules": many("HloModule "),
    "strings": HEADER + "  b = f32[] custom-call(), custom_call_target=" + many('"'),
    "escapes": HEADER + '  b = f32[] custom-call(), custom_call_target="' + many("\\"),
    "windows": HEADER + f"  b = f32[] reduce-window(a, a), window={many('{size=', '', '}')}",
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", list(NESTED))
def test_deep_nesting_is_an_error(name: str, strict: bool):
    answers: list[Module | ParseError] = []
    assert calls(lambda: answers.append(read(NESTED[name], strict))) < most_calls(NESTED[name])
    assert isinstance(answers[0], ParseError)


NESTED_TEXT = {
    "metadata": HEADER + f"  b = f32[] negate(a), metadata={many('{', '', '}')}\n}}\n",
    "signature tuples": f"HloModule m\n\nENTRY e (a: {many('(', '', ')')}) -> f32[] {{\n  a = f32[] parameter(0)\n}}\n",
    "configuration": HEADER + f"  b = f32[] negate(a), backend_config={many('{', '', '}')}\n}}\n",
    "frontend attributes": HEADER + f"  b = f32[] negate(a), frontend_attributes={{a={many('{', '', '}')}}}\n}}\n",
    "unknown values": HEADER + f"  b = f32[] negate(a), speed={many('(', '', ')')}\n}}\n",
}


@pytest.mark.parametrize("name", list(NESTED_TEXT))
def test_nesting_inside_what_is_kept_as_text_is_no_nesting(name: str):
    module = read(NESTED_TEXT[name])
    assert isinstance(module, Module)
    assert isinstance(read(print_module(module)), Module)


def test_operands_nest_as_deep_as_anyone_writes_them():
    text = HEADER + f"  ROOT b = f32[] {'negate(f32[] ' * 5000}a{')' * 5000}\n}}\n"
    module = read(text)
    assert isinstance(module, Module) and len(module.entry.nodes) == 5001


# Growth

SIZE = 250
LINEAR = 1.1
"""Four times the text may take so many times four times the calls; growing with the square it would take 4 times."""
STRICT = ("one huge computation", "many small computations", "asynchronous pairs", "comments")
PRINTED = ("one huge computation", "many small computations", "a huge tuple", "a long constant")


def calls_to_read(text: str, strict: bool = False) -> int:
    assert isinstance(module := read(text, strict), Module), str(module)
    return calls(lambda: read(text, strict))


def calls_to_print(text: str) -> int:
    print_module(parse(text))  # patterns are compiled when they are first needed
    module = parse(text)
    return calls(lambda: print_module(module))


@pytest.mark.parametrize("name", list(GROWING))
def test_four_times_the_text_takes_four_times_the_calls(name: str):
    assert growth(lambda size: calls_to_read(GROWING[name](size)), SIZE) < LINEAR


@pytest.mark.parametrize("name", STRICT)
def test_strict_mode_grows_no_faster(name: str):
    beyond_what_metadata_remembers = 8 * SIZE
    assert growth(lambda size: calls_to_read(GROWING[name](size), True), beyond_what_metadata_remembers, 2) < LINEAR


@pytest.mark.parametrize("name", PRINTED)
def test_printing_grows_no_faster(name: str):
    assert growth(lambda size: calls_to_print(GROWING[name](size)), SIZE) < LINEAR


def test_a_module_of_five_megabytes_on_one_line():
    assert isinstance(read(chain(50_000, " ")), Module)


@pytest.mark.long
def test_a_module_of_fifty_megabytes_on_one_line():
    assert isinstance(read(chain(500_000, " ")), Module)


def test_errors_are_of_the_one_family():
    assert issubclass(ParseError, HloomError)
