"""Programs with weights in narrow types: the same numbers as the original with weights that were quantised and dequantised.

Covers `dequantization.py`, `quantized_value.py`, `insertion_point.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloom
from hloom.compress.quantization import FORMATS, quantize_array
from hloom.compress.quantization.quantized_value import common_factors
from hloom.ir import TensorType, Type
from hloom.text import HloomError
from tests.compress.quantization.programs import ARGUMENTS, lowered, normal


def plain(type_: Type | None) -> str:
    """An array's type without its layout, as text."""
    assert isinstance(type_, TensorType)
    return str(type_.with_layout(None))


RECIPES = [
    {},
    {"per": "tensor"},
    {"per": "group", "group": 5},
    {"symmetric": False},
    {"weights": "int4", "per": "group", "group": 8, "symmetric": False},
    {"weights": "int2"},
    {"weights": "e4m3"},
    {"weights": "e5m2", "per": "tensor"},
    {"weights": "mxfp8"},
    {"weights": "mxfp4"},
    {"weights": "mxint8"},
]


def test_a_fragment():
    with pytest.raises(HloomError, match="is a fragment, and cannot be quantised"):
        hloom.quantize(
            hloom.parse("ENTRY e { ROOT y = f32[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }")
        )


def test_constants_without_values():
    text = """ENTRY e {
      x = f32[4,8] parameter(0)
      c = f32[4,8] constant({...})
      h = f32[4,8] add(x, c)
      w = f32[8,6] parameter(1)
      ROOT y = f32[4,6] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    with pytest.raises(HloomError, match="c in e is an elided constant: its values are not known"):
        hloom.quantize(hloom.parse(text))


@pytest.mark.parametrize("size", ["0", "1048576,1048576"])
def test_hostile_sizes(size: str):
    """Nothing is computed until arrays come."""
    first = size.split(",")[0]
    text = f"""ENTRY e {{
      x = f32[4,{first}] parameter(0)
      h = f32[4,{first}] tanh(x)
      w = f32[{first},{size.split(",")[-1]}] parameter(1)
      ROOT y = f32[4,{size.split(",")[-1]}] dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    }}"""
    made = hloom.quantize(hloom.parse(text), per="group", group=64)
    assert made.weights[0].bytes_after < made.weights[0].bytes_before or size == "0"


def test_dynamic_sizes_are_left():
    text = """ENTRY e {
      x = f32[4,8] parameter(0)
      h = f32[4,8] tanh(x)
      w = f32[8,<=6] parameter(1)
      ROOT y = f32[4,<=6] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    with pytest.raises(HloomError, match=r"w: it is f32.8,<=6.: its size is not known"):
        hloom.quantize(hloom.parse(text))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: "-".join(map(str, recipe.values())) or "int8")
def test_the_numbers_of_a_loop_over_layers(recipe: dict):
    module, arrays = lowered("language model")
    made = hloom.quantize(module, **recipe)
    refused = [left.name for left in made.exclusions if "are not blocks" in left.reason]
    assert len(made.weights) + len(refused) == 7
    assert len(refused) == (recipe.get("group") == 5), "4x4 elements of heads are summed up"
    outputs = hloom.evaluate(made.module, made.convert(arrays))
    expected = hloom.evaluate(module, made.dequantized(arrays))
    assert not hloom.compare(outputs, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("recipe", [{}, {"weights": "int4", "per": "group", "group": 8}], ids=["int8", "int4"])
def test_numbers_through_xla(name: str, recipe: dict):
    module, arrays = lowered(name)
    made = hloom.quantize(module, **recipe)
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert not hloom.compare(outputs, hloom.run(module, made.dequantized(arrays)).outputs, rtol=1e-4)
    original = hloom.run(module, arrays).outputs[0]
    error = np.linalg.norm(outputs[0] - original) / np.linalg.norm(original)
    assert 0 < error < (0.2 if not recipe else 0.8)


def test_a_product_is_exactly_that_of_dequantised_weights():
    """Dequantisation is one product in f32 for an element: no rounding differs, so neither does the dot."""
    module, arrays = lowered("mlp")
    for recipe in RECIPES:
        made = hloom.quantize(module, **recipe)
        outputs = hloom.run(made.module, made.convert(arrays)).outputs
        assert (outputs[0] == hloom.run(module, made.dequantized(arrays)).outputs[0]).all(), recipe


def test_weights_are_dequantised_inside_the_loop():
    module, _ = lowered("language model")
    made = hloom.quantize(module, "int4")
    body = next(graph for graph in made.module if any(node.opcode == "dynamic-slice" for node in graph.nodes))
    state = body.parameters[0].type
    assert state is not None
    elements = [plain(element) for element in state.leaves()]
    assert "s4[3,16,24]" in elements and "f32[3,16,24]" not in elements
    slices = [plain(node.type) for node in body.nodes if node.opcode == "dynamic-slice"]
    assert set(slices) >= {"s4[1,16,24]", "f32[1,1,24]"}
    assert not any(str(node.type).startswith("f32[3,16,24]") for node in made.module.nodes())


def test_rows_of_a_table_are_dequantised_after_the_gather():
    made = hloom.quantize(lowered("language model")[0])
    gathers = [plain(node.type) for node in made.module.entry.nodes if node.opcode == "gather"]
    assert gathers == ["s8[2,5,16]", "f32[2,5,1]"]


def test_the_header_fits():
    made = hloom.quantize(lowered("mlp")[0])
    layout = made.module.attributes["entry_computation_layout"]
    assert [*map(plain, layout.parameters)] == [plain(p.type) for p in made.module.entry.parameters]
    again = hloom.parse(hloom.print(made.module), strict=True)
    assert [p.type for p in again.entry.parameters] == [p.type for p in made.module.entry.parameters]


LOOP = """body {{
  s = (s32[], f32[4,6], f32[6,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  h = f32[4,6] get-tuple-element(s), index=1
  w = f32[6,6] get-tuple-element(s), index=2
  y = f32[4,6] dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {body}
}}
condition {{
  s = (s32[], f32[4,6], f32[6,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  {test}
}}
ENTRY main {{
  x = f32[4,6] parameter(0), metadata={{op_name="x"}}
  w = f32[6,6] parameter(1), metadata={{op_name="w"}}
  zero = s32[] constant(0)
  h = f32[4,6] tanh(x)
  state = (s32[], f32[4,6], f32[6,6]) tuple(zero, h, w)
  loop = (s32[], f32[4,6], f32[6,6]) while(state), condition=condition, body=body
  y = f32[4,6] get-tuple-element(loop), index=1
  v = f32[6,6] get-tuple-element(loop), index=2
  z = f32[4,6] dot(y, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  first = f32[4,6] dot(h, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT out = (f32[4,6], f32[4,6]) tuple(z, first)
}}"""
SAME = "ROOT t = (s32[], f32[4,6], f32[6,6]) tuple(next, y, w)"
CHANGED = "v = f32[6,6] negate(w)\n  ROOT t = (s32[], f32[4,6], f32[6,6]) tuple(next, y, v)"
COUNTED = "ROOT p = pred[] compare(i, n), direction=LT"
TESTED = """w = f32[6,6] get-tuple-element(s), index=2
  e = f32[1,1] slice(w), slice={[2:3], [1:2]}
  f = f32[] reshape(e)
  far = f32[] constant(1e9)
  q = pred[] compare(f, far), direction=LT
  p = pred[] compare(i, n), direction=LT
  ROOT b = pred[] and(p, q)"""


@pytest.mark.parametrize(
    "recipe", [{"per": "tensor"}, {"per": "channel"}, {"per": "channel", "symmetric": False}], ids=str
)
@pytest.mark.parametrize(("body", "test"), [(SAME, COUNTED), (SAME, TESTED), (CHANGED, COUNTED)])
def test_what_loops_do_with_a_weight(body: str, test: str, recipe: dict):
    """Pass it on, test it in the condition, or change it: then it is dequantised before the loop."""
    module = hloom.parse(LOOP.format(body=body, test=test))
    made = hloom.quantize(module, **recipe, only=["w"])
    arrays = [normal(4, 6), normal(6, 6, scale=0.4)]
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert not hloom.compare(outputs, hloom.run(module, made.dequantized(arrays)).outputs, rtol=1e-5)
    inside = made.module["body"]
    assert any(node.opcode == "convert" for node in inside.nodes) == (body == SAME)


def test_a_weight_that_is_an_output_and_used_elementwise():
    text = """ENTRY e {
      x = f32[4,8] parameter(0)
      h = f32[4,8] tanh(x)
      w = f32[8,6] parameter(1)
      y = f32[4,6] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      t = f32[6,8] transpose(w), dimensions={1,0}
      n = f32[6,8] multiply(t, t)
      ROOT z = (f32[4,6], f32[6,8], f32[6,8]) tuple(y, n, t)
    }"""
    module = hloom.parse(text)
    made = hloom.quantize(module)
    arrays = [normal(4, 8), normal(8, 6)]
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    expected = hloom.run(module, made.dequantized(arrays)).outputs
    assert all((one == other).all() for one, other in zip(outputs, expected, strict=True))


@pytest.mark.parametrize(
    ("sources", "targets", "spans"),
    [
        ((), (), []),
        ((1,), (), [([0], [])]),
        ((6,), (2, 3), [([0], [0, 1])]),
        ((2, 3), (3, 2), [([0, 1], [0, 1])]),
        ((4, 1, 6), (4, 6, 1), [([0], [0]), ([1], []), ([2], [1]), ([], [2])]),
    ],
)
def test_runs_of_dimensions_of_a_reshape(sources, targets, spans):
    assert common_factors(sources, targets) == spans


@st.composite
def movements(draw: st.DrawFn) -> tuple[str, tuple[int, ...], int]:
    """A program that moves a weight some steps and multiplies by it, the weight's dimensions, and what is summed."""
    dims = start = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=2, max_size=4)))
    lines, name = [], "w"
    for number in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["transpose", "reshape", "slice", "dynamic-slice", "convert"])):
            case "transpose":
                order = draw(st.permutations(range(len(dims))))
                dims = tuple(dims[dim] for dim in order)
                step = f"f32{list(dims)} transpose({name}), dimensions={{{','.join(map(str, order))}}}"
            case "reshape":
                split = [draw(st.sampled_from([n for n in (1, 2, 3) if size % n == 0])) for size in dims]
                parts = [part for size, n in zip(dims, split, strict=True) for part in (n, size // n)]
                joined, at = [], 0
                while at < len(parts):
                    width = draw(st.integers(1, 3))
                    joined.append(int(np.prod(parts[at : at + width])))
                    at += width
                dims = tuple(joined)
                step = f"f32{list(dims)} reshape({name})"
            case "slice":
                cuts = [sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for size in dims]
                cuts = [(low, high) if low < high else (0, size) for (low, high), size in zip(cuts, dims, strict=True)]
                dims = tuple(high - low for low, high in cuts)
                text = ", ".join(f"[{low}:{high}]" for low, high in cuts)
                step = f"f32{list(dims)} slice({name}), slice={{{text}}}"
            case "dynamic-slice":
                sizes = [draw(st.sampled_from([size, 1, max(size - 1, 1)])) for size in dims]
                starts = ", ".join("i" for _ in dims)
                dims = tuple(sizes)
                step = f"f32{list(dims)} dynamic-slice({name}, {starts}), dynamic_slice_sizes={{{','.join(map(str, sizes))}}}"
            case _:
                step = f"f32{list(dims)} copy({name})"
        name = f"m{number}"
        lines.append(f"  {name} = {step}")
    contracted = draw(st.integers(0, len(dims) - 1)) if dims else 0
    if not dims:
        lines.append(f"  last = f32[1] reshape({name})")
        name, dims = "last", (1,)
    result = [2, *(size for dim, size in enumerate(dims) if dim != contracted)]
    body = "\n".join(lines)
    text = f"""ENTRY main {{
  x = f32[2,{dims[contracted]}] parameter(0)
  w = f32{list(start)} parameter(1)
  i = s32[] parameter(2)
  h = f32[2,{dims[contracted]}] tanh(x)
{body}
  ROOT y = f32{result} dot(h, {name}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{contracted}}}
}}"""
    return text.replace(", ", ","), start, dims[contracted]


@settings(max_examples=120, deadline=None)
@given(moved=movements(), data=st.data())
def test_random_movements(moved: tuple[str, tuple[int, ...], int], data: st.DataObject):
    text, dims, contracted = moved
    module = hloom.parse(text)
    per = data.draw(st.sampled_from(["tensor", "channel", "group"]))
    group = data.draw(st.integers(1, 4)) if per == "group" else None
    form = data.draw(st.sampled_from(["int8", "int4", "e4m3"]))
    try:
        made = hloom.quantize(module, form, per=per, group=group, only=["w"])
    except HloomError as error:
        assert per != "tensor" and " block" in error.message  # what is summed, or a group of it, is not a block
        return
    arrays = [normal(2, contracted), normal(*dims), np.int32(data.draw(st.integers(0, 3)))]
    outputs = hloom.evaluate(made.module, made.convert(arrays))
    assert not hloom.compare(outputs, hloom.evaluate(module, made.dequantized(arrays)), rtol=1e-6)


def test_arrays_that_do_not_fit():
    module, arrays = lowered("mlp")
    made = hloom.quantize(module)
    with pytest.raises(HloomError, match="the program takes 4 arrays, 2 are given"):
        made.convert(arrays[:2])
    with pytest.raises(HloomError, match=r"params__down__.1 is float64\[7,20\], the program takes f32\[7,20\]"):
        made.convert([arrays[0], arrays[1].astype(np.float64), *arrays[2:]])
    with pytest.raises(
        HloomError, match=r"params__up__.1 cannot be quantised: 1 of its 240 values are NaN or infinite"
    ):
        broken = arrays[2].copy()
        broken[0, 0] = np.nan
        made.convert([*arrays[:2], broken, arrays[3]])


def test_arrays_by_name():
    module, arrays = lowered("mlp")
    made = hloom.quantize(module)
    converted = made.convert({"up": arrays[2], "params.down": arrays[1], "unrelated": np.int32(3)})
    assert [*converted] == ["up", "up.scale", "params.down", "params.down.scale", "unrelated"]
    expected = quantize_array(arrays[2], FORMATS["int8"], (12, 1))
    assert (converted["up"] == expected.values).all() and (converted["up.scale"] == expected.scale).all()
    with pytest.raises(HloomError, match=r"there is no array for params__down__.1\n.*near: up"):
        made.convert({"up": arrays[2]})
    with pytest.raises(HloomError, match=r"'up' and 'params.up' both name the parameter params__up__.1"):
        made.convert({"up": arrays[2], "params.up": arrays[2], "down": arrays[1]})


def test_the_original_stays_as_it_is():
    module, _ = lowered("attention")
    before = hloom.print(module)
    hloom.quantize(module)
    assert hloom.print(module) == before
