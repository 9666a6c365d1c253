"""SmoothQuant: the smoothed program computes the same, and quantises better.

Covers `smooth_quant.py`, `smoothing_recipe.py`, `scale_folding.py`, `scale_parameters.py`, `product_observer.py`.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.compress.quantization import gptq, report
from hloom.text import HloomError
from tests.compress.quantization.programs import ARGUMENTS, lowered, normal

LAYERS, WIDTH, HIDDEN = 3, 16, 24


def normalised(h, gain, bias):
    return (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5) * gain + bias


def transformer(params, x):
    """Layers in a loop, as they are written: norms before projections that share them, a relu, a gate."""

    def layer(h, p):
        n = normalised(h, p["gain"], p["bias"])
        q, k, v = (jnp.einsum("td,dhk->thk", n, p[name]) for name in "qkv")
        a = jnp.einsum("hts,shk->thk", jax.nn.softmax(jnp.einsum("thk,shk->hts", q, k)), v)
        h = h + jnp.einsum("thk,hkd->td", a, p["o"])
        n = normalised(h, p["gain2"], p["bias2"])
        return h + (jnp.tanh(n @ p["gate"]) * jax.nn.relu(n @ p["up"] + p["lift"])) @ p["down"], None

    return jax.lax.scan(layer, x, params)[0]


def outlying(*shape: int, seed: int) -> np.ndarray:
    """Gains of norms as large models have them: a few channels are far greater than the others, in every layer others."""
    gains = np.abs(normal(*shape, seed=seed, scale=0.2)) + 1
    for row, gain in enumerate(gains):
        gain[[row, 2 * row + 5]] *= 40
    return gains.astype(np.float32)


def parameters() -> dict[str, np.ndarray]:
    shapes = {"q": (4, 4), "k": (4, 4), "v": (4, 4), "gate": (HIDDEN,), "up": (HIDDEN,)}
    made = {n: normal(LAYERS, WIDTH, *shape, seed=i, scale=0.01) for i, (n, shape) in enumerate(shapes.items())}
    made |= {
        "o": normal(LAYERS, 4, 4, WIDTH, seed=8, scale=0.2),
        "down": normal(LAYERS, HIDDEN, WIDTH, seed=9, scale=0.2),
    }
    made |= {"gain": outlying(LAYERS, WIDTH, seed=10), "gain2": outlying(LAYERS, WIDTH, seed=11)}
    biases = {"bias": WIDTH, "bias2": WIDTH, "lift": HIDDEN}
    return made | {name: normal(LAYERS, size, seed=12, scale=0.1) for name, size in biases.items()}


def model(dtype=jnp.float32) -> tuple[hloom.Module, list]:
    arguments = jax.tree.map(lambda array: np.asarray(array, dtype), (parameters(), normal(20, WIDTH)))
    return hloom.load(jax.jit(transformer).lower(*arguments)), list(jax.tree.leaves(arguments))


def with_input(arrays: list, x: np.ndarray) -> list:
    return [*arrays[:-1], x.astype(arrays[-1].dtype)]


def relative(y: np.ndarray, original: np.ndarray) -> float:
    return float(np.linalg.norm(y.astype(np.float64) - original) / np.linalg.norm(original.astype(np.float64)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smoothing": 0.5}, "smoothing is for products of narrow types"),
        ({"smoothing": 0.5, "activations": "dynamic"}, "smoothing needs inputs to measure activations on"),
        ({"smoothing": 1.5, "activations": "dynamic", "calibration": [[]]}, "1.5 is not a valid smoothing alpha"),
        (
            {"smoothing": float("nan"), "activations": "dynamic", "calibration": [[]]},
            "nan is not a valid smoothing alpha",
        ),
        ({"smoothing": "much", "activations": "dynamic", "calibration": [[]]}, "'much' is not a smoothing option"),
    ],
)
def test_what_makes_no_sense(options: dict, message: str):
    with pytest.raises(HloomError) as raised:
        hloom.quantize(lowered("mlp")[0], **options)
    assert raised.value.message.startswith(message)


def test_inputs_that_are_not_finite():
    module, arrays = lowered("mlp")
    broken = [*arrays[:3], np.full_like(arrays[3], np.inf)]
    with pytest.raises(HloomError, match="an activation is NaN or infinite on the inputs of the calibration"):
        hloom.quantize(module, activations="dynamic", smoothing=0.5, calibration=[broken])


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smooth everything, whether it helps or not."""
    module = sys.modules["hloom.compress.quantization.smooth_quant"]
    monkeypatch.setattr(module, "_chosen_alpha", lambda group, arrays, alpha, *_: (alpha or 0.5, (1.0, 0.5)))


@pytest.mark.parametrize("activations", ["dynamic", "static"])
@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_an_alpha_that_does_not_help_is_not_taken(activations: str, alpha: float):
    """White activations have no outliers: rows that are held out say so."""
    module, arrays = lowered("mlp")
    batches = [[*arrays[:-1], normal(5, 12, seed=seed)] for seed in range(8)]
    made = hloom.quantize(module, activations=activations, smoothing=alpha, calibration=batches, only=["params.up"])
    assert made.smoothing is not None and not made.smoothing.activations
    (reason,) = [left.reason for left in made.exclusions if "held out" in left.reason]
    assert reason.startswith(f"its outliers stay: an alpha of {alpha} does not make the error of its products smaller")
    plain = hloom.quantize(
        module, activations=activations, calibration=batches if activations == "static" else (), only=["params.up"]
    )
    assert hloom.print(made.module) == hloom.print(plain.module)


def test_static_ranges_are_tried_on_inputs_that_are_held_out():
    """Beside a channel of outliers every input has one of its own: its other rows know it, and other inputs do not."""
    module, arrays = lowered("mlp")
    outliers = 1 + 9 * np.eye(12, dtype=np.float32)[1:]
    outliers[:, 0] = 40
    batches = [[*arrays[:-1], (1 + normal(5, 12, seed=n, scale=0.1)) * row] for n, row in enumerate(outliers)]
    options = {"smoothing": 0.5, "calibration": batches, "only": ["params.up"]}
    static, dynamic = (hloom.quantize(module, activations=name, **options) for name in ("static", "dynamic"))
    assert static.smoothing is not None and not static.smoothing.activations
    assert dynamic.smoothing is not None and dynamic.smoothing.activations


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("alpha", [0.3, 0.5, "search"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_smoothed_program_computes_the_same(name: str, alpha: float | str):
    module, arrays = lowered(name)
    if name == "convolutions":
        made = hloom.quantize(module, activations="dynamic", smoothing=alpha, calibration=[arrays])
        assert made.smoothing is not None and not made.smoothing.activations
        assert any("it is not read by one dot alone" in left.reason for left in made.exclusions)
        return
    made = hloom.quantize(module, activations="dynamic", smoothing=alpha, calibration=[arrays])
    smoothing = made.smoothing
    assert smoothing is not None and smoothing.activations
    converted = smoothing.convert(arrays)
    assert [array.shape for array in converted] == [p.array_type.dims for p in smoothing.module.entry.parameters]
    original = hloom.run(module, arrays).outputs
    assert not hloom.compare(hloom.run(smoothing.module, converted).outputs, original, rtol=1e-4)


@pytest.mark.usefixtures("unguarded")
def test_scales_go_where_they_cost_nothing():
    """Norms, the gate's other factor and the values of attention take them, layer by layer: the program stays as it is."""
    module, arrays = model()
    made = hloom.quantize(module, activations="static", smoothing=0.5, calibration=[arrays])
    smoothing = made.smoothing
    assert smoothing is not None and smoothing.added == ()
    paths = {p.name: p.metadata.op_name for p in module.entry.parameters if p.metadata is not None}
    taken = {
        frozenset(paths[name].split("'")[1] for name in one.weights): {paths[name].split("'")[1] for name in one.folded}
        for one in smoothing.activations
    }
    assert taken == {
        frozenset("qkv"): {"gain", "bias"},
        frozenset({"o"}): {"v"},
        frozenset({"gate", "up"}): {"gain2", "bias2"},
        frozenset({"down"}): {"up", "lift"},
    }
    original = hloom.run(module, arrays).outputs
    assert not hloom.compare(hloom.run(smoothing.module, smoothing.convert(arrays)).outputs, original, rtol=1e-4)


def test_outliers_cost_less():
    module, arrays = model()
    batches = [with_input(arrays, normal(20, WIDTH, seed=seed)) for seed in range(1, 17)]
    original = hloom.run(module, arrays).outputs[0]
    errors = {}
    for smoothing in (None, 0.5, "search"):
        made = hloom.quantize(module, activations="static", smoothing=smoothing, calibration=batches)
        errors[smoothing] = relative(hloom.run(made.module, made.convert(arrays)).outputs[0], original)
    assert errors[0.5] < 0.5 * errors[None] and errors["search"] < 0.5 * errors[None]


def test_a_search_measures_products():
    module, arrays = model()
    made = hloom.quantize(module, activations="static", smoothing="search", calibration=[arrays])
    assert made.smoothing is not None
    assert all(one.errors is not None and one.errors[1] < one.errors[0] for one in made.smoothing.activations)


def test_narrow_programs_take_powers_of_two():
    """In bf16 nothing is rounded otherwise: the smoothed program's numbers are the original's."""
    module, arrays = model(jnp.bfloat16)
    made = hloom.quantize(module, activations="dynamic", smoothing=0.5, calibration=[arrays])
    smoothing = made.smoothing
    assert smoothing is not None and smoothing.activations
    for number, factor in smoothing.factors.items():
        mantissas, _ = np.frexp(factor)
        assert (mantissas == 0.5).all(), number
    smoothed = hloom.run(smoothing.module, smoothing.convert(arrays)).outputs[0]
    assert (smoothed == hloom.run(module, arrays).outputs[0]).all()


LOOP = """body {
  s = (s32[], f32[8,6], f32[3,6,6], f32[3,6,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  y = f32[8,6] get-tuple-element(s), index=1
  w = f32[3,6,6] get-tuple-element(s), index=2
  u = f32[3,6,6] get-tuple-element(s), index=3
  h = f32[8,6] cosine(y)
  c = f32[1,6,6] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,6,6}
  r = f32[6,6] reshape(c)
  d = f32[1,6,6] dynamic-slice(u, OTHER, zero, zero), dynamic_slice_sizes={1,6,6}
  e = f32[6,6] reshape(d)
  p = f32[8,6] dot(h, r), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  q = f32[8,6] dot(h, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  m = f32[8,6] multiply(p, q)
  ROOT t = (s32[], f32[8,6], f32[3,6,6], f32[3,6,6]) tuple(next, m, w, u)
}
condition {
  s = (s32[], f32[8,6], f32[3,6,6], f32[3,6,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT
}
ENTRY main {
  y = f32[8,6] parameter(0)
  w0 = f32[SHAPE] parameter(1)
  w = f32[3,6,6] reshape(w0)
  u = f32[3,6,6] parameter(2)
  zero = s32[] constant(0)
  state = (s32[], f32[8,6], f32[3,6,6], f32[3,6,6]) tuple(zero, y, w, u)
  loop = (s32[], f32[8,6], f32[3,6,6], f32[3,6,6]) while(state), condition=condition, body=body
  ROOT out = f32[8,6] get-tuple-element(loop), index=1
}"""


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize(("other", "readers"), [("i", [2]), ("one", [1, 1]), ("next", [1, 1])])
def test_readers_in_a_loop_share_a_scale_where_they_are_of_one_layer(other: str, readers: list[int]):
    """`next` and `one` read other layers of the other stack; scales follow a weight that is moved before the loop."""
    module = hloom.parse(LOOP.replace("OTHER", other).replace("SHAPE", "3,1,6,6"))
    arrays = [normal(8, 6), normal(3, 1, 6, 6), normal(3, 6, 6, seed=1)]
    made = hloom.quantize(module, activations="dynamic", smoothing=0.5, calibration=[arrays], only=["w0", "u"])
    smoothing = made.smoothing
    assert smoothing is not None
    original = hloom.run(module, arrays).outputs
    assert not hloom.compare(hloom.run(smoothing.module, smoothing.convert(arrays)).outputs, original, rtol=1e-4)
    assert [len(one.readers) for one in smoothing.activations] == readers


@pytest.mark.usefixtures("unguarded")
def test_layers_that_are_no_dimension_keep_their_outliers():
    module = hloom.parse(LOOP.replace("OTHER", "next").replace("SHAPE", "18,6"))
    arrays = [normal(8, 6), normal(18, 6), normal(3, 6, 6, seed=1)]
    made = hloom.quantize(module, activations="dynamic", smoothing=0.5, calibration=[arrays], only=["w0", "u"])
    assert made.smoothing is not None and [one.weights for one in made.smoothing.activations] == [("u",)]
    assert "h: its outliers stay: its weight is moved so that no scale can follow" in [
        f"{left.name}: {left.reason}" for left in made.exclusions
    ]


def test_checkpoints_by_name():
    module, arrays = model()
    made = hloom.quantize(module, activations="static", smoothing=0.5, calibration=[arrays])
    named = dict(zip((p.name for p in module.entry.parameters), arrays, strict=True))
    by_name = made.convert(named)
    in_order = dict(zip((p.name for p in made.module.entry.parameters), made.convert(arrays), strict=True))
    assert by_name.keys() == in_order.keys()
    assert all((by_name[name] == in_order[name]).all() for name in by_name)


def test_gptq_of_a_smoothed_program():
    module, arrays = model()
    made = hloom.quantize(module, "int4", activations="dynamic", smoothing=0.5, calibration=[arrays])
    original = hloom.run(module, arrays).outputs[0]
    rounded, nearest = (
        hloom.run(made.module, c).outputs[0] for c in (gptq(made, arrays, [arrays]), made.convert(arrays))
    )
    assert relative(rounded, original) < 1.2 * relative(nearest, original)
    assert all(product.noise is not None for product in report(made, arrays).products)
