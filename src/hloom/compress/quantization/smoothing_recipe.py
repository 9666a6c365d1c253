"""Which smoothing a user's options mean, and the error by which a search chooses: that of the recipe's own rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.compress.quantization.arithmetic import quantize_array, rounded
from hloom.compress.quantization.formats import NumberFormat
from hloom.compress.quantization.integer_products import activation_format
from hloom.compress.quantization.recipe import Recipe
from hloom.compress.quantization.smooth_quant import SEARCH, Smoothing, smooth
from hloom.compress.quantization.weights import choose_weights
from hloom.ir import Module
from hloom.passes import canonicalize
from hloom.text import HloomError


def read_alpha(smoothing: float | str | None, activations: str | None, calibration: Sequence[Any]) -> float | None:
    """The alpha that is given, None where it is searched; raises HloomError for what makes no sense."""
    if smoothing is None:
        return None
    if activations is None:
        raise HloomError(
            "smoothing is for products of narrow types: weights alone need none",
            hint="activations='static', or --activations static",
        )
    if not calibration:
        raise HloomError(
            "smoothing needs inputs to measure activations on", hint="calibration=[arrays, ...], or --calibrate X.npz"
        )
    if isinstance(smoothing, str):
        if smoothing != SEARCH:
            raise HloomError(f"'{smoothing}' is not a smoothing option", hint="give a number from 0 to 1, or 'search'")
        return None
    if not 0 <= smoothing <= 1:
        raise HloomError(f"{smoothing} is not a valid smoothing alpha", hint="give a number from 0 to 1, or 'search'")
    return float(smoothing)


def smooth_for(module: Module, recipe: Recipe, calibration: Sequence[Sequence[Any]], alpha: float | None) -> Smoothing:
    """Smooth what the recipe's dots read; a search looks for the least error with this recipe."""
    weights, _ = choose_weights(canonicalize(module), recipe)
    formats = {weight.parameter.number: weight.format for weight in weights}

    def error(measured: np.ndarray, rows: np.ndarray, weight: np.ndarray, number: int) -> float:
        per_row = recipe.activations == "dynamic"
        greatest = (
            np.abs(rows).max(axis=1, keepdims=True, initial=0.0) if per_row else np.abs(measured).max(initial=0.0)
        )
        form = formats[number]
        blocks = (max(len(weight), 1), max(weight.shape[1], 1) if form.granularity == "tensor" else 1)
        made = quantize_array(weight, form.number_format, blocks).dequantized(np.dtype(np.float64))
        stepped = _stepped(rows, greatest, activation_format(form.number_format.dtype))
        return float(np.sum((stepped @ made - rows @ weight) ** 2))

    return smooth(
        module,
        [weight.parameter.number for weight in weights],
        calibration,
        alpha,
        error,
        folds_into_weights=all(form.granularity != "tensor" for form in formats.values()),
        holds_out_inputs=recipe.activations == "static",
    )


def _stepped(rows: np.ndarray, greatest: np.ndarray | float, form: NumberFormat) -> np.ndarray:
    """Rows of activations rounded to a format by their range, and back."""
    step = np.where(greatest > 0, greatest, 1) / form.largest
    steps = np.clip(rows / step, -form.largest, form.largest)
    return rounded(steps, form).astype(np.float64) * step
