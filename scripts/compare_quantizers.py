"""Compare the errors of hloom's quantisation with those of Qwix and AQT, on the models of docs/quantize.md.

    python scripts/compare_quantizers.py

A line for each recipe, its relative errors for a two-layer perceptron and a transformer block on inputs that were not
calibrated with. Peers that are not installed (`pip install qwix aqtp`) are left, and named. ONNX Runtime needs graphs
of its own, and is not among them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hloom
from hloom.quantization import round_by_gptq

WIDTH, HIDDEN, HEADS, ROWS, BATCH = 256, 1024, 4, 32, 8
RECIPES: dict[str, dict[str, Any]] = {
    "weights int8": {"weights": "int8"},
    "weights int4": {"weights": "int4"},
    "weights int4:32": {"weights": "int4:32"},
    "weights int4:128": {"weights": "int4:128"},
    "weights int4:32, zero points": {"weights": "int4:32", "symmetric": False},
    "weights int4:128, zero points": {"weights": "int4:128", "symmetric": False},
    "dynamic int8": {"activations": "dynamic"},
    "static int8, minmax": {"activations": "static", "clipping": "minmax"},
    "static int8, percentile": {"activations": "static", "clipping": "percentile"},
    "static int8, mse": {"activations": "static", "clipping": "mse"},
    "static int8, SmoothQuant": {"activations": "static", "smoothing": "search"},
}
Dot = Callable[[Any, Any], Any]
Model = Callable[[dict[str, Any], Any, Dot], Any]


def perceptron(params: dict[str, Any], x: Any, dot: Dot) -> Any:
    """Two products with a relu between them."""
    return dot(jax.nn.relu(dot(x, params["up"])), params["down"])


def normalized(x: Any) -> Any:
    """Of mean zero and variance one."""
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def block(params: dict[str, Any], x: Any, dot: Dot) -> Any:
    """A transformer block."""
    size = WIDTH // HEADS
    q, k, v = (dot(normalized(x), params[name]).reshape(BATCH, ROWS, HEADS, size) for name in "qkv")
    scores = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k) / np.sqrt(size))
    h = x + dot(jnp.einsum("bhts,bshk->bthk", scores, v).reshape(BATCH, ROWS, WIDTH), params["o"])
    return h + perceptron(params, normalized(h), dot)


MODELS: dict[str, Model] = {"perceptron": perceptron, "block": block}


def weights() -> dict[str, dict[str, np.ndarray]]:
    """Of Student's t with five degrees of freedom."""
    generator = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return (generator.standard_t(5, shape) / np.sqrt(shape[0])).astype(np.float32)

    ends = {"up": draw(WIDTH, HIDDEN), "down": draw(HIDDEN, WIDTH)}
    heads = {name: draw(WIDTH, WIDTH) for name in "qkvo"}
    return {"perceptron": ends, "block": {**heads, "up": draw(WIDTH, HIDDEN), "down": draw(HIDDEN, WIDTH)}}


def inputs() -> list[np.ndarray]:
    """Eight to calibrate with, and one more; three channels are eight times as large."""
    generator = np.random.default_rng(1)
    scale = np.exp(0.5 * generator.standard_normal(WIDTH))
    scale[generator.choice(WIDTH, 3, False)] *= 8
    return [(generator.standard_normal((BATCH, ROWS, WIDTH)) * scale).astype(np.float32) for _ in range(9)]


def relative(made: Any, exact: np.ndarray) -> float:
    """The norm of the difference over that of the exact values."""
    return float(np.linalg.norm(np.asarray(made) - exact) / np.linalg.norm(exact))


def hloom_errors(model: Model, params: dict[str, np.ndarray], batches: list[np.ndarray]) -> Iterator[tuple[str, float]]:
    """By recipe, and by GPTQ for groups of 32."""
    plain = jax.jit(lambda params, x: model(params, x, jnp.matmul))
    module = hloom.load(plain.lower(params, batches[0]))
    calibration = [[*jax.tree.leaves(params), batch] for batch in batches[:-1]]
    unseen = [*jax.tree.leaves(params), batches[-1]]
    exact = hloom.run(module, unseen).outputs[0]
    for name, recipe in RECIPES.items():
        options = dict(recipe)
        if recipe.get("activations") == "static":
            options["calibration"] = calibration
        made = hloom.quantize(module, **options)
        yield name, relative(hloom.run(made.module, made.convert(unseen)).outputs[0], exact)
        if name == "weights int4:32":
            rounded = round_by_gptq(made, calibration).convert(unseen)
            yield f"{name}, GPTQ", relative(hloom.run(made.module, rounded).outputs[0], exact)


def qwix_errors(model: Model, params: dict[str, np.ndarray], batches: list[np.ndarray]) -> Iterator[tuple[str, float]]:
    """Through a flax model: its Dense layers are what Qwix quantises."""
    import qwix  # pyright: ignore[reportMissingImports]
    from flax import linen  # pyright: ignore[reportMissingImports]

    class Layers(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            def dense(h: Any, name: Any) -> Any:
                return linen.Dense(params[name].shape[1], use_bias=False, dtype=jnp.float32, name=name)(h)

            return model({name: name for name in params}, x, dense)

    held = {name: {"kernel": jnp.asarray(value)} for name, value in params.items()}
    exact = np.asarray(model(params, batches[-1], jnp.matmul))
    rules: dict[str, dict[str, Any]] = {
        "weights int8": {"weight_qtype": "int8"},
        "weights int4": {"weight_qtype": "int4"},
        "weights int4:32": {"weight_qtype": "int4", "tile_size": 32},
        "weights int4:128": {"weight_qtype": "int4", "tile_size": 128},
        "dynamic int8": {"weight_qtype": "int8", "act_qtype": "int8"},
    }
    for name, rule in rules.items():
        provider = qwix.PtqProvider([qwix.QtRule(module_path="|".join(params), **rule)])
        quantized = qwix.quantize_model(Layers(), provider)
        shapes = jax.eval_shape(quantized.init, jax.random.key(0), batches[0])["params"]
        converted = qwix.quantize_params(held, shapes)
        yield name, relative(quantized.apply({"params": converted}, batches[-1]), exact)


class _ArrayTypes:
    """jax.numpy, but `promote_types` takes arrays too, as AQT 0.9.0 calls it and JAX 0.10 no longer allows."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    def promote_types(self, a: Any, b: Any) -> Any:
        """The type that both convert to."""
        return jnp.promote_types(getattr(a, "dtype", a), getattr(b, "dtype", b))


def aqt_errors(model: Model, params: dict[str, np.ndarray], batches: list[np.ndarray]) -> Iterator[tuple[str, float]]:
    """Its dot_general in the place of JAX's."""
    from aqt.jax.v2 import aqt_dot_general, config  # pyright: ignore[reportMissingImports]

    aqt_dot_general.jnp = _ArrayTypes()
    exact = np.asarray(model(params, batches[-1], jnp.matmul))
    bits = {"weights int8": (None, 8), "weights int4": (None, 4), "dynamic int8": (8, 8)}
    for name, (left, right) in bits.items():
        product = config.config_v4(fwd_bits=8)
        config.set_bits(product, left, right, None, None, None, None)

        def dot(x: Any, w: Any, product: Any = product) -> Any:
            return product(x, jnp.asarray(w), (((x.ndim - 1,), (0,)), ((), ())))

        yield name, relative(model(params, batches[-1], dot), exact)


PEERS = {"hloom": ("hloom", hloom_errors), "Qwix": ("qwix", qwix_errors), "AQT": ("aqt", aqt_errors)}


def main() -> None:
    """Print the errors, recipe by recipe."""
    batches, params = inputs(), weights()
    for peer, (package, errors) in PEERS.items():
        if importlib.util.find_spec(package) is None:
            print(f"{peer} is not installed")
            continue
        by_model = [dict(errors(model, params[name], batches)) for name, model in MODELS.items()]
        for recipe, error in by_model[0].items():
            print(f"{peer:6} {recipe:32} {error:.4f} {by_model[1][recipe]:.4f}", flush=True)


if __name__ == "__main__":
    main()
