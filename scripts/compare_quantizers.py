"""Compare the errors of hloom's quantisation with those of Qwix, AQT and ONNX Runtime: the table of docs/quantize.md.

    python scripts/compare_quantizers.py [MODEL...]

Four models of scripts/quantizer_models.py, or those named; a line for each recipe with the relative errors on inputs
that were not calibrated with, as the root of their mean square over some draws of weights and inputs. Peers that are
not installed (`pip install qwix aqtp onnxruntime onnx`, and flax for Qwix) are left, and named. About 7 minutes of CPU
time in all.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent.parent))

import jax

import hloom
from hloom.compress.quantization import round_by_gptq
from scripts.quantizer_models import DRAWS, JaxOperations, Model, model, relative
from scripts.quantizer_peers import Errors, aqt_errors, onnxruntime_errors, qwix_errors

RECIPES: dict[str, dict[str, Any]] = {
    "weights int8": {"weights": "int8"},
    "weights int8:128": {"weights": "int8:128"},
    "weights int4": {"weights": "int4"},
    "weights int4:32": {"weights": "int4:32"},
    "weights int4:32, zero points": {"weights": "int4:32", "symmetric": False},
    "weights int4:32, GPTQ": {"weights": "int4:32"},
    "weights int4:128": {"weights": "int4:128"},
    "weights int4:128, zero points": {"weights": "int4:128", "symmetric": False},
    "dynamic int8": {"activations": "dynamic"},
    "static int8, minmax": {"activations": "static", "clipping": "minmax"},
    "static int8, percentile": {"activations": "static", "clipping": "percentile"},
    "static int8, mse": {"activations": "static", "clipping": "mse"},
    "static int8, SmoothQuant": {"activations": "static", "smoothing": "search"},
}


def hloom_errors(model: Model) -> Errors:
    """By recipe; groups of 32 by GPTQ too."""
    plain = jax.jit(lambda params, x: model.network(JaxOperations(params), x))
    module = hloom.load(plain.lower(model.params, model.batches[0]))
    *calibration, unseen = ([*jax.tree.leaves(model.params), batch] for batch in model.batches)
    exact = hloom.run(module, unseen).outputs[0]
    for name, recipe in RECIPES.items():
        options = dict(recipe)
        if recipe.get("activations") == "static":
            options["calibration"] = calibration
        made = hloom.quantize(module, **options)
        if name.endswith("GPTQ"):
            made = round_by_gptq(made, calibration)
        yield name, relative(hloom.run(made.module, made.convert(unseen)).outputs[0], exact)


PEERS: dict[str, tuple[str, str, Callable[[Model], Errors]]] = {
    "hloom": ("hloom", "hloom", hloom_errors),
    "Qwix": ("qwix", "qwix", qwix_errors),
    "AQT": ("aqt", "aqtp", aqt_errors),
    "ONNX Runtime": ("onnxruntime", "onnxruntime", onnxruntime_errors),
}


def main(names: Iterable[str]) -> None:
    """Print the table of every model as it is known."""
    unknown = [name for name in names if name not in DRAWS]
    if unknown:
        sys.exit(f"there is no model '{unknown[0]}'; there are {', '.join(DRAWS)}")
    here = [peer for peer, (package, _, _) in PEERS.items() if importlib.util.find_spec(package) is not None]
    for peer, (_, distribution, _) in PEERS.items():
        print(f"{peer}: {importlib.metadata.version(distribution) if peer in here else 'not installed'}")
    for name in names or DRAWS:
        started = process_time()
        drawn = [model(name, seed) for seed in range(DRAWS[name])]
        errors = {peer: mean([dict(PEERS[peer][2](one)) for one in drawn]) for peer in here}
        print(
            f"\n{name}, {process_time() - started:.0f} CPU seconds\n{'recipe':32}" + "".join(f"{p:>14}" for p in here)
        )
        for recipe in RECIPES:
            cells = [errors[peer].get(recipe) for peer in here]
            print(
                f"{recipe:32}" + "".join(f"{'' if cell is None else f'{cell:.4f}':>14}" for cell in cells), flush=True
            )


def mean(draws: list[dict[str, float]]) -> dict[str, float]:
    """By recipe the root of the mean square."""
    return {recipe: math.sqrt(statistics.mean(draw[recipe] ** 2 for draw in draws)) for recipe in draws[0]}


if __name__ == "__main__":
    main(sys.argv[1:])
