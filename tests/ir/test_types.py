"""Types are interned, immutable values with HLO's spelling; element types and layouts with them.

Covers `dtypes.py`, `layout.py`, `tile_assignment.py`.
"""

from __future__ import annotations

import copy
import gc
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import (
    COMBINED,
    DTYPES,
    EMPTY_TUPLE,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    BufferType,
    FunctionType,
    Layout,
    SplitConfig,
    TensorType,
    TupleType,
    Type,
    compatible,
    default_layout,
    dtype,
    dtype_of,
    list_with_indices,
    map_leaves,
    same_shape,
    without_layout,
)
from hloom.text import HloomError

F32, S4 = dtype("f32"), dtype("s4")
PLAIN = TensorType(F32, (2, 3))
LAID_OUT = TensorType(F32, (2, 3), Layout((0, 1)))
BOUNDED = TensorType(F32, (2, 8), None, (False, True))
NESTED = TupleType((LAID_OUT, TupleType((TOKEN, BufferType(LAID_OUT)))))

sizes = st.lists(st.integers(0, 9), max_size=4)
tensors = st.builds(lambda name, dims: TensorType(DTYPES[name], dims), st.sampled_from(sorted(DTYPES)), sizes)
types: st.SearchStrategy[Type] = st.recursive(
    tensors | st.sampled_from([TOKEN, OPAQUE]), lambda inner: st.lists(inner, max_size=3).map(TupleType), max_leaves=6
)


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (TensorType(F32), "f32[]"),
        (PLAIN, "f32[2,3]"),
        (LAID_OUT, "f32[2,3]{0,1}"),
        (BOUNDED, "f32[2,<=8]"),
        (TensorType(F32, (UNBOUNDED,), None, (True,)), "f32[?]"),
        (EMPTY_TUPLE, "()"),
        (NESTED, "(f32[2,3]{0,1}, (token[], b(f32[2,3]{0,1})))"),
        (TupleType([TOKEN] * 6), "(token[], token[], token[], token[], token[], /*index=5*/token[])"),
        (OPAQUE, "opaque[]"),
        (FunctionType((PLAIN, None), None), "(f32[2,3], ?) -> ?"),
        (FunctionType((), PLAIN), "() -> f32[2,3]"),
    ],
)
def test_types_print_as_hlo(value_type: Type, text: str):
    assert str(value_type) == repr(value_type) == text


@given(types)
def test_types_are_interned(value_type: Type):
    assert pickle.loads(pickle.dumps(value_type)) is value_type
    assert copy.copy(value_type) is value_type and copy.deepcopy(value_type) is value_type
    assert map_leaves(value_type, lambda leaf: leaf) is value_type
    assert without_layout(value_type) is value_type


def test_equal_types_are_one_object():
    assert TensorType(F32, [2, 3]) is PLAIN
    assert TensorType(F32, (2, 3), None, (False, False)) is PLAIN
    assert TupleType([PLAIN]) is TupleType((PLAIN,))
    assert BufferType(PLAIN) is BufferType(PLAIN)
    assert FunctionType([PLAIN], None) is FunctionType((PLAIN,), None)
    assert LAID_OUT is not PLAIN


def test_types_that_nobody_holds_are_forgotten():
    gc.collect()
    before = len(Type._interned)
    value_type = TensorType(F32, (12345, 54321))
    assert len(Type._interned) == before + 1
    del value_type
    gc.collect()
    assert len(Type._interned) == before


def test_types_are_immutable():
    with pytest.raises(AttributeError, match=r"^types are immutable: cannot set dims of f32\[2,3\]$"):
        PLAIN.dims = ()


def test_sizes():
    assert (PLAIN.rank, PLAIN.element_count, PLAIN.byte_count) == (2, 6, 24)
    assert TensorType(S4, (10,)).byte_count == 10
    assert NESTED.byte_count == 48
    assert TOKEN.byte_count == OPAQUE.byte_count == EMPTY_TUPLE.byte_count == 0
    assert BOUNDED.element_count == 16 and not BOUNDED.is_static and PLAIN.is_static


@pytest.mark.parametrize("size", ["element_count", "byte_count"])
def test_an_unbounded_type_has_no_size(size: str):
    unbounded = TensorType(F32, (UNBOUNDED,), None, (True,))
    with pytest.raises(HloomError) as caught:
        getattr(unbounded, size)
    assert str(caught.value) == "f32[?] has an unbounded dimension: its size is not known"


def test_leaves_are_in_order():
    assert list(NESTED.leaves()) == [LAID_OUT, TOKEN, BufferType(LAID_OUT)]


def test_types_compare_with_less():
    assert without_layout(NESTED) is TupleType((PLAIN, TupleType((TOKEN, BufferType(PLAIN)))))
    assert same_shape(PLAIN, LAID_OUT) and same_shape(None, PLAIN) and not same_shape(PLAIN, BOUNDED)
    static = TensorType(F32, (2, 8))
    assert compatible(BOUNDED, static) and not same_shape(BOUNDED, static)
    assert compatible(TupleType((BOUNDED,)), TupleType((static,))) and not compatible(TOKEN, PLAIN)
    assert compatible(None, PLAIN)


def test_a_type_with_one_thing_changed():
    assert PLAIN.with_layout(Layout((0, 1))) is LAID_OUT and LAID_OUT.with_layout(None) is PLAIN
    assert str(BOUNDED.with_dtype(S4)) == "s4[2,<=8]"


def test_nesting_may_be_of_any_depth():
    nested: Type = LAID_OUT
    for _ in range(3000):
        nested = TupleType((nested,))
    assert list(without_layout(nested).leaves()) == [PLAIN]


def test_lists_say_every_fifth_index():
    assert list_with_indices(list("abcde")) == "a, b, c, d, e"
    assert list_with_indices(list("abcdefghijk")) == "a, b, c, d, e, /*index=5*/f, g, h, i, j, /*index=10*/k"


# Element types


def test_every_element_type_has_a_numpy_type():
    for name, row in DTYPES.items():
        assert dtype(name) is row and str(row) == repr(row) == name
        assert dtype_of(row.numpy) is row
        assert row.byte_count == row.numpy.itemsize == max(1, row.bits // 8)
        assert pickle.loads(pickle.dumps(row)) is row


def test_families_of_element_types():
    assert dtype("bf16").is_float and dtype("u4").is_integer and dtype("c64").is_complex
    assert not dtype("pred").is_integer
    assert dtype_of(ml_dtypes.bfloat16) is dtype("bf16") and dtype_of(np.float32) is F32


def test_numpy_s_names_of_element_types():
    assert dtype("bfloat16") is dtype("bf16") and dtype("float32") is F32 and dtype("bool") is dtype("pred")


def test_unknown_element_types_are_errors():
    for name in ("f31", "U3", "object"):
        with pytest.raises(HloomError, match=f"'{name}' is not an element type"):
            dtype(name)
    with pytest.raises(KeyError):
        dtype_of(np.dtype("U3"))


# Layouts


def test_a_scalar_has_no_plain_layout():
    scalar = TensorType(dtype("f32"))
    assert scalar.with_layout(default_layout(0)) is scalar
    assert TensorType(dtype("f32"), (), Layout()) is scalar
    assert scalar.with_layout(Layout(memory_space=1)) is not scalar


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout(), ""),
        (default_layout(3), "{2,1,0}"),
        (Layout((), ((128,),)), "{:T(128)}"),
        (Layout((1, 0), ((8, 128), (COMBINED, 2))), "{1,0:T(8,128)(*,2)}"),
        (Layout((0,), tail_padding=4, element_bits=4, memory_space=5), "{0:L(4)E(4)S(5)}"),
        (Layout((0,), index_type="u32", pointer_type="u8", dim_level_types="D,S+~"), "{0:D(D,S+~)#(u32)*(u8)}"),
        (Layout((0,), split_configs=(SplitConfig(0, (4, 8)), SplitConfig(1, ()))), "{0:SC(0:4,8)(1:)}"),
        (Layout((0,), metadata_prefix_bytes=16), "{0:M(16)}"),
    ],
)
def test_layouts_print_as_hlo(layout: Layout, text: str):
    assert str(layout) == text
    assert layout.is_plain == (":" not in text)
