"""Files of arrays. Covers `safetensors.py`."""

from __future__ import annotations

import json
import math
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import hloom
from hloom.compress.quantization import load_checkpoint, save_checkpoint
from hloom.compress.quantization.safetensors import packed_bytes, unpacked_elements
from hloom.ir import DTYPES
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered


def written(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"", b"", "its header is not a JSON object"),
        (b"[" * 100_000, b"", "its header is not a JSON object"),
        ([1], b"", "its header is not a JSON object"),
        ({"w": 3}, b"", "the header does not say what array w is"),
        ({"w": {**GOOD, "shape": [-2]}}, b"", "the header does not say what array w is"),
        ({"w": {**GOOD, "shape": [True]}}, b"", "the header does not say what array w is"),
        ({"w": {**GOOD, "shape": [1] * 65}}, b"", "the header does not say what array w is"),
        ({"w": {**GOOD, "shape": [0, 1 << 40, 1 << 40]}}, b"", "the header does not say what array w is"),
        ({"w": {**GOOD, "dtype": "F6"}}, b"", "array w is of type F6, which is not known"),
        ({"w": GOOD}, b"1234", "but its data are bytes 0 to 8 of 4"),
        ({"w": {**GOOD, "shape": [1 << 62, 4]}}, b"12345678", "but its data are bytes 0 to 8 of 8"),
        ({"w": {**GOOD, "data_offsets": [8, 0]}}, b"12345678", "but its data are bytes 8 to 0 of 8"),
        ({"w": GOOD, "v": GOOD}, b"12345678", "array v shares its data with others, or they overlap"),
        ({"__metadata__": {"hloom.packed": "{"}}, b"", "what hloom.packed says in the header is not a JSON object"),
        ({"__metadata__": {"hloom.packed": '{"v": {}}'}}, b"", "there is no array v, which the header says is packed"),
        ({"__metadata__": {"hloom.packed": '{"w": {"type": "s8", "shape": [2]}}'}, "w": GOOD}, b"12345678", "what the packed array w is"),
        ({"__metadata__": {"hloom.packed": '{"w": {"type": "s4", "shape": [2]}}'}, "w": GOOD}, b"12345678", "is declared as s4"),
    ],
)  # fmt: skip
def test_damaged_files(tmp_path: Path, header: object, data: bytes, message: str):
    with pytest.raises(HloomError) as raised:
        load_checkpoint(written(tmp_path / "x.safetensors", header, data))
    assert message in raised.value.message


def test_files_that_are_none(tmp_path: Path):
    for name, contents, message in (
        ("a.safetensors", b"", "it has no header"),
        ("b.safetensors", b"\xff" * 20, "it has no header"),
        ("c.safetensors", None, "it is not a file"),
        ("d.npz", None, "no such file"),
        ("e.npz", b"zip", "not a readable .npz file"),
        ("f.bin", b"", "does not end in .npz or .safetensors"),
    ):
        if contents is not None:
            (tmp_path / name).write_bytes(contents)
        with pytest.raises(HloomError, match="(?i)" + message):
            load_checkpoint(tmp_path / name)


def test_types_and_names_that_the_format_lacks(tmp_path: Path):
    with pytest.raises(HloomError, match=r"array z is c128, which a .safetensors file cannot hold"):
        save_checkpoint(tmp_path / "x.safetensors", {"z": np.zeros(2, np.complex128)})
    with pytest.raises(HloomError, match="an array cannot be named __metadata__"):
        save_checkpoint(tmp_path / "x.safetensors", {"__metadata__": np.zeros(2)})
    with pytest.raises(HloomError, match="array t of <U1 has no HLO type"):
        save_checkpoint(tmp_path / "x.safetensors", {"t": np.array(["a"])})
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_what_was_written_is_read(tmp_path: Path, suffix: str):
    types = [
        row.numpy
        for name, row in DTYPES.items()
        if suffix == "npz" or name not in ("c128", "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz")
    ]
    arrays = {str(n): np.arange(7).reshape(7, 1).astype(np.float32).astype(type_) for n, type_ in enumerate(types)}
    arrays |= {"scalar": np.array(3, np.float32), "empty": np.zeros((0, 4), ml_dtypes.int4)}
    save_checkpoint(tmp_path / f"x.{suffix}", arrays)
    again = load_checkpoint(tmp_path / f"x.{suffix}")
    assert [*again] == [*arrays]
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype and again[name].shape == array.shape
        assert again[name].tobytes() == np.ascontiguousarray(array).tobytes(), array.dtype


def test_the_bytes_of_a_file(tmp_path: Path):
    """As the format's description says it: written out by hand."""
    save_checkpoint(
        tmp_path / "x.safetensors", {"a": np.array([1, 2], np.float32), "b": np.array([1, -2, 3], ml_dtypes.int4)}
    )
    data = (tmp_path / "x.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert header["a"] == {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    assert header["b"] == {"dtype": "U8", "shape": [2], "data_offsets": [8, 10]}
    assert json.loads(header["__metadata__"]["hloom.packed"]) == {"b": {"type": "s4", "shape": [3]}}
    assert data[8 + size :] == np.array([1, 2], np.float32).tobytes() + bytes([0xE1, 0x03])


@settings(max_examples=50, deadline=None)
@given(
    shape=array_shapes(min_dims=1, max_dims=3),
    name=st.sampled_from(["s4", "u4", "s2", "u2", "s1", "u1", "f4e2m1fn"]),
    seed=st.integers(0, 9),
)
def test_packing_is_undone(shape: tuple[int, ...], name: str, seed: int):
    element = DTYPES[name]
    count = int(np.prod(shape))
    data = np.random.default_rng(seed).integers(0, 256, -(-count * element.bits // 8)).astype(np.uint8)
    array = unpacked_elements(data, element, count)
    packed = packed_bytes(array, element.bits)
    assert len(packed) == -(-count * element.bits // 8)
    assert unpacked_elements(packed, element, count).tobytes() == array.tobytes()


def test_a_checkpoint_is_converted(tmp_path: Path):
    module, arrays = lowered("mlp")
    down, up = arrays[1], arrays[2]
    save_checkpoint(tmp_path / "model.safetensors", {"up": up, "bias": arrays[0], "down": down})
    made = hloom.quantize(module, "int4")
    save_checkpoint(tmp_path / "small.safetensors", made.convert(load_checkpoint(tmp_path / "model.safetensors")))
    small = load_checkpoint(tmp_path / "small.safetensors")
    assert [*small] == ["up", "up.scale", "bias", "down", "down.scale"]
    inputs = [small["bias"], small["down"], small["up"], arrays[3], small["down.scale"], small["up.scale"]]
    assert (hloom.run(made.module, inputs).outputs[0] == hloom.run(made.module, made.convert(arrays)).outputs[0]).all()
    assert (tmp_path / "small.safetensors").stat().st_size < (tmp_path / "model.safetensors").stat().st_size / 1.5


def test_an_array_larger_than_its_parameter_is_refused_before_it_is_read(tmp_path: Path):
    """A gigabyte of zeros, which take a megabyte in the archive."""
    program = hloom.parse("ENTRY e { x = f32[4] parameter(0) w.1 = f32[4,2] parameter(1) ROOT d = f32[2] dot(x, w.1), lhs_contracting_dims={0}, rhs_contracting_dims={0} }")
    for names in (("x", "w"), ("arr_0", "arr_1"), ("x", "1")):
        with zipfile.ZipFile(tmp_path / "large.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, shape in zip(names, ((4,), (1 << 16, 1 << 12)), strict=True):
                with archive.open(f"{name}.npy", "w") as entry:
                    np.lib.format.write_array_header_1_0(entry, {"descr": "<f4", "fortran_order": False, "shape": shape})
                    for _ in range(max(1, 4 * math.prod(shape) >> 20)):
                        entry.write(bytes(min(4 * math.prod(shape), 1 << 20)))
        tracemalloc.start()
        with pytest.raises(HloomError, match=r"large.npz: array \w+ is float32\[65536, 4096\], the program takes f32\[4,2\]"):
            load_checkpoint(tmp_path / "large.npz", program)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        tracemalloc.stop()
