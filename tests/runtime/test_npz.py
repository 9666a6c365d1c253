"""Arrays of every HLO type in .npz files."""

import numpy as np
import pytest

from hloom.ir import DTYPES
from hloom.runtime import load_arrays, save_arrays
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
    assert message(load_arrays, tmp_path / "absent.npz").startswith("/absent.npz is not a readable .npz file: ")
    assert message(load_arrays, tmp_path / "objects.npz").startswith("/objects.npz is not a readable .npz file: Object arrays")
    assert message(load_arrays, tmp_path / "one.npy") == "/one.npy holds one array, not an .npz archive"
    assert message(load_arrays, tmp_path / "tag.npz") == "/tag.npz: its entry __hlo_types__ does not name HLO types"
    assert message(load_arrays, tmp_path / "width.npz") == "/width.npz: array a is said to be bf16 but has 8 bytes per element"
    assert message(save_arrays, tmp_path / "z.npz", {"a": np.array(["x"])}) == "array a of <U1 has no HLO type"
    assert message(save_arrays, tmp_path / "z.npz", {"__hlo_types__": np.ones(1)}) == "an array cannot be named __hlo_types__"


def test_a_header_that_is_no_python_is_refused(tmp_path):
    save_arrays(tmp_path / "x.npz", {"x": np.zeros(2, np.float32)})
    data = (tmp_path / "x.npz").read_bytes().replace(b"'descr'", b"(descr'")
    (tmp_path / "y.npz").write_bytes(data)
    with pytest.raises(HloomError, match="is not a readable"):
        load_arrays(tmp_path / "y.npz")
