"""A step's layers as a chain: bytes from its types, seconds from the roofline model, a plan that the step can be cut by."""

import pytest

import hloom
from hloom.analysis import device, roofline
from hloom.distribute.pipeline import Machine, layers, pipeline_program, plan_pipeline, step_chain
from hloom.text import HloomError

LAYERS, BATCH, WIDTH = 4, 32, 64


def step_text() -> str:
    """Layers of a product and a tanh, their gradients, and a step with momentum."""
    hidden, weight = f"f32[{BATCH},{WIDTH}]", f"f32[{WIDTH},{WIDTH}]"
    lines = ["ENTRY step {", f"  h0 = {hidden} parameter(0)", f"  targets = {hidden} parameter(1)"]
    for number in range(LAYERS):
        lines += [f"  w{number} = {weight} parameter({2 + number})", f"  m{number} = {weight} parameter({2 + LAYERS + number})"]
    for number in range(LAYERS):
        lines += [
            f"  p{number} = {hidden} dot(h{number}, w{number}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"  h{number + 1} = {hidden} tanh(p{number})",
        ]
    lines.append(f"  g{LAYERS} = {hidden} subtract(h{LAYERS}, targets)")
    for number in reversed(range(LAYERS)):
        lines += [
            f"  s{number} = {hidden} multiply(h{number + 1}, h{number + 1})",
            f"  q{number} = {hidden} multiply(g{number + 1}, s{number})",
            f"  d{number} = {weight} dot(h{number}, q{number}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        ]
        if number:
            lines.append(f"  g{number} = {hidden} dot(q{number}, w{number}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}")
    for number in range(LAYERS):
        lines += [f"  n{number} = {weight} add(m{number}, d{number})", f"  u{number} = {weight} subtract(w{number}, n{number})"]
    results = [f"u{number}" for number in range(LAYERS)] + [f"n{number}" for number in range(LAYERS)]
    lines.append(f"  ROOT new = ({', '.join([weight] * len(results))}) tuple({', '.join(results)})")
    return "\n".join([*lines, "}"])


SOURCE = {"h0": 0, "targets": 0}


def test_bytes_of_a_step():
    chain = step_chain(hloom.parse(step_text()), "h100", microbatches=2, batch=SOURCE)
    assert len(chain.layers) == LAYERS
    assert chain.batch == BATCH // 2
    assert chain.input_bytes == 2 * (BATCH // 2) * WIDTH * 4
    for number, layer in enumerate(chain.layers):
        assert layer.parameter_bytes == layer.optimizer_bytes == layer.gradient_bytes == WIDTH * WIDTH * 4
        assert layer.output_bytes == (0 if number == LAYERS - 1 else (BATCH // 2) * WIDTH * 4)
        assert layer.activation_bytes >= (BATCH // 2) * WIDTH * 4
        assert 0 < layer.weight_seconds <= layer.backward_seconds


@pytest.mark.parametrize("name", ["h100", "tpu-v5e"])
def test_seconds_of_a_step(name: str):
    """The layers take as long as one program of them all, but for what a cut stores and loads again."""
    module = hloom.parse(step_text())
    chain = step_chain(module, name, batch=SOURCE)
    whole = roofline(module, name).seconds
    total = chain.seconds + sum(layer.forward_fixed_seconds + layer.backward_fixed_seconds for layer in chain.layers)
    assert 0.5 * whole < total < 1.5 * whole


def test_a_line_through_two_sizes_holds_for_a_third():
    module = hloom.parse(step_text())
    one, four = (step_chain(module, "h100", microbatches=count, batch=SOURCE) for count in (1, 4))
    for large, small in zip(one.layers, four.layers, strict=True):
        assert large.forward_seconds == pytest.approx(4 * small.forward_seconds, rel=0.05)
        assert large.backward_fixed_seconds == pytest.approx(small.backward_fixed_seconds, rel=0.05)


def test_the_plan_of_a_step_cuts_it():
    module = hloom.parse(step_text())
    chain = step_chain(module, "h100", batch=SOURCE)
    state = 3 * chain.parameter_bytes
    planned = plan_pipeline(chain, Machine.of(device("h100"), 4, memory_bytes=0.6 * state), BATCH)
    assert 2 <= len(planned.plan.stages) <= 4
    program = pipeline_program(module, planned.plan, batch=SOURCE)
    assert program.plan is planned.plan
    assert len(layers(module, batch=SOURCE)) == planned.plan.stages[-1].last + 1


def test_inference_has_no_gradients():
    module = hloom.parse("""
    ENTRY infer {
      first = f32[32,64] parameter(0)
      second = f32[64,16] parameter(1)
      inputs = f32[8,32] parameter(2)
      hidden = f32[8,64] dot(inputs, first), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      active = f32[8,64] tanh(hidden)
      ROOT outputs = f32[8,16] dot(active, second), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }""")
    chain = step_chain(module, "h100", microbatches=2, batch={"inputs": 0})
    assert [layer.parameter_bytes for layer in chain.layers] == [32 * 64 * 4, 64 * 16 * 4]
    assert all(layer.backward_seconds == layer.gradient_bytes == 0 for layer in chain.layers)
    planned = plan_pipeline(chain, Machine.of(device("h100"), 2, memory_bytes=1.2 * 32 * 64 * 4), 8)
    assert len(planned.plan.stages) == 2


def test_what_cannot_be_priced():
    with pytest.raises(HloomError, match="no device is called 'h1000'"):
        step_chain(hloom.parse(step_text()), "h1000", batch=SOURCE)
    with pytest.raises(HloomError):
        step_chain(hloom.parse(step_text()), "h100", microbatches=5, batch=SOURCE)
