"""Which parameters are weights, and what shares a scale. Covers `movement.py`, `parameter_names.py`, `recipe.py`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.compress.quantization import QuantizationOptions
from hloom.compress.quantization.parameter_names import ParameterNames
from hloom.compress.quantization.recipe import read_recipe
from hloom.compress.quantization.weights import choose_weights, uses_of
from hloom.passes import canonicalize
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered, normal


def program(body: str, **types: str) -> hloom.Module:
    parameters = "\n".join(f"  {name} = {text} parameter({n})" for n, (name, text) in enumerate(types.items()))
    return hloom.parse(f"ENTRY main {{\n{parameters}\n{body}\n}}")


DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
LAYER = program(f"  h = f32[4,8] tanh(x)\n  ROOT y = f32[4,6] dot(h, w), {DOT}", x="f32[4,8]", w="f32[8,6]")


def blocks(module: hloom.Module, **options) -> dict[str, tuple[int, ...]]:
    recipe = read_recipe(QuantizationOptions(**options))
    return {weight.name: weight.blocks for weight in choose_weights(canonicalize(module), recipe)[0]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "int3"}, "there is no number format 'int3'"),
        ({"per": "row"}, "there are no scales per 'row'"),
        ({"per": "group"}, "scales per group need the size of a group"),
        ({"per": "channel", "group": 4}, "group=4 is for scales per group"),
        ({"per": "group", "group": 0}, "a group cannot have 0 elements"),
        ({"weights": {}}, "no weight is named"),
        ({"weights": {"w": "int8"}, "only": ["w"]}, "weights are named with their formats, and in only= again"),
        ({"weights": {"w": "int8", "1": "int4"}}, "a weight is named twice, with a format by either name"),
        ({"weights": {"v": "int8"}}, "the program has no parameter 'v'"),
        ({"weights": "int4:"}, "'int4:' has no group size after the colon"),
        ({"weights": "int4:" + "9" * 5000}, "'int4:99"),
        ({"weights": "int4:0"}, "a group cannot have 0 elements"),
        ({"weights": "mxfp8", "group": 16}, "mxfp8 has groups of 32 elements, not of 16"),
        ({"weights": "e4m3", "symmetric": False}, "e4m3 is symmetric about zero"),
        ({"opcodes": ["tanh"]}, "weights of tanh cannot be quantised"),
        ({"opcodes": []}, "no opcode is given"),
        ({"scope": "("}, "'(' is not a regular expression"),
        ({"only": ["v"]}, "the program has no parameter 'v'"),
        ({"only": ["x"]}, "x is not a weight: no dot, convolution, gather reads it"),
        ({"only": ["w"], "opcodes": ["gather"]}, "w is not a weight: no gather that the recipe chooses reads it"),
        ({"only": ["w"], "least": 49}, "w cannot be quantised: it has 48 elements, fewer than 49"),
        ({"least": 49}, "module_main has no weight to quantise; w: it has 48 elements, fewer than 49"),
        ({"scope": "attention"}, "module_main has no weight to quantise"),
    ],
)
def test_recipes_that_make_no_sense(options: dict, message: str):
    with pytest.raises(HloomError) as raised:
        hloom.quantize(LAYER, **options)
    assert raised.value.message.startswith(message)


def test_a_module_without_products():
    with pytest.raises(HloomError, match="module_main has no weight to quantise"):
        hloom.quantize(program("  ROOT y = f32[4] tanh(x)", x="f32[4]"))


@pytest.mark.parametrize("element", ["s8", "s32", "f8e4m3fn", "c64"])
def test_types_that_are_not_quantised(element: str):
    result = {"s8": "s32", "f8e4m3fn": "f32"}.get(element, element)
    body = f"  h = {element}[4,8] negate(x)\n  ROOT y = {result}[4,6] dot(h, w), {DOT}"
    module = program(body, x=f"{element}[4,8]", w=f"{element}[8,6]")
    with pytest.raises(HloomError, match=rf"w: it is {element}\[8,6\]: "):
        hloom.quantize(module)


def test_two_parameters_that_are_multiplied():
    """Neither the order nor a shape says which is the weight: the user does, or a relative."""
    body = f"  ROOT y = f32[4,6] dot(x, w), {DOT}"
    module = program(body, x="f32[4,8]", w="f32[8,6]")
    message = "of the parameters x and w, which are multiplied with each other, one is a weight and one an input"
    with pytest.raises(HloomError, match=message):
        hloom.quantize(module)
    assert [weight.name for weight in hloom.quantize(module, only=["w"]).weights] == ["w"]
    assert [weight.name for weight in hloom.quantize(module, only=[0]).weights] == ["x"]


def test_relatives_tell_weights_from_inputs():
    module, _ = lowered("mlp")
    assert [weight.name.split("__")[1] for weight in hloom.quantize(module).weights] == ["down", "up"]


def test_an_input_that_is_looked_up_is_no_table():
    body = """  y = f32[3,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
  ROOT z = f32[3,6] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    module = program(body, x="f32[9,8]", i="s32[3]", w="f32[8,6]")
    made = hloom.quantize(module)
    assert [weight.name for weight in made.weights] == ["w"]
    assert made.exclusions[0].name == "x" and "a table or an input" in made.exclusions[0].reason
    assert [weight.name for weight in hloom.quantize(module, only=["x", "w"]).weights] == ["x", "w"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"per": "tensor"}, {"up": (12, 20), "down": (7, 20)}),
        ({"per": "channel"}, {"up": (12, 1), "down": (1, 20)}),
        ({"per": "group", "group": 5}, {"up": (5, 1), "down": (1, 5)}),
        ({"per": "group", "group": 100}, {"up": (12, 1), "down": (1, 20)}),
        ({"weights": "mxfp4"}, {"up": (12, 1), "down": (1, 20)}),
    ],
)
def test_blocks_follow_what_is_summed(options: dict, expected: dict):
    names = {name.split("__")[1]: value for name, value in blocks(lowered("mlp")[0], **options).items()}
    assert names == expected


def test_layers_of_a_stack_have_scales_of_their_own():
    named = blocks(lowered("language model")[0])
    assert {name.strip("_1.").split("__")[-1]: value for name, value in named.items()} == {
        "table": (1, 16),
        "q": (1, 16, 1, 1),
        "k": (1, 16, 1, 1),
        "v": (1, 16, 1, 1),
        "o": (1, 4, 4, 1),
        "up": (1, 16, 1),
        "down": (1, 24, 1),
    }
    per_tensor = blocks(lowered("language model")[0], per="tensor")
    assert {value[0] for name, value in per_tensor.items() if "layers" in name} == {1}


def test_kernels_sum_over_their_windows():
    names = {name.split("__")[1]: value for name, value in blocks(lowered("convolutions")[0]).items()}
    assert names == {"first": (3, 3, 2, 1), "depthwise": (3, 3, 1, 1), "last": (1, 1, 8, 1)}


def test_reshapes_are_followed():
    body = """  h = f32[4,24] tanh(x)
  r = f32[2,12,5] reshape(w)
  t = f32[12,2,5] transpose(r), dimensions={1,0,2}
  c = bf16[12,2,5] convert(t)
  s = bf16[12,1,5] slice(c), slice={[0:12], [1:2], [0:5]}
  m = bf16[12,5] reshape(s)
  g = bf16[4,12] convert(z)
  ROOT y = bf16[4,5] dot(g, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    module = program(
        body.replace("  h = f32[4,24] tanh(x)\n", "  z = f32[4,12] tanh(x)\n"), x="f32[4,12]", w="f32[24,5]"
    )
    (use,) = uses_of(module.entry.parameters[1])
    assert (sorted(use.contracting), use.operand_index) == ([0], 1)
    assert blocks(module) == {"w": (24, 1)}


@pytest.mark.parametrize("is_loop", [False, True])
def test_an_input_that_is_multiplied_with_what_weights_make(is_loop: bool):
    """The kernels of an LSTM's gates are joined first: the input is not a weight, in a loop over time neither."""

    def step(params, h, x):
        gates = x @ jnp.concatenate([params["i"], params["f"]], axis=1) + h @ params["h"]
        return jnp.tanh(gates[:, :6]) * jax.nn.sigmoid(gates[:, 6:])

    def network(params, xs):
        if is_loop:
            h = jax.lax.scan(lambda h, x: (step(params, h, x), None), jnp.zeros((3, 6)), xs)[0]
        else:
            h = step(params, jnp.zeros((3, 6)), xs[0])
        return h @ params["o"]

    params = {"f": normal(4, 6), "h": normal(6, 12), "i": normal(4, 6), "o": normal(6, 2)}
    module = hloom.load(jax.jit(network).lower(params, normal(5, 3, 4)))
    made = hloom.quantize(module)
    names = {p.name: p.metadata.op_name for p in module.entry.parameters if p.metadata is not None}
    assert sorted(names[weight.name] for weight in made.weights) == ["params['h']", "params['o']"]
    assert any(left.reason == "no operand is a parameter, directly or through moves of data" for left in made.exclusions)


TWO_WAYS = """  h = f32[4,8] tanh(x)
  y = f32[4,8] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="first"}
  z = f32[4,8] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={DIM}, metadata={op_name="second"}
  ROOT t = (f32[4,8], f32[4,8]) tuple(y, z)"""


def test_a_weight_that_is_used_in_two_ways():
    module = program(TWO_WAYS.replace("DIM", "1"), x="f32[4,8]", w="f32[8,8]")
    arrays = [normal(4, 8), normal(8, 8)]
    assert blocks(module) == {"w": (8, 1)}
    made = hloom.quantize(module)
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert not hloom.compare(outputs, hloom.run(module, made.dequantized(arrays)).outputs, rtol=1e-5)
    made = hloom.quantize(module, activations="dynamic")
    (left,) = made.exclusions
    assert (left.name, left.reason) == ("z", "its activation stays: scales of its weight differ within a sum")
    assert not hloom.quantize(module, per="tensor", activations="dynamic").exclusions
    assert blocks(module, per="tensor") == {"w": (8, 8)}
    with pytest.raises(HloomError, match="w is read by y, which is quantised, and by z, which is not"):
        hloom.quantize(module, scope="first")


def test_a_table_that_fixed_positions_are_taken_of():
    """Scales follow the rows that tokens select, not the columns that are the same in every run."""
    body = """  columns = s32[3] constant({5, 0, 2})
  kept = f32[11,3] gather(table, columns), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={11,1}
  rows = f32[4,8] gather(table, tokens), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
  cut = f32[4,3] dot(rows, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[4,11] dot(cut, kept), lhs_contracting_dims={1}, rhs_contracting_dims={1}"""
    module = program(body, tokens="s32[4]", table="f32[11,8]", w="f32[8,3]")
    made = hloom.quantize(module, only=["table", "w"])
    assert {weight.name: weight.blocks for weight in made.weights} == {"table": (1, 8), "w": (8, 1)}
    arrays = [np.array([3, 10, 0, 3], np.int32), normal(11, 8), normal(8, 3)]
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert not hloom.compare(outputs, hloom.run(module, made.dequantized(arrays)).outputs, rtol=1e-5)


def test_a_weight_that_is_used_twice_alike():
    assert blocks(program(TWO_WAYS.replace("DIM", "0"), x="f32[4,8]", w="f32[8,8]")) == {"w": (8, 1)}


def test_a_weight_that_the_program_updates():
    body = f"  h = f32[4,8] tanh(x)\n  y = f32[4,6] dot(h, w), {DOT}\n  ROOT t = (f32[4,6], f32[8,6]) tuple(y, w)"
    text = hloom.print(program(body, x="f32[4,8]", w="f32[8,6]"), "short")
    text = text.replace("HloModule module_main", "HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }", 1)
    with pytest.raises(HloomError, match="w shares its buffer with an output: the program updates it"):
        hloom.quantize(hloom.parse(text))


def test_names_of_parameters():
    module, _ = lowered("language model")
    names = ParameterNames(module.entry.parameters)
    number = names["params.layers.up"].number
    assert {names[name].number for name in ("layers.up", "layers/up", "params['layers']['up']", number)} == {number}
    with pytest.raises(HloomError, match=r"the program has no parameter 'layers.uq'\n  near: layers.q, layers.up"):
        names["layers.uq"]


def test_names_that_several_parameters_have():
    text = """ENTRY main {
      a = f32[2] parameter(0), metadata={op_name="x['w']"}
      b = f32[2] parameter(1), metadata={op_name="y['w']"}
      ROOT c = f32[2] add(a, b)
    }"""
    with pytest.raises(HloomError, match="'w' may be any of the parameters a, b"):
        ParameterNames(hloom.parse(text).entry.parameters)["w"]
