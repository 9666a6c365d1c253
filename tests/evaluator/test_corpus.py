"""Whole JAX programs give XLA's numbers, before and after XLA's optimisations."""

import pytest

from hloom.evaluator import CannotEvaluate, evaluate
from hloom.formats.hlo import parse
from hloom.runtime import compare, run
from tests.corpus import lowered

SAMPLE = (
    "contraction.convolution_gradients", "contraction.dot_many_dimensions", "control.nested_control", "control.trees",
    "indexing.scatter", "indexing.gather_gradients", "models.mixture_of_experts",
    "reduction.pooling_gradients", "reduction.sort", "reduction.cumulative", "reduction.reduce_custom",
    "values.nan_payloads",
)  # fmt: skip
NOT_COMPARED = {
    "control.mapped_while": "runs without end on random inputs",
    "models.transformer_scanned_with_remat": "sums that cancel out in bf16: XLA disagrees with itself as much",
    "random.rng_uniform": "the numbers are the device's",
}
TOLERANCES = {
    "models.long_short_term_memory": 1e-6,  # its f64 are made of f32
    "models.long_short_term_memory_gradients": 1e-6,
    "models.quantised_matmul": 1e-2,  # its f32 are made of bf16, which XLA may keep in f32
}


def comparable(stage: str) -> list[str]:
    """The programs for one device that call nothing of the backend's."""
    return [
        name
        for name, text in lowered(stage).items()
        if "custom-call(" not in text and name not in NOT_COMPARED and "num_partitions=" not in text.splitlines()[0]
    ]


def assert_agrees(stage: str, name: str) -> None:
    text = lowered(stage)[name]
    expected = run(text, seed=3)
    outputs = evaluate(parse(text), expected.inputs)
    differences = compare(outputs, expected.outputs, TOLERANCES.get(name))
    assert not differences, "\n".join(map(str, differences))


@pytest.mark.parametrize("name", SAMPLE)
def test_sample(name):
    assert_agrees("before", name)


@pytest.mark.long
@pytest.mark.parametrize("name", comparable("before"))
def test_every_program(name):
    assert_agrees("before", name)


@pytest.mark.long
@pytest.mark.parametrize("name", comparable("after"))
def test_every_optimised_program(name):
    assert_agrees("after", name)


def test_what_the_backend_does_is_named():
    text = lowered("before")["linalg.eigh"]
    with pytest.raises(CannotEvaluate, match="cannot evaluate custom-call: only the backend knows"):
        evaluate(parse(text), run(text, seed=3).inputs)
