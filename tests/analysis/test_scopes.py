"""The scope of every instruction, of what JAX, TensorFlow and PyTorch/XLA write."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from hloom.analysis import ScopePaths, scopes
from hloom.analysis.scopes import MOST_LEVELS, NO_SCOPE, pytree_path, scope_of_name
from hloom.formats.hlo import parse
from hloom.ir import Module

TENSORFLOW = """
HloModule a_inference_step_103__.7

ENTRY main {
  arg0 = f32[2,4] parameter(0), metadata={op_type="XlaLaunch" op_name="XLA_Args"}
  reshape = f32[2,4] reshape(arg0), metadata={op_name="XLA_Args"}
  arg1 = f32[4,8] parameter(1), metadata={op_name="XLA_Args"}
  MatMul.8 = f32[2,8] dot(reshape, arg1), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_type="MatMul" op_name="model/sequential_1/first_1/MatMul"}
  zero = f32[] constant(0), metadata={op_name="model/sequential_1/first_1/Relu"}
  zeros = f32[2,8] broadcast(zero), dimensions={}, metadata={op_name="model/sequential_1/first_1/Relu"}
  Relu.5 = f32[2,8] maximum(MatMul.8, zeros), metadata={op_name="model/sequential_1/first_1/Relu"}
  MatMul.12 = f32[4,8] dot(reshape, Relu.5), lhs_contracting_dims={0}, rhs_contracting_dims={0},
    metadata={op_name="gradient_tape/model/sequential_1/first_1/MatMul/MatMul"}
  Sub.1 = f32[4,8] subtract(arg1, MatMul.12), metadata={op_type="Sub" op_name="Sub"}
  ROOT XLA_Retvals.19 = (f32[2,8], f32[4,8]) tuple(Relu.5, Sub.1), metadata={op_name="XLA_Retvals"}
}
"""
PYTORCH = """
HloModule IrToHlo.69

ENTRY %IrToHlo.69 {
  %p0.1 = f32[3] parameter(0), metadata={op_type="xla__device_data" op_name="xla__device_data" source_line=6}
  %p1.2 = f32[3] parameter(1)
  %add.3 = f32[3] add(%p0.1, %p1.2), metadata={op_type="aten__add" op_name="aten__add"}
  %tanh.4 = f32[3] tanh(%add.3), metadata={op_type="aten__tanh" op_name="Sequential.1/Tanh.2/aten__tanh"}
  ROOT %tuple.5 = (f32[3]) tuple(%tanh.4)
}
"""
SHARED = """
HloModule shared

gelu {
  a = f32[4] parameter(0)
  half = f32[] constant(0.5)
  ROOT b = f32[4] tanh(a), metadata={op_name="act/tanh"}
}

sum {
  left = f32[] parameter(0)
  right = f32[] parameter(1)
  ROOT add = f32[] add(left, right)
}

ENTRY main {
  x = f32[4] parameter(0), metadata={op_name="state['w'][0]"}
  zero = f32[] constant(0)
  c0 = f32[4] call(x), to_apply=gelu, metadata={op_name="jit(f)/jvp(net)/layer_0/jit(gelu)"}
  c1 = f32[4] call(c0), to_apply=gelu, metadata={op_name="jit(f)/jvp(net)/layer_1/jit(gelu)"}
  copied = f32[4] copy(c1)
  ROOT r = f32[] reduce(copied, zero), dimensions={0}, to_apply=sum, metadata={op_name="jit(f)/jvp(net)/out/reduce_sum"}
}
"""


def texts(module: Module, paths: ScopePaths) -> dict[str, str]:
    return {f"{graph.name}/{node.name}": paths.text(node) for graph in module for node in graph.nodes}


@pytest.mark.parametrize(
    ("op_name", "scope"),
    [
        ("jit(f)/add", ""),
        ("jit(f)/jit(main)/mlp/dot_general", "mlp"),
        ("jit(f)/train/jvp(net)/dot_general", "train/forward/net"),
        ("jit(f)/jvp()/mul", "forward"),
        ("jit(f)/transpose(jvp())/mul", "backward"),
        ("jit(f)/transpose(jvp(jit(log_softmax)))", "backward"),
        ("jit(f)/jvp(jvp(a))/transpose(jvp(b))/sin", "forward/a/backward/b"),
        ("jit(f)/jvp(vmap(jit(sort)))/iota", "forward/vmap/sort"),
        ("jit(f)/jvp(blk)/shard_map/inner/psum", "forward/blk/shard_map/inner"),
        ("jit(f)/while/body/closed_call/add", "while/body"),
        ("jit(f)/cond/branch_1_fun/neg", "cond/branch_1"),
        ("jit(f)/transpose(jvp())/layer/checkpoint/rematted_computation/tanh", "backward/layer/remat"),
        ("jit(f)/layer/bqhd,bkhd->bhqk/dot_general", "layer/bqhd,bkhd->bhqk"),
        ("jit(f)/a/mul;jit(f)/b/add", "a"),
        ("aten__addmm", ""),
        ("", ""),
        ("///", ""),
        ("jit(f)/transpose(jvp(a/b))/c", "backward/a/b"),
        ("a" + "/b" * 10_000, "/".join(["a", *"b" * (MOST_LEVELS - 1)])),
        ("jvp(" * 5_000, ""),
    ],
)
def test_scope_of_an_op_name(op_name: str, scope: str):
    assert "/".join(scope_of_name(op_name)) == scope


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("x", "x"),
        ("state[0]['layers'][3]['attention']['bias']", "state/0/layers/3/attention/bias"),
        ("params['mlp/~/linear_0']['w']", "params/mlp/~/linear_0/w"),
        ("state.params[<flat index 0>]", "state/params/<flat index 0>"),
        ("x['unclosed", "x/'unclosed"),
        ("", ""),
    ],
)
def test_path_of_an_argument(name: str, path: str):
    assert "/".join(pytree_path(name)) == path


def test_jax_training_step():
    """Loops, rematerialisation and the update of each weight have scopes of their own."""

    def layer(weight, x):
        with jax.named_scope("mlp"):
            return jnp.tanh(x @ weight)

    def loss(weights, x):
        y, _ = jax.lax.scan(lambda carry, weight: (jax.checkpoint(layer)(weight, carry), None), x, weights["w"])
        with jax.named_scope("out"):
            return (jax.vmap(jax.nn.softmax)(y @ weights["head"]) ** 2).sum()

    def step(state, x):
        gradients = jax.grad(loss)(state["params"], x)
        update = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradients)
        return jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], update), update

    weights = {"w": jax.ShapeDtypeStruct((4, 8, 8), jnp.float32), "head": jax.ShapeDtypeStruct((8, 3), jnp.float32)}
    state, x = {"params": weights, "momentum": weights}, jax.ShapeDtypeStruct((2, 8), jnp.float32)
    module = parse(jax.jit(step).lower(state, x).as_text("hlo", debug_info=True))
    paths = scopes(module)
    assert len(paths) == module.node_count
    assert {paths.text(node) for node in module.entry.parameters} == {
        "inputs/state/momentum",
        "inputs/state/params",
        "inputs",
    }
    assert {paths.text(node) for node in module.nodes() if node.opcode == "tanh"} == {
        "forward/while/body/mlp",
        "backward/while/body/remat/mlp",
    }
    assert {paths.text(node) for node in module.nodes() if node.opcode == "exponential"} == {"forward/out/vmap"}
    updates = [node for node in module.entry.nodes if node.opcode == "subtract" and node.type is not None]
    assert {paths.text(node) for node in updates if node.operands[0].opcode == "parameter"} == {
        f"{NO_SCOPE}/state/momentum"
    }
    assert paths[module.entry.root] == ("outputs",)


def test_tensorflow():
    """`gradient_tape` is the backward part; what TensorFlow makes for arguments serves where it is used."""
    module = parse(TENSORFLOW)
    paths = texts(module, scopes(module))
    assert paths == {
        "main/arg0": "inputs",
        "main/arg1": "inputs",
        "main/reshape": NO_SCOPE,
        "main/MatMul.8": "model/sequential_1/first_1",
        "main/zero": "model/sequential_1/first_1",
        "main/zeros": "model/sequential_1/first_1",
        "main/Relu.5": "model/sequential_1/first_1",
        "main/MatMul.12": "backward/model/sequential_1/first_1/MatMul",
        "main/Sub.1": NO_SCOPE,
        "main/XLA_Retvals.19": "outputs",
    }


def test_pytorch_xla():
    module = parse(PYTORCH)
    paths = texts(module, scopes(module))
    assert list(paths.values()) == ["inputs", "inputs", NO_SCOPE, "Sequential.1/Tanh.2", "outputs"]


def test_computation_that_several_call_is_where_they_all_are():
    module = parse(SHARED)
    assert texts(module, scopes(module)) == {
        "gelu/a": "forward/net/gelu",
        "gelu/half": "forward/net/gelu",
        "gelu/b": "forward/net/gelu/act",
        "sum/left": "forward/net/out",
        "sum/right": "forward/net/out",
        "sum/add": "forward/net/out",
        "main/x": "inputs/state/w",
        "main/zero": "forward/net/out",
        "main/c0": "forward/net/layer_0",
        "main/c1": "forward/net/layer_1",
        "main/copied": "forward/net/out",
        "main/r": "forward/net/out",
    }


@pytest.mark.parametrize(
    "text",
    [
        "a = f32[2] add(b, c)\n",
        'ROOT a = f32[2] fusion(b), calls=gone, metadata={op_name="x/\\q"}\n',
        "HloModule one\nENTRY e { ROOT a = f32[] parameter(0) }\n",
        "HloModule none\nENTRY e { a = f32[2] parameter(0)\n b = f32[2] negate(a)\n ROOT c = (f32[2]) tuple(b) }\n",
    ],
)
def test_every_instruction_of_a_fragment_has_a_scope(text: str):
    module = parse(text)
    paths = scopes(module)
    assert all(paths[node] for node in module.nodes())


def test_module_without_computations():
    assert len(scopes(Module("empty"))) == 0


def test_long_chains_without_scope():
    """No pass recurses, and a long chain is not named after the parameter that it begins with."""
    lines = "\n".join(
        f'  a.{number} = f32[2] negate(a.{number - 1}), metadata={{op_name="neg"}}' for number in range(1, 5000)
    )
    module = parse(
        f"HloModule m\nENTRY e {{\n  a.0 = f32[2] parameter(0), metadata={{op_name=\"p['w']\"}}\n{lines}\n}}\n"
    )
    paths = scopes(module)
    assert {paths[node] for node in module.entry.nodes} == {("inputs", "p"), (NO_SCOPE,)}
