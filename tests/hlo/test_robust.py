"""Whatever the text, reading ends soon, and ends well or with an error that points into the text."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hloom.hlo import parse, print_module
from hloom.ir import Module
from hloom.text import HloomError, HloomWarning, ParseError
from tests.corpus import handwritten, lowered
from tests.hlo.mutations import CHANGES, LARGEST, WORDS, cut, mutated
from tests.hlo.test_round_trip import careful_way_only, difference, written_names

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
    assert error.place is not None and error.message
    lines = text.replace("\r\n", "\n").split("\n")
    assert 1 <= error.place.line <= len(lines)
    assert 1 <= error.place.column <= len(lines[error.place.line - 1]) + 1
    assert str(error).startswith(f"<text>:{error.place.line}:{error.place.column}: ")
    return error


MUTATED = settings(
    max_examples=300,
    deadline=timedelta(seconds=4),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@MUTATED
@given(mutated(TEXTS))
def test_a_damaged_text_reads_or_says_where_it_is_damaged(text: str):
    found = read(text)
    if isinstance(found, Module):
        read(print_module(found))


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
    place = data.draw(st.integers(0, len(text)))
    read(text[:place] + other[start:end] + text[place:])


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
    assert cut not in CHANGES and len(CHANGES) == 5


# Nesting

DEEP = 100_000
HEADER = "HloModule m\n\nENTRY e {\n  a = f32[] parameter(0)\n"


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
def test_nesting_a_hundred_thousand_deep_is_an_error(name: str, strict: bool):
    started = time.perf_counter()
    assert isinstance(read(NESTED[name], strict), ParseError)
    assert time.perf_counter() - started < 5


NESTED_TEXT = {
    "metadata": HEADER + f"  b = f32[] negate(a), metadata={many('{', '', '}')}\n}}\n",
    "signature tuples": f"HloModule m\n\nENTRY e (a: {many('(', '', ')')}) -> f32[] {{\n  a = f32[] parameter(0)\n}}\n",
    "configuration": HEADER + f"  b = f32[] negate(a), backend_config={many('{', '', '}')}\n}}\n",
    "frontend attributes": HEADER + f"  b = f32[] negate(a), frontend_attributes={{a={many('{', '', '}')}}}\n}}\n",
    "unknown values": HEADER + f"  b = f32[] negate(a), speed={many('(', '', ')')}\n}}\n",
}


@pytest.mark.parametrize("name", list(NESTED_TEXT))
def test_nesting_inside_what_is_kept_as_text_is_no_nesting(name: str):
    found = read(NESTED_TEXT[name])
    assert isinstance(found, Module)
    assert isinstance(read(print_module(found)), Module)


def test_operands_nest_as_deep_as_anyone_writes_them():
    text = HEADER + f"  ROOT b = f32[] {'negate(f32[] ' * 5000}a{')' * 5000}\n}}\n"
    module = read(text)
    assert isinstance(module, Module) and len(module.entry.nodes) == 5001


# Speed


def chain(count: int, separator: str = "\n") -> str:
    """One computation of this many instructions, with metadata."""
    lines = ["HloModule m", "", "ENTRY e {", "  n0 = f32[8,16]{1,0} parameter(0)"]
    for number in range(1, count):
        operands = f"n{number - 1}, n{number // 2}"
        metadata = f'metadata={{op_type="add" op_name="jit(f)/add{number}"}}'
        lines.append(f"  n{number} = f32[8,16]{{1,0}} add({operands}), {metadata}")
    return separator.join([*lines, "}", ""])


def computations(count: int) -> str:
    body = "  a = f32[] parameter(0)\n  ROOT b = f32[] negate(a)\n"
    return "HloModule m\n\n" + "".join(f"part{number} (a: f32[]) -> f32[] {{\n{body}}}\n\n" for number in range(count))


def instructions(line: Callable[[int], str]) -> Callable[[int], str]:
    return lambda count: HEADER + "\n".join(f"  {line(number)}" for number in range(count)) + "\n}\n"


def fewer(line: Callable[[int], str]) -> Callable[[int], str]:
    """The same for what takes longer to read."""
    return lambda count: instructions(line)(count // 4)


def repeated(before: str, part: Callable[[int], str], after: str, separator: str = ", ") -> Callable[[int], str]:
    return lambda count: HEADER + before + separator.join(map(part, range(count))) + after + "\n}\n"


LINES, ESCAPED = ",\n", "\\\\"
GROWING: dict[str, Callable[[int], str]] = {
    "one huge computation": lambda count: chain(4 * count),
    "one huge computation on one line": lambda count: chain(count, " "),
    "many small computations": computations,
    "many small computations on one line": lambda count: computations(count // 2).replace("\n", " "),
    "many nested computations": instructions(
        lambda n: f"b{n} = f32[] call(a), to_apply={{\n    r = f32[] parameter(0)\n    }}"
    ),
    "a huge tuple": lambda count: (
        HEADER + f"  b = ({', '.join(['f32[]'] * 20 * count)}) tuple({', '.join(['a'] * 20 * count)})\n}}\n"
    ),
    "a huge tuple over lines": lambda count: (
        HEADER + f"  b = ({LINES.join(['f32[]'] * 5 * count)}) tuple({LINES.join(['a'] * 5 * count)})\n}}\n"
    ),
    "a long constant": lambda count: (
        HEADER + f"  b = f32[{50 * count}] constant({{{', '.join(str(n / 7) for n in range(50 * count))}}})\n}}\n"
    ),
    "unknown attributes": repeated("  b = f32[] negate(a)", lambda n: f", x{n}={{a=1}}", "", ""),
    "an unknown attribute each": instructions(lambda n: f"b{n} = f32[] negate(a), x{n}={{a=1}}"),
    "unknown opcodes": instructions(lambda n: f"b{n} = f32[] foo{n}(a)"),
    "missing names": repeated("  b = f32[] tuple(", lambda n: f"m{n}", ")"),
    "a missing name each": instructions(lambda n: f"b{n} = f32[] negate(m{n})"),
    "missing computations": instructions(lambda n: f"b{n} = f32[] call(a), to_apply=c{n}"),
    "nested operands side by side": repeated("  b = (f32[]) tuple(", lambda _: "f32[] negate(a)", ")"),
    "elements of tuples": lambda count: (
        "HloModule m\n\nENTRY e {\n  t = (f32[]) parameter(0)\n"
        + "\n".join(f"  b{n} = f32[] negate(t#0)" for n in range(count))
        + "\n}\n"
    ),
    "comments": instructions(lambda n: f"b{n} = f32[] /*c*/ negate(a) // foo"),
    "blank lines": instructions(lambda n: f"b{n} = f32[] negate(a)\n \n"),
    "continued lines": instructions(lambda n: f'b{n} = f32[] negate(a)\n  , metadata={{op_name="x"}}'),
    "asynchronous pairs": fewer(
        lambda n: (
            f'start{n} = ((f32[]), f32[], u32[]) custom-call-start(a), custom_call_target="f"\n'
            f"  done{n} = f32[] custom-call-done(start{n})"
        )
    ),
    "shardings in a tuple": repeated("  b = f32[] negate(a), sharding={", lambda _: "{replicated}", "}"),
    "devices": repeated("  b = f32[] negate(a), sharding={devices=[100000]", str, "}", ","),
    "replica groups": repeated("  b = f32[] all-to-all(a), replica_groups={", lambda n: f"{{{n}}}", "}"),
    "frontend attributes": repeated("  b = f32[] negate(a), frontend_attributes={", lambda n: f'k{n}="v"', "}", ","),
    "a long string": lambda count: HEADER + f'  b = f32[] negate(a), metadata={{op_name="{"x" * 100 * count}"}}\n}}\n',
    "a string of escapes": lambda count: (
        HEADER + f'  b = f32[] negate(a), metadata={{op_name="{ESCAPED * 50 * count}"}}\n}}\n'
    ),
    "parameters lost but for the signature": lambda count: (
        f"HloModule m\n\nENTRY e ({', '.join(f'p{n}: f32[]' for n in range(count))}) -> f32[] {{\n"
        + "\n".join(f"  b{n} = f32[] negate(p{n})" for n in range(count))
        + "\n}\n"
    ),
    "stack tables": lambda count: (
        "HloModule m\n\nFileNames\n" + "".join(f'{n} "f"\n' for n in range(count)) + computations(1)[12:]
    ),
    "aliases": lambda count: (
        "HloModule m, input_output_alias={ " + ", ".join(f"{{{n}}}: ({n}, {{0}})" for n in range(count)) + " }\n\n"
        "ENTRY e {\n  a = f32[] parameter(0)\n}\n"
    ),
}
SIZE = 1000


def seconds(text: str, strict: bool = False) -> float:
    """The shortest of three readings."""
    found = []
    for _ in range(3):
        started = time.process_time()
        module = read(text, strict)
        found.append(time.process_time() - started)
    assert isinstance(module, Module), str(module)
    return min(found)


@pytest.mark.parametrize("name", list(GROWING))
def test_four_times_the_text_takes_about_four_times_as_long(name: str):
    assert growth(seconds, name) < 9


def growth(duration: Callable[[str], float], name: str, size: int = SIZE) -> float:
    """How much longer four times the text takes; growing with the square would give 16. The best of a few tries."""
    small, large = GROWING[name](size), GROWING[name](4 * size)
    ratios = [99.0]
    while ratios[-1] >= 8 and len(ratios) < 5:
        ratios.append(duration(large) / max(duration(small), 0.002))
    return min(ratios)


@pytest.mark.parametrize("name", ["one huge computation", "many small computations", "asynchronous pairs", "comments"])
def test_strict_mode_grows_no_faster(name: str):
    beyond_what_metadata_remembers = 2 * SIZE
    assert growth(lambda text: seconds(text, True), name, beyond_what_metadata_remembers) < 9


@pytest.mark.parametrize("name", ["one huge computation", "many small computations", "a huge tuple", "a long constant"])
def test_printing_grows_no_faster(name: str):
    def printed(text: str) -> float:
        module = parse(text)
        found = []
        for _ in range(3):
            started = time.process_time()
            print_module(module)
            found.append(time.process_time() - started)
        return min(found)

    assert growth(printed, name) < 9


def megabytes_a_second(text: str) -> float:
    started = time.process_time()
    assert isinstance(read(text), Module)
    return len(text) / 1e6 / (time.process_time() - started)


def test_a_module_of_five_megabytes_on_one_line():
    assert megabytes_a_second(chain(50_000, " ")) > 1


@pytest.mark.long
def test_a_module_of_fifty_megabytes_on_one_line():
    assert megabytes_a_second(chain(500_000, " ")) > 1


def test_errors_are_of_the_one_family():
    assert issubclass(ParseError, HloomError)
