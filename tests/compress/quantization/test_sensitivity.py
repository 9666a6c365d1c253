"""Formats by weight within a budget, against all choices. Covers `sensitivity.py`, `noise.py`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.compress.quantization import choose_formats, measure_sensitivities
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered, normal

FORMATS = ("int8", "int4:4")


def chain(count: int) -> tuple[hloom.Module, list[np.ndarray]]:
    """Layers of different sizes and importance, whose errors are about independent."""
    lines = ["  x0 = f32[8,16] parameter(0)"]
    for n in range(count):
        lines += [
            f"  w{n} = f32[16,16] parameter({n + 1})",
            f"  d{n} = f32[8,16] dot(x{n}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"  x{n + 1} = f32[8,16] tanh(d{n})",
        ]
    lines[-1] = lines[-1].replace("  x", "  ROOT x", 1)
    module = hloom.parse("ENTRY main {\n" + "\n".join(lines) + "\n}")
    return module, [normal(8, 16), *(normal(16, 16, seed=n, scale=0.05 + 0.1 * n) for n in range(count))]


ONLY: dict[str, Any] = {"only": ["w0", "w1", "w2"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a choice of formats needs one budget"),
        ({"error": 0.1, "bytes": 10}, "a choice of formats needs one budget"),
        ({"error": 0}, "an error of 0 allows nothing"),
        ({"error": float("nan")}, "an error of nan allows nothing"),
        ({"bytes": 10}, "no choice of int8, int4:4 fits into 10 bytes: the smallest takes"),
        ({"error": 0.1, "formats": ()}, "formats to choose from are some, all different"),
        ({"error": 0.1, "formats": ("int8", "int8")}, "formats to choose from are some, all different"),
        ({"error": 0.1, "formats": ("int3",)}, "there is no number format 'int3'"),
    ],
)
def test_budgets_that_make_no_sense(options: dict, message: str):
    module, arrays = chain(3)
    with pytest.raises(HloomError) as raised:
        choose_formats(module, [arrays], **{"formats": FORMATS, **ONLY, **options})
    assert raised.value.message.startswith(message)


def test_inputs_that_do_not_do():
    module, arrays = chain(3)
    with pytest.raises(HloomError, match="sensitivities need inputs to measure errors on"):
        measure_sensitivities(module, [], FORMATS, **ONLY)
    with pytest.raises(HloomError, match="the inputs of the calibration have different weights"):
        measure_sensitivities(module, [arrays, [*arrays[:-1], arrays[-1] + 1]], FORMATS, **ONLY)


def test_programs_without_floats():
    text = """ENTRY e {
      x = f32[2,4] parameter(0)
      h = f32[2,4] tanh(x)
      w = f32[4,4] parameter(1)
      y = f32[2,4] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT n = s32[2,4] convert(y)
    }"""
    with pytest.raises(HloomError, match="has no output of floats: there is no error to measure"):
        measure_sensitivities(hloom.parse(text), [[normal(2, 4), normal(4, 4)]])


def test_sensitivities_are_errors_of_one_weight():
    module, arrays = chain(3)
    measured = measure_sensitivities(module, [arrays], FORMATS, **ONLY)
    assert len(measured) == 6
    original = hloom.run(module, arrays).outputs[0]
    for one in measured:
        made = hloom.quantize(module, {one.weight: one.format})
        y = hloom.run(made.module, made.convert(arrays)).outputs[0]
        assert one.error == pytest.approx(np.linalg.norm(y - original) / np.linalg.norm(original), rel=1e-3)
        assert one.bytes == made.weights[0].bytes_after


def test_choices_are_the_best_of_all():
    module, arrays = chain(3)
    measured = {(one.weight, one.format): one for one in measure_sensitivities(module, [arrays], FORMATS, **ONLY)}
    every = []
    for formats in product((None, *FORMATS), repeat=3):
        chosen = [measured[name, text] for name, text in zip(ONLY["only"], formats, strict=True) if text is not None]
        size = sum(one.bytes for one in chosen) + 1024 * formats.count(None)
        every.append((size, sum(one.error**2 for one in chosen) ** 0.5))
    for budget in (0.003, 0.02, 0.1, 1.0):
        choice = choose_formats(module, [arrays], FORMATS, error=budget, **ONLY)
        assert choice.measured <= budget
        best = min(size for size, error in every if error <= budget)
        assert choice.bytes[1] == best or choice.predicted < 0.96 * budget, "it was too much when measured"
    for budget in (960, 1200, 2000, 3072):
        choice = choose_formats(module, [arrays], FORMATS, bytes=budget, **ONLY)
        assert choice.bytes[1] <= budget
        assert choice.predicted <= 1.01 * min(error for size, error in every if size <= budget)


def test_a_program_with_formats_by_weight():
    module, arrays = lowered("language model")
    choice = choose_formats(module, [arrays], ("int8", "int4:8"), error=0.2)
    assert len({*choice.formats.values()}) == 2 and choice.measured <= 0.2
    assert choice.predicted == pytest.approx(choice.measured, rel=0.5)
    made = hloom.quantize(module, choice.formats)
    assert {weight.name: str(weight.format) for weight in made.weights} == dict(choice.formats)
    assert sum(weight.bytes_after for weight in made.weights) <= choice.bytes[1]
    y = hloom.run(made.module, made.convert(arrays)).outputs[0]
    original = hloom.run(module, arrays).outputs[0]
    assert np.linalg.norm(y - original) / np.linalg.norm(original) == pytest.approx(choice.measured, rel=1e-3)
