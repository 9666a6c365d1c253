"""Reading after a careful line: `computation_reader.py` and `header_reader.py` go on matching many lines at once.

What `line_memos.py` remembers is the same for all modules.
"""

from time import thread_time

import pytest

from hloom.formats.hlo import line_memos, parse, print_module
from hloom.formats.hlo.computation_reader import PLAIN_LINE, ComputationReader
from hloom.ir import Constant, equal
from hloom.text import HloomError, HloomWarning

LINES = "\n".join(f"  %a.{row} = f32[2]{{0}} add(%x, %x)" for row in range(50))
LONG_TYPE = f"(s32[], ({', '.join(['f32[32,8,64]{2,1,0}'] * 20)}))"


def _module(line: str) -> str:
    return f"HloModule m\n\nENTRY %e (x: f32[2]) -> f32[2] {{\n  %x = f32[2]{{0}} parameter(0)\n{line}\n{LINES}\n  ROOT %r = f32[2]{{0}} negate(%x)\n}}\n"


CAREFUL = {
    "two to a line": "  %p = f32[2]{0} negate(%x) %q = f32[2]{0} negate(%x)",
    "a line broken after a comma": "  %p = f32[2]{0} broadcast(%x),\n    dimensions={0}",
    "nested": "  %p = f32[2]{0} add(f32[2]{0} negate(%x), %x)",
}


@pytest.mark.parametrize("line", CAREFUL.values(), ids=CAREFUL)
def test_one_careful_line_does_not_make_those_behind_it_careful(line: str, monkeypatch: pytest.MonkeyPatch):
    careful: list[str] = []
    monkeypatch.setattr("hloom.formats.hlo.computation_reader.read_instruction", _counted(careful))
    assert parse(_module(line)).node_count >= 53
    assert len(careful) <= 2


def test_what_stands_behind_metadata_is_read_fast(monkeypatch: pytest.MonkeyPatch):
    """before: a careful line; after: the same attributes, at once."""
    careful: list[str] = []
    monkeypatch.setattr("hloom.formats.hlo.computation_reader.read_instruction", _counted(careful))
    line = '  %c = f32[2]{0} copy(%x), metadata={op_name="a{b}"}, backend_config={"outer_dimension_partitions":["4"]}'
    node = parse(_module(line)).entry["c"]
    assert node.attributes["backend_config"] == '{"outer_dimension_partitions":["4"]}'
    assert node.raw_metadata == 'op_name="a{b}"'
    assert not careful


def test_operands_with_long_types_are_read_fast(monkeypatch: pytest.MonkeyPatch):
    careful: list[str] = []
    monkeypatch.setattr("hloom.formats.hlo.computation_reader.read_instruction", _counted(careful))
    text = f"ENTRY %e {{\n  %t = {LONG_TYPE} parameter(0)\n  ROOT %g = s32[] get-tuple-element({LONG_TYPE} %t), index=0\n}}\n"
    assert str(parse(text).entry["g"].operands[0].type) == str(parse(text).entry["t"].type)
    assert not careful


@pytest.mark.parametrize(
    "value", ["{[0:4], [0:8:2]}", "{[0:4],[0:8:2]}", "{ [0:4], [0:8:2] }", "{[0 : 4], [0:8:2]}", "{[0:4], [0:8:2:1]}"]
)
def test_slices_in_every_spelling(value: str):
    text = f"ENTRY %e {{ %x = f32[4,8] parameter(0) ROOT %s = f32[4,4] slice(%x), slice={value} }}"
    if value.count(":") > 3:
        with pytest.raises(Exception, match="start:limit"):
            parse(text)
    else:
        assert print_module(parse(text)).count("slice={[0:4:1], [0:8:2]}") == 1


TABLES = """HloModule m

FileNames
1 "a.py"
{name}

FunctionNames
1 "f"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}}
{location}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
{frame}

ENTRY %e {{ ROOT %x = f32[2] parameter(0) }}
"""


def test_rows_of_the_stack_tables_in_other_spellings():
    """XLA's own spelling is matched at once; what differs from it is read field by field, with the same result."""
    plain = TABLES.format(
        name='2 "b.py"',
        location="2 {file_name_id=2 function_name_id=0 line=5 end_line=0 column=0 end_column=0}",
        frame="2 {file_location_id=2 parent_frame_id=2}",
    )
    other = TABLES.format(
        name='2 "\\142.py"', location="2 {line = 5, file_name_id=2}", frame="2 {parent_frame_id=2 file_location_id=2}"
    )
    first, second = parse(plain), parse(other)
    assert first.stack_tables == second.stack_tables
    assert first.stack_tables is not None
    assert [str(frame) for frame in first.stack_tables.trace(2)] == ["b.py:5 (?)", "a.py:3 (f)"]
    assert equal(parse(print_module(first)), first)
    assert print_module(first) == print_module(second)


def _counted(texts: list[str]):
    from hloom.formats.hlo.instruction_reader import read_instruction

    def read(cursor, body: ComputationReader) -> None:
        texts.append(cursor.text[cursor.position :].split("\n")[0])
        read_instruction(cursor, body)

    return read


def test_metadata_of_a_sharding_is_not_that_of_the_instruction():
    """The braces around it say whose it is, whatever stands behind it."""
    line = "  %c = f32[2]{0} copy(%x), sharding={mesh['x'=2], [{'x'}], metadata={op_name=\"named\"}}"
    node = parse(_module(line)).entry["c"]
    assert [metadata.op_name for metadata in node.attributes["sharding"].metadata] == ["named"]
    assert node.raw_metadata is None


def test_metadata_that_says_nothing():
    assert parse(_module("  %c = f32[2]{0} copy(%x), metadata={}")).entry["c"].raw_metadata == ""


@pytest.mark.parametrize("line", ["  %c = f32[] constant(%nan)", "  %p = f32[2]{0} parameter(%1)"])
def test_a_percent_sign_begins_names_alone(line: str):
    with pytest.raises(HloomError, match=r"%"):
        parse(_module(line))


PRINTED_TABLES = """FileNames
1 "a.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=11 column=2 end_column=3}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}


"""
BODY = "ENTRY %e (x: f32[2]) -> f32[2] {\n  ROOT %x = f32[2]{0} parameter(0)\n}\n\n"


def test_stack_tables_that_are_as_printed_are_parsed_when_asked_for():
    module = parse(f"HloModule m\n\n{PRINTED_TABLES}{BODY}")
    tables = module.stack_tables
    assert tables is not None
    assert print_module(module) == f"HloModule m\n\n{PRINTED_TABLES}{BODY}"
    assert [frame.line for frame in tables.trace(2)] == [10, 10]
    careful = parse(f"HloModule m\n\n{PRINTED_TABLES.replace('1 {file_l', '01 {file_l')}{BODY}")
    assert careful.stack_tables == tables
    assert equal(careful, module, metadata=True)
    assert print_module(careful) == print_module(module)


@pytest.mark.parametrize("title", ["FileNames", "FunctionNames", "FileLocations", "StackFrames"])
def test_an_empty_stack_table(title: str):
    head, _, tail = PRINTED_TABLES.partition(f"{title}\n")
    text = f"HloModule m\n\n{head}{title}\n{tail[tail.index(chr(10) + chr(10)) + 1 :]}{BODY}"
    assert print_module(parse(text)) == text


def test_modules_share_short_literals_but_no_unknown_ones():
    text = _module("  %c = f32[] constant(0.1)\n  %u = f32[64]{0} constant({...})")
    (known, unknown), (known_too, unknown_too) = (
        [node.value for node in parse(text).entry.nodes if isinstance(node, Constant)] for _ in range(2)
    )
    assert known is known_too
    assert unknown is not unknown_too
    assert unknown != unknown_too


def test_texts_are_remembered_from_one_module_to_the_next():
    """Literals and attributes are shared; what refers to graphs refers to those of its own module."""
    text = (
        "HloModule m\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
        "ENTRY e {\n  x = f32[4] parameter(0)\n  z = f32[] constant(1.5)\n"
        "  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add\n}\n"
    )
    first, second = parse(text), parse(text)
    assert first.entry["r"].attributes["to_apply"] is first["add"]
    assert second.entry["r"].attributes["to_apply"] is second["add"]
    assert equal(first, second)
    one, other = (module.entry["z"] for module in (first, second))
    assert isinstance(one, Constant) and isinstance(other, Constant)
    assert one.value is other.value


def test_what_tolerant_reading_takes_is_not_remembered_for_strict_reading():
    text = _module("  %p = f32[2]{0} negate(%x), is_stable=true")
    with pytest.warns(HloomWarning, match="is_stable"):
        assert str(parse(text).entry["p"].attributes["is_stable"]) == "true"
    with pytest.raises(HloomError, match="is_stable"):
        parse(text, strict=True)


def test_the_memos_begin_anew_when_they_are_full(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line_memos, "MOST", 8)
    text = "\n".join(f"  %c.{row} = s32[{row + 1}]{{0}} iota(), iota_dimension=0" for row in range(100))
    assert parse(_module(text)).node_count == 152
    assert line_memos.TOLERANT.count <= 8


def test_a_nested_computation_gives_its_name_back():
    """The same text refers to another graph once a computation of its name is defined."""
    line = "  %{name} = f32[] reduce(%x, %zero), dimensions={{0}}, to_apply={called}"
    nested = "{ %l = f32[] parameter(0)\n %r = f32[] parameter(1)\n ROOT %add = f32[] add(%l, %r) }"
    head = "  %x = f32[2]{0} parameter(0)\n  %zero = f32[] constant(0)\n"
    module = parse(
        "HloModule m\n\nfirst {\n" + head + line.format(name="a", called=nested) + "\n  ROOT %n = f32[] negate(%a)\n}\n\n"
        "_ {\n  %l = f32[] parameter(0)\n  %r = f32[] parameter(1)\n  ROOT %m = f32[] maximum(%l, %r)\n}\n\n"
        "ENTRY e {\n" + head + line.format(name="b", called="%_") + "\n  ROOT %n = f32[] negate(%b)\n}\n"
    )
    assert module.entry["b"].attributes["to_apply"].root.opcode == "maximum"
    assert module["first"]["a"].attributes["to_apply"].root.opcode == "add"


@pytest.mark.parametrize(
    "line",
    [
        "  %c = c64[2]{0} constant({(1, 2), (0, -1)})",
        "  %t = ((f32[2]{0}, f32[2]{0}), f32[2]{0}) tuple(%u, %x)",
        "  %t = f32[2]{0:T(8)} negate(%x)",
        "  %t = (f32[2]{0:T(8)}, f32[2]{0:T(8)S(1)}) tuple(%x, %x)",
        "  %g = f32[2]{0} get-tuple-element((f32[2]{0}, f32[2]{0}) %u), index=1",
        "\t%t = f32[2]{0} negate(%x)",
        "      %t = f32[2]{0} negate(%x)",
    ],
)
def test_lines_with_further_parentheses_or_blanks_are_read_fast(line: str, monkeypatch: pytest.MonkeyPatch):
    careful: list[str] = []
    monkeypatch.setattr("hloom.formats.hlo.computation_reader.read_instruction", _counted(careful))
    parse(_module("  %u = (f32[2]{0}, f32[2]{0}) tuple(%x, %x)\n" + line))
    assert not careful


def test_lines_that_never_open_a_parenthesis():
    """Each is looked at once, not together with all behind it: four times the lines take four times as long."""

    def seconds(rows: int) -> float:
        text = "".join(["\n  %t = f32[2]{0} negate %x"] * rows)
        start = thread_time()
        assert PLAIN_LINE.findall(text) == []
        return thread_time() - start

    best = [min(seconds(rows) for _ in range(5)) for rows in (500, 2_000)]
    assert best[1] < 10 * best[0]


def test_what_is_kept_as_it_is_is_noted_once():
    """Also where an error behind it sends the line to the careful reader."""
    line = "  %q = f32[] reduce(%x, %z), dimesions={0}, to_apply={ %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %c = f32[] add(%a, %b) }"
    with pytest.warns(HloomWarning, match="dimesions"):
        module = parse(_module("  %z = f32[] constant(0)\n" + line))
    assert len(module.notes) == 1
    assert ":6:30:" in module.notes[0]
