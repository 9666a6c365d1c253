"""Random inputs, .npz files and comparisons."""

import numpy as np
import pytest

from hloom.ir import DTYPES, TensorType
from hloom.runtime import compare, first_difference, load_arrays, random_inputs, run, save_arrays
from hloom.text import HloomError

NOT_BY_XLA = {"s1", "u1"}
"""What jaxlib's CPU client does not take."""


@pytest.mark.parametrize("name", DTYPES)
def test_npz_keeps_every_type(name, tmp_path):
    dtype = DTYPES[name].numpy
    arrays = {"a": np.array([[1, 0, 1]]).astype(dtype), "scalar": np.array(1).astype(dtype), "empty": np.zeros((0, 2), dtype)}
    save_arrays(tmp_path / "x.npz", arrays)
    found = load_arrays(tmp_path / "x.npz")
    assert list(found) == list(arrays)
    for key, array in arrays.items():
        assert found[key].dtype == dtype
        assert found[key].shape == array.shape
        assert found[key].tobytes() == array.tobytes()


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


@pytest.mark.parametrize("name", sorted({*DTYPES} - NOT_BY_XLA))
def test_every_type_goes_through_xla(name):
    result = run(f"ENTRY e {{ x = {name}[2,3] parameter(0) ROOT y = {name}[2,3] copy(x) }}")
    assert result.outputs[0].dtype == DTYPES[name].numpy
    assert result.outputs[0].tobytes() == result.inputs[0].tobytes()


def test_random_inputs_depend_on_seed_and_place_only():
    x, y = TensorType(DTYPES["f32"], (3,)), TensorType(DTYPES["s8"], (100,))
    assert np.array_equal(random_inputs([x, y], 1)[1], random_inputs([y, y], 1)[1])
    assert not np.array_equal(*random_inputs([x, x], 1))
    assert {*random_inputs([y])[0].tolist()} == set(range(8))
    assert {*random_inputs([TensorType(DTYPES["u2"], (100,))])[0].tolist()} == set(range(4))


def test_compare_agrees():
    nan, inf = np.nan, np.inf
    left = [np.array([1, nan, inf], np.float32), np.array(3), np.zeros((0,), np.float32)]
    right = [np.array([1 + 1e-6, nan, inf], np.float32), np.array(3), np.zeros((0,), np.float32)]
    assert compare(left, right) == []
    assert first_difference(left, right) is None


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (np.float32([1, 2]), np.float32([1, 2.5]), "f32[2]: 2.0 against 2.5 at [1], off by 0.5 (0.2 relative); 1 of 2 elements differ"),
        (np.int32(3), np.int32(4), "s32[]: 3 against 4, off by 1 (0.25 relative); 1 of 1 elements differ"),
        (np.float32([1]), np.float32([np.nan]), "f32[1]: 1.0 against nan at [0], off by inf (inf relative); 1 of 1 elements differ"),
        (np.float32([1]), np.float64([1]), "f32[1] against f64[1]"),
        (np.float32([1]), np.float32([[1]]), "f32[1] against f32[1,1]"),
        (np.array(True), np.array(False), "pred[]: True against False, off by 1 (1 relative); 1 of 1 elements differ"),
    ],
)  # fmt: skip
def test_compare_says_what_differs(left, right, message):
    difference = first_difference([np.zeros(1), left], [np.zeros(1), right])
    assert str(difference) == f"output 1: {message}"


def test_compare_counts_outputs():
    assert str(first_difference([np.zeros(1)], [])) == "output 0: one run has 1 outputs, the other 0"


def test_tolerances():
    left, right = [np.float32([100, 0])], [np.float32([100.5, 0])]
    assert compare(left, right, rtol=0.01) == []
    assert compare(left, right, rtol=0, atol=0.6) == []
    assert len(compare(left, right, rtol=0, atol=0.4)) == 1
