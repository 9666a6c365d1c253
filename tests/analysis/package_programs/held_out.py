"""Programs that nobody looked at before they were measured: a third of those from packages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import diffrax
import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import optax
from flax import nnx
from jax import lax
from numpyro.contrib.module import flax_module
from numpyro.infer import NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal

from .registry import cross_entropy, floats, integers, key, program, squared


def trained(model: Any, x: Any, y: Any, optimizer: Any, loss: Any = cross_entropy) -> tuple[Any, tuple[Any, ...]]:
    """A step that keeps an average of the weights."""
    weights = jax.eval_shape(lambda: model.init(key(), x))
    state = jax.eval_shape(optimizer.init, weights)

    def step(weights: Any, average: Any, state: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(lambda w: loss(model.apply(w, x), y))(weights)
        updates, state = optimizer.update(gradients, state, weights)
        weights = optax.apply_updates(weights, updates)
        average = jax.tree.map(lambda a, w: 0.99 * a + 0.01 * w, average, weights)
        return weights, average, state, value

    return jax.jit(step, donate_argnums=(0, 1, 2)), (weights, weights, state, x, y)


@program
def vit_with_class_token() -> Any:
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=64)(y, y)
            return x + nn.Dense(64)(nn.gelu(nn.Dense(160)(nn.LayerNorm()(x))))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Conv(64, (7, 7), (7, 7), padding="VALID")(x).reshape(x.shape[0], -1, 64)
            token = self.param("token", nn.initializers.zeros, (1, 1, 64))
            h = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, 64)), h], 1)
            h = h + self.param("position", nn.initializers.normal(), (1, h.shape[1], 64))
            for _ in range(4):
                h = Layer()(h)
            return nn.Dense(20)(nn.LayerNorm()(h[:, 0]))

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return trained(Model(), floats(12, 56, 56, 3), integers(12), optimizer)


@program
def t5_with_relative_bias() -> Any:
    def attend(q, k, v, bias):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)

    class Attention(nn.Module):
        @nn.compact
        def __call__(self, x, memory, causal):
            q, k, v = (nn.DenseGeneral((4, 24), use_bias=False)(part) for part in (x, memory, memory))
            table = self.param("bias", nn.initializers.normal(), (32, 4))
            distance = jnp.arange(memory.shape[1])[None] - jnp.arange(x.shape[1])[:, None]
            bias = table[jnp.clip(jnp.abs(distance), 0, 31)].transpose(2, 0, 1)[None]
            if causal:
                bias = jnp.where(distance[None, None] <= 0, bias, -1e9)
            return nn.DenseGeneral(96, axis=(-2, -1), use_bias=False)(attend(q, k, v, bias))

    class Gated(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(96, use_bias=False)(nn.gelu(nn.Dense(256)(x)) * nn.Dense(256)(x))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            embedding = nn.Embed(600, 96)
            h, d = embedding(x), embedding(jnp.roll(x, 1, 1)[:, :48])
            for _ in range(2):
                y = nn.RMSNorm()(h)
                h = h + Attention()(y, y, False)
                h = h + Gated()(nn.RMSNorm()(h))
            for _ in range(2):
                y = nn.RMSNorm()(d)
                d = d + Attention()(y, y, True)
                d = d + Attention()(nn.RMSNorm()(d), h, False)
                d = d + Gated()(nn.RMSNorm()(d))
            return embedding.attend(d)

    return trained(Model(), integers(6, 96), integers(6, 48), optax.adafactor(1e-3))


@program
def selective_scan() -> Any:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Embed(300, 48)(x)
            for _ in range(2):
                y = nn.LayerNorm()(h)
                u, step = nn.Dense(96)(y), nn.softplus(nn.Dense(96)(y))
                b, c = nn.Dense(4)(y), nn.Dense(4)(y)
                rate = jnp.exp(-step[..., None] * jnp.exp(self.param(f"a{_}", nn.initializers.zeros, (96, 4))))
                value = (step * u)[..., None] * b[:, :, None]
                _, states = lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (rate, value), axis=1)
                h = h + nn.Dense(48)((states * c[:, :, None]).sum(-1) * nn.silu(nn.Dense(96)(y)))
            return nn.Dense(300)(h)

    return trained(Model(), integers(4, 128), integers(4, 128), optax.adam(1e-3))


@program
def switch_layers() -> Any:
    experts, capacity, width = 8, 40, 64

    def layer(h, p):
        gates = jax.nn.softmax(h @ p["r"])
        chosen = jnp.argmax(gates, -1)
        rank = (jnp.cumsum(jax.nn.one_hot(chosen, experts), 0) * jax.nn.one_hot(chosen, experts)).sum(-1) - 1
        slot = chosen * capacity + jnp.minimum(rank, capacity - 1).astype(jnp.int32)
        routed = jnp.zeros((experts * capacity, width)).at[slot].add(h).reshape(experts, capacity, width)
        made = jnp.einsum("ecf,efd->ecd", jax.nn.relu(jnp.einsum("ecd,edf->ecf", routed, p["u"])), p["d"])
        return h + made.reshape(-1, width)[slot] * jnp.max(gates, -1, keepdims=True), gates.mean(0)

    def loss(p, x):
        h, balance = lax.scan(jax.checkpoint(layer), x, p)
        return (h**2).mean() + (balance**2).sum()

    weights = {"r": floats(4, width, experts), "u": floats(4, experts, width, 128), "d": floats(4, experts, 128, width)}
    return jax.jit(lambda p, x: jax.tree.map(lambda w, g: w - 0.1 * g, p, jax.grad(loss)(p, x))), (
        weights,
        floats(256, width),
    )


@program
def graph_attention() -> Any:
    def layer(x, w, a, sources, targets):
        h = x @ w
        score = jax.nn.leaky_relu(h[sources] @ a[0] + h[targets] @ a[1])
        score = jnp.exp(score - jax.ops.segment_max(score, targets, 400)[targets])
        share = score / (jax.ops.segment_sum(score, targets, 400)[targets] + 1e-6)
        return jax.ops.segment_sum(h[sources] * share[:, None], targets, 400)

    def loss(p, x, sources, targets, y):
        for w, a in p:
            x = jax.nn.elu(layer(x, w, a, sources, targets))
        return cross_entropy(x, y)

    weights = [(floats(32, 64), floats(2, 64)), (floats(64, 64), floats(2, 64)), (floats(64, 7), floats(2, 7))]
    return jax.jit(jax.value_and_grad(loss)), (weights, floats(400, 32), integers(2400), integers(2400), integers(400))


@program
def unet_with_time() -> Any:
    class Block(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x, time):
            y = nn.Conv(self.width, (3, 3))(nn.silu(nn.GroupNorm(4)(x)))
            y = y + nn.Dense(self.width)(nn.silu(time))[:, None, None]
            y = nn.Conv(self.width, (3, 3))(nn.silu(nn.GroupNorm(4)(y)))
            return y + (x if x.shape[-1] == self.width else nn.Conv(self.width, (1, 1))(x))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, given):
            x, steps = given
            angles = steps[:, None] * jnp.exp(-jnp.arange(16) / 4.0)
            time = nn.Dense(64)(nn.silu(nn.Dense(64)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))))
            h = nn.Conv(16, (3, 3))(x)
            skips = []
            for width in (16, 32):
                h = Block(width)(h, time)
                skips.append(h)
                h = nn.avg_pool(h, (2, 2), (2, 2))
            h = Block(32)(h, time)
            flat = h.reshape(h.shape[0], -1, 32)
            h = h + nn.MultiHeadDotProductAttention(num_heads=2)(flat, flat).reshape(h.shape)
            for width in (32, 16):
                h = jnp.repeat(jnp.repeat(h, 2, 1), 2, 2)
                h = Block(width)(jnp.concatenate([h, skips.pop()], -1), time)
            return nn.Conv(3, (3, 3))(h)

    given = (floats(4, 32, 32, 3), floats(4))
    return trained(Model(), given, floats(4, 32, 32, 3), optax.adam(1e-3), squared)


@program
def coupling_flow() -> Any:
    class Coupling(nn.Module):
        swap: bool

        @nn.compact
        def __call__(self, x):
            a, b = jnp.split(x, 2, -1)
            a, b = (b, a) if self.swap else (a, b)
            h = nn.tanh(nn.Dense(128)(nn.tanh(nn.Dense(128)(a))))
            scale, shift = jnp.tanh(nn.Dense(16)(h)), nn.Dense(16)(h)
            b = b * jnp.exp(scale) + shift
            return jnp.concatenate([b, a] if self.swap else [a, b], -1), scale.sum(-1)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            total = jnp.zeros(x.shape[0])
            for number in range(6):
                x, volume = Coupling(number % 2 == 1)(x)
                total = total + volume
            return 0.5 * (x**2).sum(-1) - total

    return trained(Model(), floats(512, 32), floats(512), optax.adam(1e-3), lambda made, _: made.mean())


@program
def ppo_update() -> Any:
    class Agent(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.tanh(nn.Dense(64)(nn.tanh(nn.Dense(64)(x))))
            return nn.Dense(6)(h), nn.Dense(1)(h)[..., 0]

    agent, optimizer = Agent(), optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))
    weights = agent.init(key(), floats(1, 20))

    def update(weights, state, seen, actions, rewards, old, values, random):
        def backwards(gain, row):
            reward, value, following = row
            gain = reward + 0.99 * following - value + 0.95 * gain
            return gain, gain

        following = jnp.concatenate([values[1:], values[-1:]])
        _, gains = lax.scan(backwards, jnp.zeros(values.shape[1]), (rewards, values, following), reverse=True)
        rows = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), (seen, actions, old, gains, gains + values))

        def loss(weights, batch):
            x, action, before, gain, target = batch
            logits, value = agent.apply(weights, x)
            chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
            ratio = jnp.exp(chosen - before)
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            clipped = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain)
            return ((value - target) ** 2).mean() - clipped.mean()

        def minibatch(carry, batch):
            weights, state = carry
            value, gradients = jax.value_and_grad(loss)(weights, batch)
            updates, state = optimizer.update(gradients, state)
            return (optax.apply_updates(weights, updates), state), value

        def epoch(carry, random):
            order = jax.random.permutation(random, rows[0].shape[0])
            batches = jax.tree.map(lambda a: a[order].reshape(4, -1, *a.shape[1:]), rows)
            return lax.scan(minibatch, carry, batches)

        return lax.scan(epoch, (weights, state), jax.random.split(random, 3))

    steps = (floats(64, 8, 20), integers(64, 8), floats(64, 8), floats(64, 8), floats(64, 8))
    return jax.jit(update), (weights, optimizer.init(weights), *steps, key())


@program
def extended_kalman_filter() -> Any:
    def moved(x):
        return x + 0.1 * jnp.concatenate([jnp.sin(x[1:]), x[:1] ** 2])

    def step(carry, z):
        mean, spread = carry
        slope = jax.jacfwd(moved)(mean)
        mean, spread = moved(mean), slope @ spread @ slope.T + jnp.eye(24)
        seen = jax.jacfwd(lambda x: jnp.tanh(x[:8]))(mean)
        total = seen @ spread @ seen.T + jnp.eye(8)
        gain = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(total), seen @ spread).T
        return (mean + gain @ (z - jnp.tanh(mean[:8])), spread - gain @ seen @ spread), jnp.linalg.slogdet(total)[1]

    return jax.jit(lambda z: lax.scan(step, (floats(24), jnp.eye(24)), z)), (floats(200, 8),)


@program
def neural_ode() -> Any:
    field = eqx.nn.MLP(16, 16, 64, 2, activation=jax.nn.softplus, key=key())
    weights, static = eqx.partition(field, eqx.is_array)

    def loss(weights, start, target):
        term = diffrax.ODETerm(lambda t, y, args: eqx.combine(args, static)(y))

        def solve(y):
            solution = diffrax.diffeqsolve(
                term, diffrax.Tsit5(), 0.0, 1.0, 0.1, y, args=weights, adjoint=diffrax.BacksolveAdjoint()
            )
            return solution.ys[-1]

        return squared(jax.vmap(solve)(start), target)

    return jax.jit(jax.value_and_grad(loss)), (weights, floats(64, 16), floats(64, 16))


@program
def seq2seq_with_attention() -> Any:
    def forward(x, y):
        encoder, decoder = hk.LSTM(96), hk.LSTM(96)
        memory, _ = hk.dynamic_unroll(encoder, hk.Embed(200, 48)(x), encoder.initial_state(8), time_major=False)
        outputs, _ = hk.dynamic_unroll(decoder, hk.Embed(200, 48)(y), decoder.initial_state(8), time_major=False)
        scores = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", outputs, memory))
        return hk.Linear(200)(jnp.concatenate([outputs, jnp.einsum("bqk,bkd->bqd", scores, memory)], -1))

    model, optimizer = hk.without_apply_rng(hk.transform(forward)), optax.rmsprop(1e-3)
    x, y = integers(8, 50), integers(8, 40)
    weights = model.init(key(), x, y)

    def step(weights, state, x, y):
        value, gradients = jax.value_and_grad(lambda w: cross_entropy(model.apply(w, x, y), y))(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1)), (weights, optimizer.init(weights), x, y)


@program
def matrix_factorisation() -> Any:
    optimizer = optax.adagrad(0.1)

    def loss(p, users, items, ratings):
        made = (p["u"][users] * p["i"][items]).sum(-1) + p["ub"][users] + p["ib"][items]
        return squared(made, ratings) + 1e-3 * (p["u"] ** 2).mean()

    def step(p, state, users, items, ratings):
        value, gradients = jax.value_and_grad(loss)(p, users, items, ratings)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(p, updates), state, value

    weights = {"u": floats(3000, 32), "i": floats(2000, 32), "ub": floats(3000), "ib": floats(2000)}
    batch = (integers(1024), integers(1024), floats(1024))
    return jax.jit(step, donate_argnums=(0, 1)), (weights, optimizer.init(weights), *batch)


@program
def windowed_attention() -> Any:
    def layer(x, p):
        q, k, v = (jnp.einsum("btd,dhe->bthe", x, w).reshape(2, 16, 32, 4, 16) for w in p["qkv"])
        k, v = (jnp.concatenate([jnp.pad(a, ((0, 0), (1, 0), *((0, 0),) * 3))[:, :-1], a], 2) for a in (k, v))
        scores = jnp.einsum("bwqhe,bwkhe->bwhqk", q, k) / 4
        seen = jnp.arange(64)[None] <= jnp.arange(32)[:, None] + 32
        shares = jax.nn.softmax(jnp.where(seen, scores, -1e9))
        made = jnp.einsum("bwhqk,bwkhe->bwqhe", shares, v).reshape(2, 512, 64)
        x = x + made @ p["o"]
        return x + jax.nn.relu(x @ p["u"]) @ p["d"]

    def loss(p, x):
        for part in p:
            x = layer(x, part)
        return (x**2).mean()

    one = {"qkv": floats(3, 64, 4, 16), "o": floats(64, 64), "u": floats(64, 256), "d": floats(256, 64)}
    return jax.jit(jax.value_and_grad(loss)), ([one, one, one], floats(2, 512, 64))


@program
def svi_with_flax() -> Any:
    class Encoder(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.softplus(nn.Dense(100)(x))
            return nn.Dense(10)(h), jnp.exp(nn.Dense(10)(h))

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, z):
            return nn.Dense(144)(nn.softplus(nn.Dense(100)(z)))

    def model(batch):
        decode = flax_module("decoder", Decoder(), input_shape=(10,))
        with numpyro.plate("rows", 64):
            z = numpyro.sample("z", dist.Normal(0, 1).expand([10]).to_event(1))
            numpyro.sample("x", dist.Bernoulli(logits=decode(z)).to_event(1), obs=batch)

    def guide(batch):
        encode = flax_module("encoder", Encoder(), input_shape=(144,))
        with numpyro.plate("rows", 64):
            numpyro.sample("z", dist.Normal(*encode(batch)).to_event(1))

    inference = SVI(model, guide, numpyro.optim.Adam(1e-3), Trace_ELBO())
    state = inference.init(key(), floats(64, 144))
    return jax.jit(inference.update), (state, floats(64, 144))


@program
def gaussian_process_regression() -> Any:
    optimizer = optax.adam(0.05)

    def likelihood(p, x, y):
        gaps = ((x[:, None] - x[None]) / jnp.exp(p["length"])) ** 2
        covariance = jnp.exp(p["scale"] - 0.5 * gaps.sum(-1)) + jnp.exp(p["noise"]) * jnp.eye(len(x))
        factor = jnp.linalg.cholesky(covariance)
        solved = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * (solved**2).sum() + jnp.log(jnp.diag(factor)).sum()

    def fit(p, x, y):
        def step(carry, _):
            p, state = carry
            value, gradients = jax.value_and_grad(likelihood)(p, x, y)
            updates, state = optimizer.update(gradients, state)
            return (optax.apply_updates(p, updates), state), value

        return lax.scan(step, (p, optimizer.init(p)), length=25)

    return jax.jit(fit), ({"length": floats(4), "scale": floats(), "noise": floats()}, floats(120, 4), floats(120))


@program
def physics_of_many_pendulums() -> Any:
    import mujoco
    from mujoco import mjx

    arm = '<body pos="0 0 {p}"><joint type="hinge" axis="0 1 0" damping=".1"/><geom type="capsule" size=".04" fromto="0 0 0 0 0 -.4"/>{inner}</body>'
    inner = ""
    for _ in range(4):
        inner = arm.format(p="-.4", inner=inner)
    model = mjx.put_model(
        mujoco.MjModel.from_xml_string(
            f"<mujoco><option timestep='.005'/><worldbody>{arm.format(p='2', inner=inner)}</worldbody></mujoco>"
        )
    )
    state = mjx.make_data(model)
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (32, *jnp.shape(leaf))), state)
    return jax.jit(lambda many: jax.vmap(mjx.step, (None, 0))(model, many)), (many,)


@program
def beam_search() -> Any:
    beams, length, words = 6, 24, 500

    def search(embedding, recurrent, output):
        def more(state):
            return state[0] < length

        def step(state):
            time, tokens, scores, hidden = state
            hidden = jnp.tanh(embedding[tokens[:, time]] + hidden @ recurrent)
            total = (scores[:, None] + jax.nn.log_softmax(hidden @ output)).reshape(-1)
            scores, best = lax.top_k(total, beams)
            parent, word = best // words, best % words
            return time + 1, tokens[parent].at[:, time + 1].set(word), scores, hidden[parent]

        start = (0, integers(beams, length + 1), floats(beams), floats(beams, 128))
        return lax.while_loop(more, step, start)[1:3]

    return jax.jit(search), (floats(words, 128), floats(128, 128), floats(128, words))


@program
def equinox_network_with_batch_norm() -> Any:
    class Model(eqx.Module):
        layers: list
        norms: list
        last: eqx.nn.Linear

        def __init__(self):
            widths = (3, 16, 32)
            self.layers = [eqx.nn.Conv2d(a, b, 3, 2, 1, key=key()) for a, b in pairwise(widths)]
            self.norms = [eqx.nn.BatchNorm(width, axis_name="batch", mode="ema") for width in widths[1:]]
            self.last = eqx.nn.Linear(32, 10, key=key())

        def __call__(self, x, state):
            for layer, norm in zip(self.layers, self.norms, strict=True):
                x, state = norm(layer(x), state)
                x = jax.nn.relu(x)
            return self.last(x.mean((1, 2))), state

    model, state = eqx.nn.make_with_state(Model)()
    weights, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(weights, state, x, y):
        whole = eqx.combine(weights, static)
        logits, state = jax.vmap(whole, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)
        return cross_entropy(logits, y), state

    def step(weights, state, x, y):
        (value, state), gradients = jax.value_and_grad(loss, has_aux=True)(weights, state, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), state, value

    return jax.jit(step), (weights, state, floats(32, 3, 32, 32), integers(32))


@program
def hierarchical_model() -> Any:
    def model(groups, x, y):
        centre = numpyro.sample("centre", dist.Normal(0.0, 5.0))
        spread = numpyro.sample("spread", dist.HalfCauchy(2.0))
        slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([5]))
        with numpyro.plate("groups", 20):
            effects = numpyro.sample("effects", dist.Normal(centre, spread))
        numpyro.sample("y", dist.StudentT(4.0, effects[groups] + x @ slopes, 1.0), obs=y)

    kernel = NUTS(model)
    data = (integers(300), floats(300, 5), floats(300))
    state = kernel.init(key(), 10, None, data, {})
    guide = AutoMultivariateNormal(model)
    inference = SVI(model, guide, numpyro.optim.Adam(1e-2), Trace_ELBO())
    fitted = inference.init(key(), *data)
    return jax.jit(lambda s, f, *d: (kernel.sample(s, d, {}), inference.update(f, *d))), (state, fitted, *data)


@program
def gated_convolutions_of_nnx() -> Any:
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Conv(1, 24, (9,), rngs=rngs)
            self.gates = nnx.List([nnx.Conv(24, 48, (5,), rngs=rngs) for _ in range(4)])
            self.norms = nnx.List([nnx.LayerNorm(24, rngs=rngs) for _ in range(4)])
            self.last = nnx.Linear(24, 12, rngs=rngs)

        def __call__(self, x):
            h = self.first(x)
            for gate, norm in zip(self.gates, self.norms, strict=True):
                a, b = jnp.split(gate(norm(h)), 2, -1)
                h = h + a * nnx.sigmoid(b)
            return self.last(h.max(1))

    graph, weights = nnx.split(Model(nnx.Rngs(0)), nnx.Param)
    optimizer = optax.adamw(1e-3)

    def step(weights, state, x, y):
        value, gradients = jax.value_and_grad(lambda w: cross_entropy(nnx.merge(graph, w)(x), y))(weights)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1)), (weights, optimizer.init(weights), floats(16, 400, 1), integers(16))
