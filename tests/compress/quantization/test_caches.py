"""KV caches in narrow types: what a JAX program computes that rounds its rows when it writes them.

Covers `kv_cache.py`, `cache_flow.py`, `cache_rewriter.py`, `row_quantization.py`, `quantized_cache.py`, `masked_sums.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.compress.quantization import Quantization, compare_steps
from hloom.text import HloomError
from tests.compress.quantization.decode_steps import LAYERS, STEPS, WRITES, decode, inputs, rounding_decode
from tests.compress.quantization.programs import normal

ONE_HEAD = """ENTRY step {
  k = f32[2,8,4] parameter(0)
  row = f32[2,1,4] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  k1 = f32[2,8,4] dynamic-update-slice(k, row, zero, i, zero)
  q = f32[2,4] parameter(3)
  s = f32[2,8] dot(q, k1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}
  ROOT t = (f32[2,8], f32[2,8,4]) tuple(s, k1)
}"""


def test_a_cache_is_written_and_read_in_its_narrow_type():
    made = hloom.quantize(hloom.parse(ONE_HEAD), None, cache="int8")
    text = hloom.print(made.module, "short")
    assert "k = s8[2,8,4] parameter(0)" in text
    assert "k.scale = f32[2,8,1] parameter(4)" in text
    assert "k1 = s8[2,8,4] dynamic-update-slice(k, " in text
    assert "k1.scale = f32[2,8,1] dynamic-update-slice(k.scale, " in text
    assert "ROOT t = (f32[2,8], s8[2,8,4], f32[2,8,1]) tuple(s, k1, k1.scale)" in text
    (cache,) = made.caches
    assert (cache.number, cache.output, cache.companions, cache.output_companions) == (0, 1, {"scale": 4}, {"scale": 2})
    assert (cache.writes, cache.uses, cache.bytes_before, cache.bytes_after) == (("k1",), ("s",), 256, 128)


@pytest.mark.parametrize(
    ("name", "write"),
    [*(("layers", write) for write in WRITES), *((name, "slice_write") for name in STEPS if name != "layers")],
)
def test_what_a_program_computes_that_rounds_rows(name: str, write: str):
    """Over three steps, each with the caches that the one before left; bits of the caches may differ by a rounding."""
    module, arrays = decode(name, write)
    made, rounding = hloom.quantize(module, None, cache="int8"), rounding_decode(name, write)
    assert len(made.caches) == (2 if name in ("scan", "carry") else 2 * LAYERS)
    held, after = made.convert(list(arrays)), []
    expected = inputs(arrays, 0)
    for step in range(3):
        given = inputs(arrays, step)
        held[len(given) - 2 : len(given)] = given[-2:]
        expected[-2:] = given[-2:]
        after = hloom.run(made.module, held).outputs
        wanted = hloom.run(rounding, expected).outputs
        assert not hloom.compare(made.restored(after), wanted, rtol=1e-4, atol=1e-5)
        held = made.carried(held, after)
        for cache in made.caches:
            assert cache.number is not None and cache.output is not None
            expected[cache.number] = wanted[cache.output]


@pytest.mark.parametrize(("form", "most"), [("int8", 0.02), ("e4m3", 0.1), ("e5m2", 0.2), ("int4:4", 0.3), ("mxfp8", 0.1), ("mxfp4", 0.5)])  # fmt: skip
def test_formats_and_their_errors_over_steps(form: str, most: float):
    module, arrays = decode("scan")
    made = hloom.quantize(module, None, cache=form)
    steps = compare_steps(made, [inputs(arrays, step) for step in range(4)])
    errors = [step[0].error for step in steps]
    assert len(errors) == 4
    assert all(0 < error < most for error in errors), errors


def test_weights_and_caches_together():
    module, arrays = decode("scan")
    made = hloom.quantize(module, "int8", cache="int8")
    assert (len(made.weights), len(made.caches)) == (6, 2)
    errors = [step[0].error for step in compare_steps(made, [inputs(arrays, step) for step in range(3)])]
    assert all(0 < error < 0.05 for error in errors)
    assert not made.exclusions


ADDED = """ENTRY step {
  k = f32[2,8,4] parameter(0)
  row = f32[2,4] parameter(1)
  i = s32[] parameter(2)
  numbers = s32[8] iota(), iota_dimension=0
  wanted = s32[8] broadcast(i), dimensions={}
  is_here = pred[8] compare(numbers, wanted), direction=EQ
  one_hot = f32[8] convert(is_here)
  mask = f32[2,8,4] broadcast(one_hot), dimensions={1}
  rows = f32[2,8,4] broadcast(row), dimensions={0,2}
  added = f32[2,8,4] multiply(rows, mask)
  k1 = f32[2,8,4] add(k, added)
  q = f32[2,4] parameter(3)
  s = f32[2,8] dot(q, k1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}
  ROOT t = (f32[2,8], f32[2,8,4]) tuple(s, k1)
}"""


def test_a_row_that_is_added_by_a_mask_is_selected():
    made = hloom.quantize(hloom.parse(ADDED), None, cache="int8")
    assert [cache.writes for cache in made.caches] == [("k1",)]
    text = hloom.print(made.module, "short")
    assert "k1 = s8[2,8,4] select(" in text and "k1.scale = f32[2,8,1] select(" in text
    arrays = [normal(2, 8, 4, seed=1), normal(2, 4, seed=2), np.int32(3), normal(2, 4, seed=3)]
    before, after = hloom.run(made.original, arrays).outputs, hloom.run(made.module, made.convert(arrays)).outputs
    error = np.abs(made.restored(after)[1] - before[1]).max(axis=2)
    assert np.all(error <= 2 * np.abs(before[1]).max(axis=2) / 127)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("convert(is_here)", "sine(count)"),  # no zeros and ones
        ("broadcast(one_hot), dimensions={1}", "broadcast(other), dimensions={1,2}"),  # a product, but of no mask
        ("add(k, added)", "add(mean, added)"),  # computed anew
    ],
)
def test_other_sums_stay(old: str, new: str):
    further = """ENTRY step {
  count = f32[8] parameter(4)
  other = f32[8,4] parameter(5)
  mean = f32[2,8,4] broadcast(other), dimensions={1,2}"""
    with pytest.raises(HloomError, match="k is not a cache"):
        hloom.quantize(hloom.parse(ADDED.replace(old, new).replace("ENTRY step {", further)), None, cache={"k": "int8"})


def test_caches_that_a_loop_carries_and_nobody_gives():
    module, arrays = decode("generate")
    made = hloom.quantize(module, None, cache="int8")
    assert [(cache.number, cache.output) for cache in made.caches] == [(None, None)] * 2 * LAYERS
    outputs = hloom.run(made.module, made.convert(list(arrays))).outputs
    wanted = hloom.run(rounding_decode("generate"), list(arrays)).outputs
    assert not hloom.compare(outputs, wanted, rtol=1e-4, atol=1e-5)
    state = next(node for node in made.module.nodes() if node.opcode == "while").type
    assert str(state).count("s8[2,8,2,8]") == 2 * LAYERS


def test_one_cache_by_name_and_the_others_as_they_are():
    module, arrays = decode("layers")
    made = hloom.quantize(module, None, cache={"cache.0.1": "int8", "cache.1.0": "int4:4"})
    assert [(cache.name, str(cache.format)) for cache in made.caches] == [("cache_0__1_.1", "int8"), ("cache_1__0_.1", "int4:4")]  # fmt: skip
    assert 0 < compare_steps(made, [inputs(arrays, 0)])[0][0].error < 0.2


def test_buffers_that_are_shared_stay_so():
    head = "HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\n"
    made = hloom.quantize(hloom.parse(head + ONE_HEAD), None, cache="int8")
    assert [str(alias) for alias in made.module.attributes["input_output_alias"]] == ["{1}: (0, {}, may-alias)", "{2}: (4, {}, may-alias)"]  # fmt: skip


def test_a_program_whose_only_result_is_the_cache():
    text = ONE_HEAD.replace(
        "ROOT t = (f32[2,8], f32[2,8,4]) tuple(s, k1)",
        """next = f32[2,1,4] slice(s), slice={[0:2], [0:4]}
           row2 = f32[2,1,4] reshape(next)
           ROOT r = f32[2,8,4] dynamic-update-slice(k1, row2, zero, zero, zero)""".replace(
            "next = f32[2,1,4]", "next = f32[2,4]"
        ),
    )
    made = hloom.quantize(hloom.parse(text), None, cache="int8")
    arrays = [np.zeros((2, 8, 4), np.float32), np.ones((2, 1, 4), np.float32), np.int32(3), np.ones((2, 4), np.float32)]
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert [output.dtype.name for output in outputs] == ["int8", "float32"]
    assert np.allclose(made.restored(outputs)[0], hloom.run(hloom.parse(text), arrays).outputs[0])


REFUSED = {
    "no dot reads it": ("q, k1), lhs_batch_dims={0}", "q, other), lhs_batch_dims={0}"),
    "nothing is written into it; as a weight": ("tuple(s, k1)", "tuple(s, k)"),
    "no output is what it is after k1": ("tuple(s, k1)", "tuple(s, other)"),
    "the outputs 1, 2 may all be": (
        "(f32[2,8], f32[2,8,4]) tuple(s, k1)",
        "(f32[2,8], f32[2,8,4], f32[2,8,4]) tuple(s, k1, k1)",
    ),
    "of what is written at once": ("row = f32[2,1,4]", "row = f32[2,1,2]"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_cache(reason: str):
    old, new = REFUSED[reason]
    text = ONE_HEAD.replace(old, new).replace("ENTRY step {", "ENTRY step {\n  other = f32[2,8,4] parameter(4)")
    if reason.startswith("nothing"):
        text = text.replace("q, k1)", "q, k)")
    with pytest.raises(HloomError, match=f"k is not a cache: .*{reason}"):
        hloom.quantize(hloom.parse(text), None, cache={"k": "int8"})


def test_what_is_computed_of_a_cache_is_none():
    text = ONE_HEAD.replace("ROOT t", "k2 = f32[2,8,4] tanh(k1)\n  ROOT t").replace("tuple(s, k1)", "tuple(s, k2)")
    with pytest.raises(HloomError, match="step has no cache to quantise; k: it is not a cache: no output is what it is"):
        hloom.quantize(hloom.parse(text), None, cache="int8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": "int3"}, "there is no number format 'int3'"),
        ({"cache": "int8:x"}, "'int8:x' has no group size"),
        ({"cache": {}}, "no cache is named"),
        ({"cache": {"kk": "int8"}}, "the program has no parameter 'kk'"),
        ({"cache": {"k": "int8", "0": "int8"}}, "the cache k is named twice"),
        ({"cache": {"i": "int8"}}, r"i is not a cache: it is s32\[\]: only floats"),
        ({}, "no weights are quantised"),
        ({"cache": "int8", "activations": "dynamic"}, "no weights are quantised: activations are with them"),
    ],
)
def test_recipes_that_make_no_sense(options: dict, message: str):
    with pytest.raises(HloomError, match=message):
        hloom.quantize(hloom.parse(ONE_HEAD), None, **options)


def test_hostile_sizes():
    """Nothing is computed until arrays come; an array without elements has no rows."""
    made = hloom.quantize(hloom.parse(ONE_HEAD.replace("2,8", "2,1073741824")), None, cache="int8")
    assert made.caches[0].bytes_before == 2**35
    with pytest.raises(HloomError, match="it has no rows"):
        hloom.quantize(hloom.parse(ONE_HEAD.replace("2,8", "2,0").replace("[2,1,4]", "[2,0,4]")), None, cache={"k": "int8"})  # fmt: skip


def test_checkpoints_have_no_caches():
    module, arrays = decode("layers")
    made: Quantization = hloom.quantize(module, "int8", cache="int8")
    named = {p.name: a for p, a in zip(module.entry.parameters, arrays, strict=True) if "cache" not in p.name}
    assert not any("cache" in name for name in made.convert(named))
