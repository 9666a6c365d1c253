"""Tables by the Arrow PyCapsule interface: read as the specification says, and by the libraries where they are."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from hloom.analysis import Table, arrow

COLUMNS = ("n", "x", "s", "b", "missing", "mixed", "none", "large")
ROWS = (
    (1, 1.5, "a<é", True, None, 1, None, 2**70),
    (2, 2, "", False, "x", "y", None, 1),
    (-(2**63), -0.5, "\udcff", None, "z", 2.5, None, 3),
)
TABLE = Table(COLUMNS, ROWS)
READ: dict[str, tuple[str, list[Any]]] = {
    "n": ("l", [1, 2, -(2**63)]),
    "x": ("g", [1.5, 2.0, -0.5]),
    "s": ("U", ["a<é", "", "?"]),
    "b": ("b", [True, False, None]),
    "missing": ("U", [None, "x", "z"]),
    "mixed": ("U", ["1", "y", "2.5"]),
    "none": ("n", [None, None, None]),
    "large": ("g", [2.0**70, 1.0, 3.0]),
}


def pointer_in(capsule: Any, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def moved(capsule: Any) -> arrow.ArrowArrayStream:
    """The stream of a capsule, taken out of it as the specification says."""
    inside = arrow.ArrowArrayStream.from_address(pointer_in(capsule, arrow.STREAM_NAME))
    stream = arrow.ArrowArrayStream()
    ctypes.pointer(stream)[0] = inside
    inside.release = type(inside.release)()
    return stream


def read(stream: arrow.ArrowArrayStream) -> dict[str, tuple[str, list[Any]]]:
    """The columns of a stream of one table, which is released afterwards: letter and values."""
    schema, array = arrow.ArrowSchema(), arrow.ArrowArray()
    assert stream.get_schema(ctypes.pointer(stream), ctypes.pointer(schema)) == 0
    assert stream.get_next(ctypes.pointer(stream), ctypes.pointer(array)) == 0
    after = arrow.ArrowArray()
    assert stream.get_next(ctypes.pointer(stream), ctypes.pointer(after)) == 0
    assert not after.release
    stream.release(ctypes.pointer(stream))
    assert schema.format == b"+s" and schema.n_children == array.n_children
    columns = {}
    for number in range(schema.n_children):
        child = schema.children[number].contents
        columns[child.name.decode()] = child.format.decode(), values(child.format, array.children[number].contents)
    schema.release(ctypes.pointer(schema))
    array.release(ctypes.pointer(array))
    assert not schema.release and not array.release and not stream.release
    return columns


def values(letter: bytes, array: arrow.ArrowArray) -> list[Any]:
    if letter == b"n":
        return [None] * array.length
    buffers = [array.buffers[number] for number in range(array.n_buffers)]
    is_known = [True] * array.length if buffers[0] is None else bits(buffers[0], array.length)
    assert array.null_count == is_known.count(False)
    if letter == b"b":
        entries: list[Any] = bits(buffers[1], array.length)
    elif letter == b"U":
        offsets = (ctypes.c_int64 * (array.length + 1)).from_address(buffers[1])
        data = ctypes.string_at(buffers[2], offsets[array.length])
        entries = [data[offsets[n] : offsets[n + 1]].decode() for n in range(array.length)]
    else:
        element = ctypes.c_int64 if letter == b"l" else ctypes.c_double
        entries = list((element * array.length).from_address(buffers[1]))
    return [entry if known else None for entry, known in zip(entries, is_known, strict=True)]


def bits(address: int, count: int) -> list[bool]:
    data = np.frombuffer(ctypes.string_at(address, -(-count // 8)), dtype=np.uint8)
    return [bool(bit) for bit in np.unpackbits(data, count=count, bitorder="little")]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    gc.collect()
    before = len(arrow._alive), len(arrow._in_capsules)
    yield
    gc.collect()
    assert (len(arrow._alive), len(arrow._in_capsules)) == before


def test_types_and_missing_values():
    assert read(moved(TABLE.__arrow_c_stream__())) == READ


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_truth_values_of_any_number(count: int):
    expected = [number % 3 == 0 for number in range(count)]
    columns = read(moved(Table(("b", "t"), tuple((value, "é") for value in expected)).__arrow_c_stream__()))
    assert columns["b"] == (("b", expected) if count else ("n", []))
    assert columns["t"] == (("U", ["é"] * count) if count else ("n", []))


def test_without_columns():
    assert read(moved(Table((), ()).__arrow_c_stream__())) == {}


def test_a_capsule_that_nobody_takes_is_released():
    TABLE.__arrow_c_stream__()
    TABLE.__arrow_c_schema__()


def test_the_schema_alone():
    capsule = TABLE.__arrow_c_schema__()
    schema = arrow.ArrowSchema.from_address(pointer_in(capsule, arrow.SCHEMA_NAME))
    names = [schema.children[number].contents.name.decode() for number in range(schema.n_children)]
    assert names == list(COLUMNS)
    del capsule


def test_a_table_that_grows_while_it_is_exported_fails():
    columns: dict[str, Any] = {"n": [1, 2]}
    stream = moved(arrow.stream_capsule(columns))
    columns["n"][1] = "text"
    array = arrow.ArrowArray()
    assert stream.get_next(ctypes.pointer(stream), ctypes.pointer(array)) == arrow.INVALID
    assert b"cannot" in ctypes.string_at(stream.get_last_error(ctypes.pointer(stream)))
    stream.release(ctypes.pointer(stream))


def test_pyarrow():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(TABLE)
    table.validate(full=True)
    assert {name: table.column(name).to_pylist() for name in COLUMNS} == {name: READ[name][1] for name in COLUMNS}
    assert pyarrow.RecordBatchReader.from_stream(TABLE).read_all().num_rows == 3
    del table


def test_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(TABLE)
    assert frame.to_dict(as_series=False) == {name: READ[name][1] for name in COLUMNS}
    assert TABLE.to_polars().equals(frame)
    assert Table(("a",), ()).to_polars().shape == (0, 1)
    sums: list[int] = []
    numbers = Table(("i",), tuple((number,) for number in range(1000)))
    threads = [
        threading.Thread(target=lambda: sums.append(polars.DataFrame(numbers).select(polars.col("i").sum()).item()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [499500] * 8
    del frame


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = TABLE.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["s"].tolist() == ["a<é", "", "?"]
    assert frame["n"].dtype == "int64"
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert pandas.DataFrame.from_arrow(TABLE)["n"].tolist() == READ["n"][1]


def test_frames_that_are_there_when_the_interpreter_ends():
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    program = """
import sys, pyarrow, polars
from hloom.analysis import Table
table = Table(("i", "s"), tuple((n, str(n)) for n in range(5000)))
frames = pyarrow.table(table), polars.DataFrame(table), table.__arrow_c_stream__(), table.__arrow_c_schema__()
sys.modules["frames"] = frames + (pyarrow.RecordBatchReader.from_stream(table),)
class Cycle: pass
cycle = Cycle(); cycle.own, cycle.frames = cycle, (pyarrow.table(table), polars.DataFrame(table))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
