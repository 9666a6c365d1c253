"""`jit` is `jax.jit` with another program: what it takes, gives, compiles and refuses.

Covers `lowering.py`, `primitive.py`, `preflight.py`, `emitter.py`, `jax_internals.py`.
"""

import os
from collections import namedtuple
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

from hloom.ir import Module, TensorType, TupleType, dtype
from hloom.ops import OPS
from hloom.runtime import xla
from hloom.runtime.jit_rewrite import jit
from hloom.runtime.library_names import numbers
from hloom.runtime.transformation import RewriteError
from hloom.text import HloomError, Unsupported
from tests.runtime.changes import everything, fuse_each, fuse_reciprocal_root, nothing, raising, sine_to_cosine

X = jnp.arange(6.0).reshape(2, 3) / 6
LARGE = jnp.asarray(np.random.default_rng(0).standard_normal((200, 200)), jnp.float32)
Pair = namedtuple("Pair", "left right")


def assert_same(ours, theirs):
    """The same tree of the same types and numbers, weakness of types included."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert one.aval == other.aval
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-5)


# Changing the program


def test_a_change_that_changes_results():
    np.testing.assert_allclose(jit(jnp.sin, sine_to_cosine)(X), jnp.cos(X), rtol=1e-6)


def test_a_change_that_only_fuses():
    def normalised(x):
        return x / jnp.sqrt(x * x + 1)

    fused = jit(normalised, fuse_reciprocal_root)
    assert_same(fused(X), jax.jit(normalised)(X))
    opcodes = [node.opcode for node in fused.rewritten(X).nodes()]
    assert "rsqrt" in opcodes and not {"sqrt", "divide"} & set(opcodes)


def test_fusions_made_by_hand():
    def function(x):
        return jnp.sin(x) * 2

    assert_same(jit(function, fuse_each("sine"))(X), jax.jit(function)(X))


def test_the_change_sees_the_whole_function_under_its_own_names():
    seen: list[Module] = []

    def function(x, y):
        return jnp.sin(x["angle"]) @ jax.jit(jnp.cos)(y)

    jit(function, lambda module: seen.append(module))({"angle": X}, X.T)
    (module,) = seen
    assert module.name == "function"
    assert [parameter.metadata.op_name for parameter in module.entry.parameters] == ["x['angle']", "y"]  # pyright: ignore[reportOptionalMemberAccess]
    assert {"sine", "cosine", "dot"} <= {node.opcode for node in module.nodes()}


def test_rewritten_is_the_module_that_xla_gets():
    module = jit(lambda x: jnp.sin(x) + 1, sine_to_cosine).rewritten(X)
    assert [node.opcode for node in module.entry.nodes] == ["parameter", "cosine", "constant", "broadcast", "add"]
    assert len(module.graphs) == 1


def test_changes_nest_from_the_inside_out():
    seen = []

    def outer(module):
        seen.extend(node.opcode for node in module.nodes())

    inner = jit(jnp.sin, sine_to_cosine)
    np.testing.assert_allclose(jit(lambda x: inner(x) * 2, outer)(X), jnp.cos(X) * 2, rtol=1e-6)
    assert "cosine" in seen and "sine" not in seen


def test_functions_of_one_name_stay_apart():
    def main(x):
        return jnp.sin(x)

    rewritten = jit(main, sine_to_cosine)
    result = jax.jit(lambda x: rewritten(x) + rewritten(x + 1) + main(x))(X)
    np.testing.assert_allclose(result, jnp.cos(X) + jnp.cos(X + 1) + jnp.sin(X), rtol=1e-5)


# What jax.jit takes and gives

KEY = jax.random.key(1)
FUNCTIONS = {
    "namedtuples, dicts and None": (
        lambda pair, d: (Pair(pair.right, None), {"x": [d["q"], ()]}),
        Pair(X, None),
        {"q": 1},
    ),
    "closures over arrays": (lambda x: x @ jnp.ones((3, 2)) + np.arange(4.0, dtype=np.float32).reshape(2, 2), X),
    "closures over large arrays": (lambda x: (LARGE @ LARGE)[:2, :3] + x, X),
    "weak integers": (lambda x: (x * 2, 1.0, x + 1), 3),
    "weak floats": (lambda x: (x * 2, 1, x + 1), 3.0),
    "no arguments": (lambda: jnp.ones(3),),
    "no results": (lambda x: None, X),
    "results that are arguments": (lambda x, y: (y, x, x), X, X + 1),
    "unused arguments": (lambda x, y: y * 2, X, X),
    "element types": (lambda x: (x.astype(jnp.bfloat16), x + 1j, x > 2, x.astype(int), x.astype(jnp.uint8)), X),
    "typed random keys": (lambda k: (jax.random.split(k), jax.random.normal(k, (3,))), KEY),
    "raw random keys": (lambda k: (jax.random.split(k), jax.random.normal(k, (3,))), jax.random.PRNGKey(1)),
    "keys of XLA's generator": (lambda k: jax.random.bits(k, (4,)), jax.random.key(0, impl="rbg")),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, jnp.sin(c) * r), x[0], x), X),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 1.5), (0, x)), X),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), X),
    "linear algebra": (lambda x: (jnp.linalg.svd(x), jnp.linalg.cholesky(x @ x.T + jnp.eye(2)), lax.top_k(x, 2)), X),
    "gather and scatter": (lambda x: (x[jnp.array([1, 0])], x.at[0].add(1), jnp.argmax(x)), X),
    "references inside": (lambda x: _doubled(jax.new_ref(x)), X),
}


def _doubled(reference):
    reference[...] = reference[...] * 2
    return jnp.sin(reference[...])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_like_jax_jit(name):
    function, *arguments = FUNCTIONS[name]
    assert_same(jit(function, everything)(*arguments), jax.jit(function)(*arguments))


def test_like_jax_jit_where_nothing_is_changed():
    function, *arguments = FUNCTIONS["scan"]
    assert_same(jit(function, nothing)(*arguments), jax.jit(function)(*arguments))


def test_static_arguments_by_number_and_by_name():
    def function(shape, x, *, times=2, flag):
        return jnp.sin(x).reshape(shape) * times if flag else x

    changed = jit(function, sine_to_cosine, static_argnums=0, static_argnames=("times", "flag"))
    np.testing.assert_allclose(changed((3, np.int64(2)), X, flag=True), jnp.cos(X).reshape(3, 2) * 2, rtol=1e-5)
    np.testing.assert_allclose(changed((3, 2), X, times=5, flag=True), jnp.cos(X).reshape(3, 2) * 5, rtol=1e-5)
    np.testing.assert_allclose(changed((3, 2), X, flag=False), X)


def test_methods_and_partial_functions():
    class Layer:
        def apply(self, x, scale):
            return jnp.sin(x) * scale

    np.testing.assert_allclose(jit(Layer().apply, sine_to_cosine)(X, 2), jnp.cos(X) * 2, rtol=1e-5)
    np.testing.assert_allclose(jit(partial(Layer().apply, scale=3), sine_to_cosine)(X), jnp.cos(X) * 3, rtol=1e-5)


def test_donated_arguments_are_reused():
    donated, kept = X + 1, X + 2
    changed = jit(lambda x, y: jnp.sin(x) + y, sine_to_cosine, donate_argnums=0)
    expected = np.cos(donated) + np.asarray(kept)
    np.testing.assert_allclose(changed(donated, kept), expected, rtol=1e-5)
    assert donated.is_deleted() and not kept.is_deleted()
    by_name = X + 3
    jit(lambda x: jnp.sin(x), sine_to_cosine, donate_argnames="x")(x=by_name)
    assert by_name.is_deleted()


def test_unused_arguments_are_kept_on_demand():
    def function(x, y):
        return jnp.sin(y)

    assert len(jit(function, everything).rewritten(X, X).entry.parameters) == 1
    assert len(jit(function, everything, keep_unused=True).rewritten(X, X).entry.parameters) == 2


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_64_bits_on_and_off():
    changed = jit(jnp.sin, sine_to_cosine)
    with jax.enable_x64(True):
        assert changed(np.arange(3.0)).dtype == np.float64
    assert changed(np.arange(3.0)).dtype == np.float32


def test_without_compilation():
    with jax.disable_jit():
        changed = jit(lambda x, times: jnp.sin(x) * times, sine_to_cosine, static_argnums=1)
        np.testing.assert_allclose(changed(X, 2), jnp.cos(X) * 2, rtol=1e-5)


def test_host_callbacks_and_ordered_effects(capfd):
    seen = []

    def note(value):
        seen.append(float(value))
        return np.float32(value * 2)

    def function(x):
        jax.debug.print("the sum is {}", x.sum(), ordered=True)
        first = io_callback(note, jax.ShapeDtypeStruct((), jnp.float32), x.sum(), ordered=True)
        second = io_callback(note, jax.ShapeDtypeStruct((), jnp.float32), first, ordered=True)
        return jnp.sin(x), jax.pure_callback(np.negative, second, second)

    cosine, negated = jit(function, sine_to_cosine)(jnp.ones(3))
    jax.effects_barrier()
    np.testing.assert_allclose(cosine, np.cos(np.ones(3)), rtol=1e-6)
    assert seen == [3.0, 6.0] and negated == -12.0
    assert "the sum is 3.0" in capfd.readouterr().out


def test_references_as_arguments():
    reference = jax.new_ref(X)
    np.testing.assert_allclose(jit(_doubled, sine_to_cosine)(reference), jnp.cos(2 * X), rtol=1e-5)
    np.testing.assert_allclose(reference[...], 2 * X)


# Compiling


def test_compiled_once_for_each_signature():
    count = []

    def change(module):
        count.append(module)
        return sine_to_cosine(module)

    changed = jit(jnp.sin, change)
    for argument in (X, X + 1, jnp.ones(3), X, 3.0, 4.0, jnp.ones(3)):
        np.testing.assert_allclose(changed(argument), jnp.cos(argument), rtol=1e-5)
    assert len(count) == 3
    changed.clear_cache()
    changed(X)
    assert len(count) == 4


def test_the_second_call_compiles_nothing():
    changed = jit(lambda x: jnp.sin(x) + 1, sine_to_cosine)
    changed(X)
    with jax.log_compiles(False), jax.no_tracing(True):
        changed(X)


def test_lower_trace_and_eval_shape():
    changed = jit(lambda x: jnp.sin(x), sine_to_cosine)
    assert changed.eval_shape(X).shape == (2, 3)
    assert "rewritten" in str(changed.trace(X).jaxpr)
    lowered = changed.lower(X)
    assert "stablehlo.cosine" in lowered.as_text() and "stablehlo.sine" not in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(X), jnp.cos(X), rtol=1e-6)


def test_an_exported_program_is_rewritten():
    exported = jax.export.export(jit(jnp.sin, sine_to_cosine))(X)
    np.testing.assert_allclose(exported.call(X), jnp.cos(X), rtol=1e-6)


def test_the_modules_places_are_the_users_own_files():
    module = jit(lambda x: jnp.sin(x), nothing).rewritten(X)
    assert module.stack_tables is not None
    assert not [name for name in module.stack_tables.file_names.values() if "hloom/runtime" in name]
    assert __file__ in module.stack_tables.file_names.values()


# Errors


def test_an_exception_in_a_change_has_its_place():
    with pytest.raises(RewriteError) as caught:
        jit(jnp.sin, raising)(X)
    assert caught.value.message == "sin could not be rewritten: KeyError: 'no such rule'"
    assert os.path.basename(caught.value.location.source) == "changes.py"  # pyright: ignore[reportOptionalMemberAccess]
    assert "raise KeyError" in caught.value.location.excerpt  # pyright: ignore[reportOptionalMemberAccess]


def test_the_function_works_again_once_the_change_does():
    problems = [ValueError("once")]

    def change(module):
        if problems:
            raise problems.pop()
        return sine_to_cosine(module)

    changed = jit(jnp.sin, change)
    with pytest.raises(RewriteError, match="ValueError: once"):
        changed(X)
    np.testing.assert_allclose(changed(X), jnp.cos(X), rtol=1e-6)


def test_a_broken_module_never_reaches_xla():
    def change(module):
        module.entry.set_type(module.entry.root, TensorType(dtype("f32"), (7,)))

    with pytest.raises(RewriteError, match=r"sin is broken after rewriting: .* its type is f32\[7\]"):
        jit(jnp.sin, change)(X)


def test_a_module_with_holes_never_reaches_xla():
    def change(module):
        module.entry.set_type(module.entry.root, None)

    with pytest.raises(RewriteError, match="sin is not a complete HLO program after rewriting"):
        jit(jnp.sin, change)(X)


def test_a_change_keeps_the_types_of_the_function():
    def change(module):
        entry, root = module.entry, module.entry.root
        entry.set_output(entry.add_apply(OPS["tuple"], (root,), TupleType((root.type,))))

    with pytest.raises(RewriteError) as caught:
        jit(jnp.sin, change)(X)
    types = "(f32[2,3]{1,0}) -> ((f32[2,3]{1,0})), before: (f32[2,3]{1,0}) -> (f32[2,3]{1,0})"
    assert caught.value.message == f"sin has other types after rewriting: {types}"
    assert caught.value.hint == "a change must keep the entry's parameters and the type of its result"


def test_what_stablehlo_does_not_take_is_an_error(monkeypatch):
    def refuse(proto):
        raise ValueError("no such operation")

    monkeypatch.setattr(xla, "stablehlo_of_proto", refuse)
    with pytest.raises(RewriteError, match="XLA does not take sin after rewriting: no such operation"):
        jit(jnp.sin, everything)(X)


@pytest.mark.skipif(numbers(jax.__version__) >= (0, 11), reason="XLA compiles sinh since jaxlib 0.11")
def test_what_the_backend_does_not_take_is_jaxs_error():
    def change(module):
        module.entry.set_function(module.entry.root, OPS["sinh"])

    with pytest.raises(jax.errors.JaxRuntimeError, match="UNIMPLEMENTED: sinh"):
        jit(jnp.sin, change)(X)


def test_symbolic_dimensions_are_refused():
    shape = jax.export.symbolic_shape("n, 3")
    with pytest.raises(Unsupported, match="HLO has no symbolic dimensions"):
        jax.export.export(jit(jnp.sin, everything))(jax.ShapeDtypeStruct(shape, jnp.float32))


def test_several_platforms_at_once_are_refused():
    with pytest.raises(Unsupported, match=r"symbolic dimensions|several platforms"):
        jax.export.export(jit(jnp.sin, everything), platforms=("cpu", "tpu"))(X)


def test_only_functions_are_compiled_and_change_modules():
    with pytest.raises(HloomError, match="expected a function to compile, not int"):
        jit(3, everything)  # pyright: ignore[reportArgumentType]
    with pytest.raises(HloomError, match="expected a function of a module, not str"):
        jit(jnp.sin, "simplify")  # pyright: ignore[reportArgumentType]
