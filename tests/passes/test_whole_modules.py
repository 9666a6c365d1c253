"""Whole-module passes on JAX programs: sound afterwards, at an end, and with XLA's numbers."""

import pytest

from hloom.formats.hlo import parse, print_module
from hloom.ir import verify
from hloom.passes import PASSES, apply_in_place
from hloom.passes.rules.conditional import CONDITIONAL
from hloom.passes.rules.while_loop import WHILE_LOOP
from hloom.runtime import compare, run
from scripts.lower_gpt2 import Config, lower
from tests.corpus import lowered

PASSES_HERE = (
    "canonical-broadcasts", "canonical-dots", "canonical-gathers", "carry-concatenations", "conditional-to-select", "cse", "dce", "eliminate-dead-updates", "fold", "fold-transposes", "hoist", "hoist-slices", "inline", "inline-fusions", "merge-dots", "move-across-branches", "move-converts", "move-into-branches", "move-out-of-branches", "outline", "propagate-constants",
    "simplify-collectives", "simplify-loops", "simplify-tuples", "sink", "sink-all-reduces", "sink-reshapes", "sink-slices", "unroll",
)  # fmt: skip
SAMPLE = (
    "control.nested_control", "control.scan_gradients", "control.trees", "models.long_short_term_memory_gradients",
    "models.transformer", "random.random_rejection",
)  # fmt: skip
NOT_COMPARED = ("control.mapped_while", "models.transformer_scanned_with_remat", "random.rng_uniform")
PIPELINE = ["inline", WHILE_LOOP, CONDITIONAL, "hoist", "sink", "fold", "unroll", "cse", "merge-dots", "dce"]


def changed(text: str, passes):
    """The module after passes; sound, and printed text reads back sound; None where nothing changed."""
    module = parse(text)
    level = verify(module).level
    report = apply_in_place(module, passes)
    assert verify(module).level == level
    verify(parse(print_module(module)))
    return module if report.changed else None


@pytest.mark.parametrize("stage", ["before", "after"])
@pytest.mark.parametrize("name", PASSES_HERE)
def test_programs_stay_sound(name, stage):
    for text in [text for name, text in lowered(stage).items() if name in SAMPLE]:
        module = changed(text, name)
        if module is not None and name not in ("outline", "unroll", "hoist"):
            assert not apply_in_place(module, name).changed, f"{name} finds more to do when it is run again"


@pytest.mark.long
@pytest.mark.parametrize("stage", ["before", "after"])
@pytest.mark.parametrize("name", PASSES_HERE)
def test_every_program_stays_sound(name, stage):
    for text in lowered(stage).values():
        changed(text, name)


@pytest.mark.parametrize("program", [name for name in SAMPLE if name in lowered("before")])
def test_numbers_of_a_sample(program):
    assert_same_numbers(lowered("before")[program], PIPELINE)


@pytest.mark.long
@pytest.mark.parametrize("name", [*PASSES_HERE, "pipeline"])
def test_numbers_of_every_program(name):
    for program, text in lowered("before").items():
        if program not in NOT_COMPARED and "custom-call(" not in text and "num_partitions=" not in text.splitlines()[0]:
            assert_same_numbers(text, PIPELINE if name == "pipeline" else [name])


def assert_same_numbers(text: str, passes) -> None:
    module = changed(text, passes)
    if module is None:
        return
    expected = run(text, seed=3)
    differences = compare(run(module, expected.inputs).outputs, expected.outputs)
    assert not differences, "\n".join(map(str, differences))


def test_a_model_of_twelve_layers_gets_short():
    text = lower(Config(width=24, heads=2, vocabulary=50, sequence=8, batch=2), metadata=False)
    module = parse(text)
    apply_in_place(module, ["cse", "outline"])
    verify(module)
    assert len(print_module(module)) < 0.65 * len(text)


@pytest.mark.long
def test_the_short_model_has_the_same_numbers():
    text = lower(Config(width=24, heads=2, vocabulary=50, sequence=8, batch=2), metadata=False)
    assert_same_numbers(text, ["cse", "outline"])


def test_the_passes_can_be_named():
    assert set(PASSES_HERE) <= set(PASSES)
