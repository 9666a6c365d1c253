"""The smoothing that options mean, and the error by which a search chooses: that of the recipe's own rounding."""

from __future__ import annotations

import numpy as np

from hloom.compress.quantization.arithmetic import quantize_array, rounded
from hloom.compress.quantization.formats import NumberFormat
from hloom.compress.quantization.integer_products import activation_format
from hloom.compress.quantization.options import QuantizationOptions
from hloom.compress.quantization.recipe import Recipe
from hloom.compress.quantization.smooth_quant import Smoothing, smooth
from hloom.compress.quantization.weights import choose_weights
from hloom.ir import Module
from hloom.passes import canonicalize


def smooth_for(module: Module, recipe: Recipe, options: QuantizationOptions) -> Smoothing | None:
    """Smooth what the recipe's dots read, if the options say so; a search is for the least error with this recipe."""
    if options.smoothing is None:
        return None
    alpha = None if isinstance(options.smoothing, str) else float(options.smoothing)
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
        options.calibration,
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
