"""Arrays of every HLO type in .npz files."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloom import evaluate, parse, run
from hloom.ir import DTYPES
from hloom.runtime import load_arrays, open_arrays, save_arrays
from hloom.text import HloomError


@pytest.mark.parametrize("name", DTYPES)
def test_npz_keeps_every_type(name, tmp_path):
    dtype = DTYPES[name].numpy
    arrays = {"a": np.array([[1, 0, 1]]).astype(dtype), "scalar": np.array(1).astype(dtype), "empty": np.zeros((0, 2), dtype)}
    save_arrays(tmp_path / "x.npz", arrays)
    loaded = load_arrays(tmp_path / "x.npz")
    assert list(loaded) == list(arrays)
    for key, array in arrays.items():
        assert loaded[key].dtype == dtype
        assert loaded[key].shape == array.shape
        assert loaded[key].tobytes() == array.tobytes()


def test_npz_is_numpys_own(tmp_path):
    save_arrays(tmp_path / "x.npz", {"file": np.arange(3), "a/b": np.ones(2, np.float32)})
    with np.load(tmp_path / "x.npz") as archive:
        assert archive["file"].tolist() == [0, 1, 2]
        assert archive["a/b"].tolist() == [1, 1]
    np.savez(tmp_path / "y.npz", np.arange(2))
    assert load_arrays(tmp_path / "y.npz")["arr_0"].tolist() == [0, 1]


def test_npz_refusals(tmp_path):
    def message(call, *arguments):
        with pytest.raises(HloomError) as caught:
            call(*arguments)
        return str(caught.value).replace(str(tmp_path), "")

    (tmp_path / "text.npz").write_text("nothing")
    np.savez(tmp_path / "objects.npz", a=np.array([{}], object))
    np.save(tmp_path / "one.npy", np.ones(2))
    np.savez(tmp_path / "tag.npz", a=np.ones(2), __hlo_types__=np.frombuffer(b'{"a": "f99"}', np.uint8))
    np.savez(tmp_path / "width.npz", a=np.ones(2), __hlo_types__=np.frombuffer(b'{"a": "bf16"}', np.uint8))
    assert message(load_arrays, tmp_path / "text.npz").startswith("/text.npz is not a readable .npz file: ")
    assert message(load_arrays, tmp_path / "absent.npz").startswith("cannot read /absent.npz: no such file")
    assert message(load_arrays, tmp_path / "objects.npz").startswith("/objects.npz is not a readable .npz file: Object arrays")
    assert message(load_arrays, tmp_path / "one.npy") == "/one.npy holds one array, not an .npz archive\n  np.savez writes one"
    assert message(load_arrays, tmp_path / "tag.npz") == "/tag.npz: its entry __hlo_types__ does not name HLO types"
    assert message(load_arrays, tmp_path / "width.npz") == "/width.npz: array a is declared as bf16 but has 8 bytes per element"
    assert message(save_arrays, tmp_path / "z.npz", {"a": np.array(["x"])}) == "array a of <U1 has no HLO type"
    assert message(save_arrays, tmp_path / "z.npz", {"__hlo_types__": np.ones(1)}) == "an array cannot be named __hlo_types__"


def test_a_header_that_is_no_python_is_refused(tmp_path):
    save_arrays(tmp_path / "x.npz", {"x": np.zeros(2, np.float32)})
    data = (tmp_path / "x.npz").read_bytes().replace(b"'descr'", b"(descr'")
    (tmp_path / "y.npz").write_bytes(data)
    with pytest.raises(HloomError, match="is not a readable"):
        load_arrays(tmp_path / "y.npz")


def claiming(path: Path, shape: tuple[int, ...], data: bytes, **options: Any) -> Path:
    """A file whose array `x` is said to be of a shape, with other data behind that."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("x.npy", header.getvalue() + data)
    return path


def bomb(path: Path, size: int) -> Path:
    """A file whose directory says that an array of so many bytes is inside, in a thousandth of them."""
    claiming(path, (size // 4,), bytes(1 << 20), compression=zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", size + 128)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda path: claiming(path, (1 << 40,), b""),
        lambda path: claiming(path, (1 << 30,), bytes(64)),
        lambda path: claiming(path, (3,), bytes(64)),
        lambda path: claiming(path, (1 << 30, 1 << 30), bytes(64)),
        lambda path: bomb(path, 1 << 31),
        lambda path: claiming(path, (16,), bytes(64), compression=zipfile.ZIP_LZMA),
    ],
    ids=["nothing", "gigabytes", "less", "more than numbers", "unpacked", "another packing"],
)
def test_what_arrays_claim_is_compared_with_their_data(tmp_path: Path, write):
    path = write(tmp_path / "x.npz")
    tracemalloc.start()
    with pytest.raises(HloomError, match=r"is not a readable .npz file: x\.npy is "):
        load_arrays(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("call", [run, evaluate])
def test_types_are_compared_before_arrays_are_read(tmp_path: Path, call, monkeypatch: pytest.MonkeyPatch):
    path = claiming(tmp_path / "x.npz", (1 << 24,), bytes(1 << 26), compression=zipfile.ZIP_DEFLATED)
    module = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
    arrays = open_arrays(path)
    monkeypatch.setattr(np.lib.format, "read_array", lambda *arguments, **options: pytest.fail("it is read"))
    with pytest.raises(HloomError, match=r"is f32\[16777216\], the program takes f32\[2\]"):
        call(module, arrays)


def test_more_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_arrays(tmp_path / "x.npz", {"x": np.zeros(1000, np.float32)})
    monkeypatch.setattr("os.sysconf", lambda name: 32)
    with pytest.raises(HloomError, match=r"array x takes 4,128 bytes: more than the 1,024 of this machine's memory"):
        load_arrays(tmp_path / "x.npz")
