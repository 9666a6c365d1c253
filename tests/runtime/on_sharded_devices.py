"""`auto_shard` on eight virtual devices: a child process runs each case and prints what it found, as JSON.

python -m tests.runtime.on_sharded_devices shardy|gspmd [case]
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import hloom
from hloom.distribute.planner.cost_model import Rates, uniform_device
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.partitioned import read_partitioned
from hloom.distribute.planner.plan import Plan, plan_of
from hloom.distribute.planner.solvers import PLANNERS
from hloom.ir import Parameter, TensorType
from hloom.sharding import Mesh, Spec, spec_of

MESH = "data=2,model=4"

# A small GPT

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH, BATCH = 64, 4, 2, 96, 16, 8


def gpt_parameters(seed=0):
    random = np.random.default_rng(seed)

    def matrix(*dims):
        return (random.normal(size=dims) / np.sqrt(dims[0])).astype(np.float32)

    layers = [
        {
            "attend": {"qkv": matrix(WIDTH, 3, WIDTH), "out": matrix(WIDTH, WIDTH)},
            "mlp": {
                "up": matrix(WIDTH, 4 * WIDTH),
                "bias": np.zeros(4 * WIDTH, np.float32),
                "down": matrix(4 * WIDTH, WIDTH),
            },
            "scales": np.ones((2, WIDTH), np.float32),
        }
        for _ in range(LAYERS)
    ]
    return {"tokens": matrix(VOCABULARY, WIDTH), "places": matrix(LENGTH, WIDTH), "layers": layers}


def normalised(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def attention(x, weights):
    batch, length, _ = x.shape
    q, k, v = (
        jnp.einsum("bld,de->ble", x, weights["qkv"][:, number]).reshape(batch, length, HEADS, WIDTH // HEADS)
        for number in range(3)
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(np.tril(np.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, length, WIDTH)
    return mixed @ weights["out"]


def logits(parameters, tokens):
    x = parameters["tokens"][tokens] + parameters["places"]
    for layer in parameters["layers"]:
        x += attention(normalised(x, layer["scales"][0]), layer["attend"])
        hidden = jax.nn.gelu(normalised(x, layer["scales"][1]) @ layer["mlp"]["up"] + layer["mlp"]["bias"])
        x += hidden @ layer["mlp"]["down"]
    return x @ parameters["tokens"].T


def loss(parameters, tokens, targets):
    scores = jax.nn.log_softmax(logits(parameters, tokens))
    return -jnp.take_along_axis(scores, targets[..., None], -1).mean()


def train_step(state, batch, rate=5e-3):
    """One step of Adam."""
    parameters, first, second, count = state
    value, gradients = jax.value_and_grad(loss)(parameters, *batch)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradients)

    def update(p, m, v):
        return p - rate * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.99**count)) + 1e-8)

    return (jax.tree.map(update, parameters, first, second), first, second, count), value


def beginning():
    parameters = gpt_parameters()
    zeros = jax.tree.map(np.zeros_like, parameters)
    return parameters, zeros, jax.tree.map(np.zeros_like, parameters), np.float32(0)


def batch(number):
    tokens = np.random.default_rng(number % 4).integers(VOCABULARY, size=(BATCH, LENGTH + 1)).astype(np.int32)
    tokens[:, 1::2] = (tokens[:, :-1:2] * 5 + 1) % VOCABULARY  # something to learn
    return tokens[:, :-1], tokens[:, 1:]


def train(step, count=20):
    state, losses = beginning(), []
    for number in range(count):
        state, value = step(state, batch(number))
        losses.append(float(value))
    return state, losses


# Plans by hand


BY_NAME = {
    "['tokens']": ["model", None],
    "['qkv']": [None, None, "model"],
    "['out']": ["model", None],
    "['up']": [None, "model"],
    "['bias']": ["model"],
    "['down']": ["model", None],
    "batch[": ["data", None],
}
"""Megatron on model, the batch on data."""


ACTIVATIONS = {
    (BATCH, LENGTH, 4 * WIDTH): ["data", None, "model"],
    (BATCH, LENGTH, HEADS, WIDTH // HEADS): ["data", None, "model", None],
    (BATCH, HEADS, LENGTH, LENGTH): ["data", "model", None, None],
}
"""Hidden layers and heads on model."""


def megatron(module, mesh):
    plan = Plan(mesh)
    for node in module.entry.nodes:
        if isinstance(node, Parameter):
            matches = [
                axes for part, axes in BY_NAME.items() if node.metadata and part in (node.metadata.op_name or "")
            ]
            if matches and isinstance(node.type, TensorType):
                plan.parameters[node.number] = spec_of(matches[0])
        elif isinstance(node.type, TensorType) and node.type.dims in ACTIVATIONS:
            plan.instructions[node.name] = spec_of(ACTIVATIONS[node.type.dims])
    return plan


def split_parameters(*specs, **instructions):
    """A plan for whatever mesh: specs of parameters in order, and of the instructions of an opcode."""

    def planner(module, mesh):
        plan = Plan(mesh, {number: spec_of(spec) for number, spec in enumerate(specs)})
        for node in module.entry.nodes:
            if node.opcode in instructions:
                plan.instructions[node.name] = spec_of(instructions[node.opcode])
        return plan

    return planner


# What is asked of them

VALUES = np.arange(64, dtype=np.float32).reshape(8, 8) / 64


def assert_close(actual, expected, rtol=1e-5):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=1e-6)


def collectives(lowered):
    return sorted(set(re.findall(r"\b(all-[a-z]+|collective-[a-z]+|reduce-scatter)\(", lowered.compile().as_text())))


def local_dims(opcode, lowered):
    return set(re.findall(rf"f32\[([\d,]*)\]\S* {opcode}\(", lowered.compile().as_text()))


def assert_refuses(message, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except hloom.HloomError as problem:
        assert message in str(problem), problem
    else:
        raise AssertionError(f"nothing was refused: {message}")


def sine_times(x, w):
    return jnp.sin(x) @ w


def a_gpt_trains_as_on_one_device():
    step = hloom.auto_shard(train_step, MESH, planner=megatron, donate_argnums=0).planned(beginning(), batch(0))
    (alone, expected), (state, losses) = train(jax.jit(train_step)), train(step)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert losses[-1] < 0.9 * losses[0], losses
    up = state[0]["layers"][1]["mlp"]["up"]
    assert up.sharding.shard_shape(up.shape) == (WIDTH, WIDTH)
    assert_close(up, alone[0]["layers"][1]["mlp"]["up"], rtol=0.05)
    assert len(step.plan.instructions) > 50
    assert "all-reduce" in collectives(step.lower(state, batch(0)))


def a_gpt_trains_as_our_planner_says():
    """On a device so slow that eight are worth their talk."""

    def planner(module, mesh):
        problem = build_problem(module, mesh, Rates(uniform_device(flops=1e8)))
        specs = problem.specs(PLANNERS["ilp"](problem).strategies)
        return plan_of(problem, mesh, specs, module)

    step = hloom.auto_shard(train_step, MESH, planner=planner, donate_argnums=0).planned(beginning(), batch(0))
    assert sum(bool(spec.axes) for spec in step.plan.parameters.values()) > 20
    (_, expected), (_, losses) = train(jax.jit(train_step)), train(step)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


def a_loop_over_layers_sends_what_its_plan_does():
    """A mixture of experts: what loops carry stays in the plan's shardings, in the backward loop too."""
    experts, width, hidden, length = 8, 128, 256, 64
    capacity = 2 * length // experts

    def layer(x, p):
        gates = jax.nn.softmax(jnp.tanh(x @ p["w"]) @ p["router"])
        chosen = jax.nn.one_hot(jnp.argmax(gates, -1), experts)
        position = (jnp.cumsum(chosen, 1) * chosen - 1).astype(jnp.int32)
        dispatch = jax.nn.one_hot(position, capacity) * chosen[..., None]
        sent = jnp.einsum("btec,btd->ebcd", dispatch, x)
        y = jnp.einsum("ebcf,efd->ebcd", jax.nn.gelu(jnp.einsum("ebcd,edf->ebcf", sent, p["u"])), p["d"])
        return x + jnp.einsum("btec,ebcd->btd", dispatch * gates[..., None], y), None

    def step(p, x):
        gradients = jax.grad(lambda p: (jax.lax.scan(layer, x, p)[0] ** 2).mean())(p)
        return jax.tree.map(lambda w, g: w - 0.1 * g, p, gradients)

    sizes = {"w": (width, width), "router": (width, experts), "u": (experts, width, hidden), "d": (experts, hidden, width)}
    weights = {name: jax.ShapeDtypeStruct((2, *dims), np.float32) for name, dims in sizes.items()}
    planned: list[hloom.PlanResult] = []

    def planner(module, mesh):
        planned.append(hloom.plan(module, mesh))
        return planned[0].plan

    arguments = weights, jax.ShapeDtypeStruct((16, length, width), np.float32)
    sharded = hloom.auto_shard(step, "x=8", planner=planner).planned(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        dumped = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": "spmd-partitioning", "xla_dump_hlo_as_text": True}
        sharded.lower(*arguments).compile(compiler_options=dumped)
        (path,) = Path(folder).glob("*after_spmd-partitioning*.txt")
        sent = read_partitioned(hloom.parse(path.read_text()), 8, 0).comm_bytes
    assert planned[0].measure().comm_bytes > 0
    assert abs(sent / planned[0].measure().comm_bytes - 1) < 0.01


def parameters_and_results_are_placed():
    sharded = hloom.auto_shard(sine_times, MESH, planner=split_parameters(["data", None], [None, "model"])).planned(
        VALUES, VALUES
    )
    result = sharded(VALUES, VALUES)
    assert_close(result, np.sin(VALUES) @ VALUES)
    (x, w), named = sharded.in_shardings
    assert (x.spec, w.spec, named) == (P("data", None), P(None, "model"), {})
    assert result.sharding.is_equivalent_to(sharded.out_shardings, 2) and result.sharding.is_fully_replicated

    def planner(module, mesh):
        return Plan(mesh, outputs={0: spec_of(["model", "data"])})

    assert hloom.auto_shard(sine_times, MESH, planner=planner)(VALUES, VALUES).sharding.shard_shape(
        (8, 8)
    ) == (2, 4)


def shardings_of_instructions_decide():
    plans = [split_parameters(["data", None]), split_parameters(["data", None], sine=[None, "model"])]
    apart, inside = (hloom.auto_shard(sine_times, MESH, planner=plan).planned(VALUES, VALUES) for plan in plans)
    assert local_dims("sine", apart.lower(VALUES, VALUES)) == {"4,8"}
    assert local_dims("sine", inside.lower(VALUES, VALUES)) == {"8,2"}
    assert_close(inside(VALUES, VALUES), np.sin(VALUES) @ VALUES)


def the_partitioner_is_the_one_that_is_set():
    plan = split_parameters(["data", None], sine=[None, "model"])
    text = hloom.auto_shard(sine_times, MESH, planner=plan).planned(VALUES, VALUES).lower(VALUES, VALUES).as_text()
    is_shardy = jax.config.jax_use_shardy_partitioner  # pyright: ignore[reportAttributeAccessIssue]
    assert ("sdy.mesh" in text) == ("@Sharding" in text) == is_shardy
    assert ('sine %arg0 {mhlo.sharding = "{devices=[1,4,2]' in text) == (not is_shardy)


def planned_once_for_each_signature():
    modules = []

    def planner(module, mesh):
        modules.append(module)
        return Plan(mesh)

    maker = hloom.auto_shard(sine_times, MESH, planner=planner)
    sharded = maker.planned(VALUES, VALUES)
    assert maker.planned(jax.ShapeDtypeStruct((8, 8), np.float32), VALUES + 1) is sharded
    assert_refuses("computed for arrays, not for shapes", maker, jax.ShapeDtypeStruct((8, 8), np.float32), VALUES)
    first = sharded(VALUES, VALUES)
    assert_close(sharded(first, VALUES), np.sin(np.sin(VALUES) @ VALUES) @ VALUES)
    assert len(modules) == 1
    assert_close(sharded(VALUES[:4], VALUES), np.sin(VALUES[:4]) @ VALUES)
    assert len(modules) == 2


def planners_see_whole_programs():
    seen = []

    def function(state, x):
        return {"w": state["w"] + jax.nn.softmax(jax.nn.silu(x @ state["w"]))}, jnp.where(x > 0, x, 0).sum()

    def planner(module, mesh):
        seen.append(module)
        return Plan(mesh)

    hloom.auto_shard(function, MESH, planner=planner, donate_argnums=0).planned({"w": VALUES}, VALUES)
    (module,) = seen
    assert not [node for node in module.nodes() if node.opcode == "call"]
    assert [node.metadata.op_name for node in module.entry.parameters] == ["state['w']", "x"]
    (alias,) = module.attributes["input_output_alias"]
    assert (alias.output_index, alias.parameter) == ((0,), 0)
    assert hloom.verify(module).level.name == "HLO"


def donated_arguments():
    plan = split_parameters(["data", "model"])
    sharded = hloom.auto_shard(lambda x, y: x + y, MESH, planner=plan, donate_argnames="x").planned(VALUES, VALUES)
    x = jax.device_put(VALUES, sharded.in_shardings[0][0])
    assert_close(sharded(x, VALUES), VALUES * 2)
    assert x.is_deleted()


def static_and_named_arguments():
    def function(x, times, y, *, shift, operation="add"):
        return {"add": x + y, "subtract": x - y}[operation] * times + shift["by"]

    maker = hloom.auto_shard(
        function, MESH, planner=split_parameters(["data", None]), static_argnums=1, static_argnames="operation"
    )
    sharded = maker.planned(VALUES, 3, VALUES, shift={"by": VALUES}, operation="subtract")
    assert_close(sharded(VALUES, 3, VALUES * 2, shift={"by": VALUES}, operation="subtract"), -2 * VALUES)
    assert_close(sharded(VALUES, 2, VALUES, shift={"by": VALUES}), 5 * VALUES)
    assert sharded.in_shardings[1]["shift"]["by"].spec == P(None, None)
    assert_refuses("cannot be hashed", maker, VALUES, [3], VALUES, shift={"by": VALUES})


def uneven_dimensions():
    """jax has no uneven arrays: what cannot be placed as planned is split inside."""
    x = np.arange(48, dtype=np.float32).reshape(6, 8) / 48
    plan = split_parameters([["data", "model"], None], sine=["model", None])
    sharded = hloom.auto_shard(sine_times, MESH, planner=plan).planned(x, VALUES)
    assert sharded.in_shardings[0][0].spec == P("data", None)
    assert_close(sharded(x, VALUES), np.sin(x) @ VALUES)


def meshes_of_every_kind():
    order = np.array(jax.devices())[[7, 3, 5, 1, 6, 2, 4, 0]].reshape(2, 4)
    plan = split_parameters(["data", None], [None, "model"], sine=[None, "model"])
    for mesh in (
        Mesh.parse(MESH),
        jax.make_mesh((2, 4), ("data", "model")),
        jax.sharding.Mesh(order, ("data", "model")),
    ):
        sharded = hloom.auto_shard(sine_times, mesh, planner=plan).planned(VALUES, VALUES)
        assert_close(sharded(VALUES, VALUES), np.sin(VALUES) @ VALUES)
    devices = sharded.in_shardings[0][0].mesh.devices
    assert [device.id for device in devices.flat] == [7, 3, 5, 1, 6, 2, 4, 0]


def arrays_with_other_shardings():
    sharded = hloom.auto_shard(sine_times, MESH, planner=split_parameters(["data", None])).planned(VALUES, VALUES)
    one = jax.device_put(VALUES, jax.devices()[3])
    other = jax.device_put(VALUES, NamedSharding(jax.make_mesh((8,), ("z",)), P(None, "z")))
    assert_close(sharded(one, other), np.sin(VALUES) @ VALUES)


def random_keys_loops_and_constants():
    table = jnp.asarray(VALUES)

    def function(key, x):
        noise = jax.random.normal(key, (8, 8)) @ table

        def body(carry, row):
            return carry + jnp.sin(row), carry.sum()

        return jax.lax.scan(body, noise[0], x), noise, jax.random.split(key)

    plan = split_parameters(["model"], [None, "data"])
    key = jax.random.key(1)
    sharded = hloom.auto_shard(function, MESH, planner=plan).planned(key, VALUES)
    actual, expected = sharded(key, VALUES), jax.jit(function)(key, VALUES)
    jax.tree.map(assert_close, actual[:2], expected[:2])
    assert_close(jax.random.key_data(actual[2]), jax.random.key_data(expected[2]))


def inside_other_transformations():
    plan = split_parameters(["data", None], sine=[None, "model"])
    sharded = hloom.auto_shard(sine_times, MESH, planner=plan).planned(VALUES, VALUES)
    assert_close(jax.jit(lambda x: sharded(x, VALUES) * 2)(VALUES), np.sin(VALUES) @ VALUES * 2)
    gradient = jax.grad(lambda x: sharded(x, VALUES).sum())(VALUES)  # another program: the plan is not for it
    assert_close(gradient, np.cos(VALUES) * VALUES.sum(1))
    assert_close(jax.vmap(sharded, (0, None))(np.stack([VALUES, -VALUES]), VALUES)[1], np.sin(-VALUES) @ VALUES)


def constraints_and_per_device_code_inside():
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def function(x):
        x = jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(mesh, P(None, "model")))
        total = jax.shard_map(lambda part: jax.lax.psum(part, "data"), mesh=mesh, in_specs=P("data"), out_specs=P())
        return total(x) + jnp.cos(x)[:4]

    sharded = hloom.auto_shard(function, mesh, planner=split_parameters(["data", None], cosine=["data", "model"])).planned(
        VALUES
    )
    expected = np.sin(VALUES).reshape(2, 4, 8).sum(0) + np.cos(np.sin(VALUES))[:4]
    assert_close(sharded(VALUES), expected)
    assert local_dims("cosine", sharded.lower(VALUES)) <= {"4,2", "2,2"}


def captured_values():
    plan = split_parameters(["data", None])

    def outer(y):
        return hloom.auto_shard(lambda x: x + y, MESH, planner=plan)(VALUES)

    assert_refuses("must be arguments, not be captured", jax.jit(outer), VALUES)


def specs_for_jit():
    def function(weights, x):
        return {"y": x @ weights["up"], "z": weights["bias"]}

    arguments = {"bias": VALUES[0], "up": VALUES}, VALUES
    module = hloom.load(jax.jit(function).lower(*arguments))
    mesh = Mesh.parse(MESH)
    plan = Plan(mesh, {1: spec_of([None, "model"]), 2: spec_of(["data", None])}, {0: spec_of(["data", "model"])})
    inputs = hloom.partition_specs(plan, arguments)
    assert inputs == ({"bias": P(None), "up": P(None, "model")}, P("data", None))
    assert hloom.partition_specs(plan, (0.0, VALUES[:, :6], VALUES[:7])) == (P(), P(None, None), P(None, None))
    assert_refuses("the plan splits parameter 2, and the tree has 2 leaves", hloom.partition_specs, plan, (1, 2))
    assert_refuses("a tree of 1 leaves cannot hold 2", hloom.result_partition_specs, plan, module, 0)
    outputs = hloom.result_partition_specs(plan, module, {"y": 0, "z": 0})
    assert outputs == {"y": P("data", "model"), "z": P(None)}
    with jax.set_mesh(jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)):
        result = jax.jit(function, in_shardings=inputs, out_shardings=outputs)(*arguments)
    assert result["y"].sharding.shard_shape((8, 8)) == (4, 2)


def our_own_planner():
    def layers(x, w, v):
        return jax.nn.relu(x @ w) @ v

    large = [jax.ShapeDtypeStruct(dims, np.float32) for dims in ((8192, 1024), (1024, 4096), (4096, 1024))]
    maker = hloom.auto_shard(layers, MESH)
    assert any(spec.axes for spec in maker.planned(*large).plan.parameters.values())
    small = VALUES @ VALUES, VALUES, VALUES.T
    assert_close(maker(*small), layers(*small))
    assert_refuses("there is no planner 'oracle'", hloom.auto_shard, layers, MESH, planner="oracle")


def refused_options():
    assert_refuses("in_shardings is for the plan to say", hloom.auto_shard, sine_times, MESH, in_shardings=None)
    assert_refuses("expected a function to shard, not int", hloom.auto_shard, 3, MESH)
    assert_refuses("'data' is not a mesh", hloom.auto_shard, sine_times, "data")
    assert_refuses("auto_shard needs a mesh", hloom.auto_shard, sine_times)


def effects():
    said = []

    def tells(x, ordered):
        jax.experimental.io_callback(lambda y: said.append(float(y)), None, x.sum(), ordered=ordered)
        return x + 1

    maker = hloom.auto_shard(tells, MESH, planner=split_parameters(["data", None]), static_argnums=1)
    assert_refuses("has ordered effects", maker, VALUES, True)
    assert_close(maker(VALUES, False), VALUES + 1)
    jax.effects_barrier()
    assert said and set(said) == {float(VALUES.sum())}


def a_plan_of_another_program():
    wrong = Plan(Mesh.parse(MESH), instructions={"cosine.7": Spec.replicated(2)})
    maker = hloom.auto_shard(sine_times, MESH, planner=wrong)
    assert_refuses("the plan names cosine.7", maker, VALUES, VALUES)


CASES = {
    case.__name__: case
    for case in (
        a_gpt_trains_as_on_one_device,
        parameters_and_results_are_placed,
        shardings_of_instructions_decide,
        the_partitioner_is_the_one_that_is_set,
        planned_once_for_each_signature,
        planners_see_whole_programs,
        donated_arguments,
        static_and_named_arguments,
        uneven_dimensions,
        meshes_of_every_kind,
        arrays_with_other_shardings,
        random_keys_loops_and_constants,
        inside_other_transformations,
        constraints_and_per_device_code_inside,
        captured_values,
        specs_for_jit,
        our_own_planner,
        effects,
        refused_options,
        a_plan_of_another_program,
    )
}
GSPMD_CASES = (
    "parameters_and_results_are_placed",
    "shardings_of_instructions_decide",
    "the_partitioner_is_the_one_that_is_set",
    "uneven_dimensions",
    "meshes_of_every_kind",
    "constraints_and_per_device_code_inside",
)
"""The cases in which it may matter which of the partitioners is asked."""
LONG_CASES = {
    case.__name__: case for case in (a_gpt_trains_as_our_planner_says, a_loop_over_layers_sends_what_its_plan_does)
}


def main(partitioner: str, *chosen: str) -> None:
    """Run every quick case, or those chosen; each one's traceback, or nothing where it passed."""
    jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
    warnings.simplefilter("error")
    results = {}
    for name in chosen or CASES:
        try:
            (CASES | LONG_CASES)[name]()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
