"""`inside_jit` changes what XLA has optimised, for as long as its block runs."""

import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from hloom.ir import TensorType, dtype
from hloom.ops import OPS
from hloom.runtime.inside_jit import inside_jit
from hloom.runtime.transformation import RewriteError
from hloom.text import HloomError
from tests.runtime.changes import (
    everything,
    fuse_each,
    nothing,
    raising,
    sine_to_cosine,
    sine_to_square_of_cosine,
)

X = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
STAGES = ("pre_scheduler", "post_scheduler")
SQUARE = np.cos(X) ** 2


def assert_close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stage", STAGES)
def test_functions_compiled_before_inside_and_after(stage):
    before = jax.jit(lambda x: jnp.sin(x) * 2)
    inside = jax.jit(lambda x: jnp.sin(x) * 3)
    assert_close(before(X), np.sin(X) * 2)
    with inside_jit(sine_to_cosine, stage=stage):
        assert_close(before(X), np.cos(X) * 2)
        assert_close(inside(X), np.cos(X) * 3)
        assert_close(jnp.sin(X), np.cos(X))
    assert_close(before(X), np.sin(X) * 2)
    assert_close(inside(X), np.sin(X) * 3)
    assert_close(jax.jit(lambda x: jnp.sin(x) * 4)(X), np.sin(X) * 4)


@pytest.mark.parametrize("stage", STAGES)
def test_nodes_that_a_change_adds_get_layouts_and_places_in_the_schedule(stage):
    with inside_jit(sine_to_square_of_cosine, stage=stage):
        assert_close(jax.jit(lambda x: jnp.sin(x) * 2)(X), SQUARE * 2)
        assert_close(jax.jit(lambda x: jnp.sin(x.T).sum(0) + jnp.sin(x @ x))(X), SQUARE.sum(1) + np.cos(X @ X) ** 2)
        assert_close(jax.jit(lambda x: jnp.sin(x).T @ x)(X), SQUARE.T @ X)


@pytest.mark.parametrize("stage", STAGES)
def test_under_transformations(stage):
    with inside_jit(sine_to_square_of_cosine, stage=stage):
        assert_close(jax.grad(lambda x: -jnp.cos(x).sum())(X), SQUARE)
        assert_close(jax.vmap(jnp.sin)(X), SQUARE)
        assert_close(lax.scan(lambda carry, row: (carry, jnp.sin(row)), 0, X)[1], SQUARE)
        assert_close(lax.fori_loop(0, 2, lambda _, x: jnp.sin(x), X), np.cos(SQUARE) ** 2)


def test_a_change_that_only_fuses():
    function = jax.jit(lambda x: jnp.sin(x).T + x @ x)
    expected = function(X)
    with inside_jit(fuse_each("dot")), inside_jit(fuse_each("copy")):
        assert_close(function(X), expected)


PROGRAMS = {
    "linear algebra": lambda x: (jnp.linalg.svd(x), jnp.linalg.inv(x + jnp.eye(8))),
    "sorting": lambda x: (jnp.sort(x), lax.top_k(x, 2)),
    "random numbers": lambda x: jax.random.normal(jax.random.key(0), (4,)),
    "fft": lambda x: jnp.fft.fft(x),
    "softmax": lambda x: jax.nn.softmax(x @ x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "convolution": lambda x: lax.conv(x.reshape(1, 1, 8, 8), x[:2, :2].reshape(1, 1, 2, 2), (1, 1), "SAME"),
    "scatter": lambda x: (x.at[jnp.array([1, 2])].add(1.0), jnp.cumsum(x, 0), jnp.argmax(x, 0)),
    "callback": lambda x: jax.pure_callback(np.negative, x, x),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_comes_back_to_xla_as_it_was(name, stage):
    expected = jax.jit(PROGRAMS[name])(X)
    with inside_jit(everything, stage=stage):
        actual = jax.jit(PROGRAMS[name])(X)
    jax.tree.map(assert_close, actual, expected)


def test_what_a_change_sees():
    seen = {}

    def change(module):
        seen[module.is_scheduled] = [node.opcode for node in module.nodes()]
        return False

    function = jax.jit(lambda x: jnp.sin(x) * 2 + 1)
    with inside_jit(change), inside_jit(change, stage="post_scheduler"):
        function(X)
    assert set(seen) == {False, True}
    assert "fusion" in seen[False] and "sine" in seen[False]


def test_a_decorator():
    @inside_jit(sine_to_cosine)
    def computed(x):
        return jnp.sin(x)

    assert_close(computed(X), np.cos(X))
    assert_close(jnp.sin(X), np.sin(X))
    assert_close(computed(X), np.cos(X))


def test_blocks_nest_and_the_outer_change_comes_first():
    order = []
    function = jax.jit(lambda x: jnp.sin(x) * 2)
    with inside_jit(lambda module: order.append("outer") or False):
        with inside_jit(lambda module: order.append("inner") or False):
            function(X)
        assert order == ["outer", "inner"]
        function(X)
        assert order == ["outer", "inner", "outer"]
    function(X)
    assert len(order) == 3


def test_other_threads_are_changed_too():
    results = []

    def work(scale):
        results.append(float(jax.jit(lambda x: jnp.sin(x) * scale)(0.0)))

    with inside_jit(sine_to_cosine):
        threads = [threading.Thread(target=work, args=(scale,)) for scale in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == [1, 2, 3, 4]


def test_the_persistent_cache_is_left_alone(tmp_path):
    settings = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    function = jax.jit(lambda x: jnp.sin(x) * 7)
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        jax.clear_caches()
        function(X)
        written = set(tmp_path.iterdir())
        with inside_jit(sine_to_cosine):
            assert_close(function(X), np.cos(X) * 7)
            assert_close(jax.jit(lambda x: jnp.sin(x) * 8)(X), np.cos(X) * 8)
        assert written and {path.name for path in tmp_path.iterdir()} == {path.name for path in written}
        assert jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
        assert_close(function(X), np.sin(X) * 7)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        jax.clear_caches()


# Errors


def test_an_exception_in_a_change_has_its_place_and_ends_the_block():
    function = jax.jit(lambda x: jnp.sin(x) * 2)
    with pytest.raises(RewriteError) as caught, inside_jit(raising):
        function(X)
    assert "could not be rewritten: KeyError: 'no such rule'" in caught.value.message
    assert Path(caught.value.location.source).name == "changes.py"  # pyright: ignore[reportOptionalMemberAccess]
    assert isinstance(caught.value.__cause__, KeyError)
    assert_close(function(X), np.sin(X) * 2)


def test_inside_the_block_the_error_is_xlas_and_quotes_ours():
    function = jax.jit(lambda x: jnp.sin(x) * 2)
    quoted = pytest.raises(jax.errors.JaxRuntimeError, match=r"changes\.py:.*KeyError: 'no such rule'")
    with inside_jit(raising), quoted:
        function(X)
    assert_close(function(X), np.sin(X) * 2)


@pytest.mark.parametrize("transform", [lambda f: jax.grad(lambda x: f(x).sum()), jax.vmap])
def test_exceptions_under_transformations(transform):
    with pytest.raises(RewriteError, match="KeyError"), inside_jit(raising):
        transform(jax.jit(lambda x: jnp.sin(x) * 2))(X)


def test_the_blocks_own_exceptions_are_its_own():
    with pytest.raises(ZeroDivisionError), inside_jit(sine_to_cosine):
        _ = 1 / 0
    assert_close(jnp.sin(X), np.sin(X))


def test_a_broken_module_never_reaches_xla():
    def change(module):
        for node in module.nodes():
            if node.opcode == "sine":
                node.graph.set_type(node, TensorType(dtype("f32"), (3,)))

    with pytest.raises(RewriteError, match=r"is broken after rewriting: .* its type is"), inside_jit(change):
        jax.jit(lambda x: jnp.sin(x) * 2)(X)


def test_what_would_crash_xla_in_a_fusion_is_refused():
    def change(module):
        for node in module.nodes():
            if node.opcode == "sine":
                node.graph.set_function(node, OPS["custom-call"])
                node.graph.set_attributes(node, {"custom_call_target": "mine"})

    with pytest.raises(RewriteError) as caught, inside_jit(change):
        jax.jit(lambda x: jnp.sin(x) * 2)(X)
    assert "XLA's fusions take no custom-call" in caught.value.message
    assert caught.value.hint == "put it before the fusion or after it"


def test_stages_and_changes_are_checked():
    with pytest.raises(HloomError, match="XLA has no stage 'early'") as caught, inside_jit(nothing, stage="early"):  # pyright: ignore[reportArgumentType]
        pass
    assert caught.value.hint == "the stages are pre_scheduler and post_scheduler"
    with pytest.raises(HloomError, match="expected a function of a module, not str"), inside_jit("simplify"):  # pyright: ignore[reportArgumentType]
        pass
