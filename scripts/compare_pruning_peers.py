"""Compare `hloom prune` with torch.nn.utils.prune, torch.ao.pruning, Wanda's formula and torch-pruning: a table.

    python scripts/compare_pruning_peers.py

Needs torch and torch-pruning beside hloom and jax. The same networks with the same random weights and inputs: masks are
compared element by element, errors are those of the outputs against the network that is not pruned. Wanda's scores are
written here in torch, by the paper's formula (Sun et al. 2024, equation 1). The networks of torch-pruning have a
residual connection, a depthwise convolution and BatchNorm; its importance is the norm of a group, as hloom's, but for
depthwise kernels, which it leaves out. Random matrices are pruned alone.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch_pruning  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.ao.pruning import WeightNormSparsifier  # pyright: ignore[reportMissingImports, reportPrivateImportUsage]
from torch.nn.utils import prune as torch_prune  # pyright: ignore[reportMissingImports]

import hloom

Arrays = dict[str, np.ndarray]
LAYERS = ("up", "middle", "down")
SEEDS = 8
MATRICES = 100


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.middle, self.down = nn.Linear(256, 1024), nn.Linear(1024, 1024), nn.Linear(1024, 64)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.middle(torch.relu(self.up(x)))))


def perceptron(params: Any, x: Any) -> Any:
    for name in LAYERS:
        x = x @ params[f"{name}.weight"].T + params[f"{name}.bias"]
        x = x if name == "down" else jax.nn.relu(x)
    return x


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.second_norm = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.depthwise, self.pointwise = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 32, 1)
        self.last_norm, self.head = nn.BatchNorm2d(32), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.first(x)))
        x = x + torch.relu(self.second_norm(self.second(x)))
        x = self.last_norm(torch.relu(self.pointwise(self.depthwise(x))))
        return self.head(x.mean((2, 3)))


def convolutions(params: Any, x: Any) -> Any:
    def conv(name: str, x: Any, groups: int = 1) -> Any:
        kernel = params[f"{name}.weight"]
        padding = [(kernel.shape[2] // 2,) * 2] * 2
        numbers = ("NCHW", "OIHW", "NCHW")
        made = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), padding, dimension_numbers=numbers, feature_group_count=groups
        )
        return made + params[f"{name}.bias"][:, None, None]

    def norm(name: str, x: Any) -> Any:
        mean, variance, scale, bias = (
            params[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias

    x = jax.nn.relu(norm("norm", conv("first", x)))
    x = x + jax.nn.relu(norm("second_norm", conv("second", x)))
    x = norm("last_norm", jax.nn.relu(conv("pointwise", conv("depthwise", x, 16))))
    return x.mean((2, 3)) @ params["head.weight"].T + params["head.bias"]


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    columns = ["recipe, half removed", "peer", "differing", "error of hloom", "of the peer", "seconds", "of the peer"]
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    compare_masks()
    compare_channels()
    compare_matrices()


def compare_masks() -> None:
    network = Perceptron()
    x = torch.randn(128, 256) * torch.linspace(0.1, 3, 256)
    module, weights, arrays = _traced(perceptron, _state(network), x.numpy())
    original = hloom.run(module, arrays).outputs[0]
    rows: list[tuple[str, str, dict[str, Any], Callable[[nn.Module], dict[str, Any]]]] = [
        ("magnitude, of a weight", "torch.nn.utils.prune", {}, _by_magnitude),
        ("magnitude, of the model", "torch.nn.utils.prune", {"within": "model"}, _by_global_magnitude),
        ("2:4", "torch.ao.pruning", {"pattern": "2:4"}, _by_groups),
        ("Wanda", "the formula in torch", {"method": "wanda", "calibration": [arrays]}, lambda n: _by_wanda(n, x)),
    ]
    for name, peer, options, function in rows:
        start = process_time()
        made = hloom.prune(module, weights, **options)
        seconds = process_time() - start
        start = process_time()
        masks = function(copy.deepcopy(network))
        peer_seconds = process_time() - start
        theirs = list(arrays)
        differing = total = 0
        for weight in made.weights:
            mask = masks[_key(module, weight.number, _state(network)).removesuffix(".weight")].numpy() != 0
            differing += int((mask != weight.mask).sum())
            total += mask.size
            theirs[weight.number] = arrays[weight.number] * mask
        errors = [_error(hloom.run(module, inputs).outputs[0], original) for inputs in (made.convert(arrays), theirs)]
        cells = f"{errors[0]:.4f} | {errors[1]:.4f} | {seconds:.2f} | {peer_seconds:.2f}"
        print(f"| {name} | {peer} | {differing:,} of {total:,} | {cells} |", flush=True)


def compare_channels() -> None:
    results: list[tuple[float, float, float, float]] = []
    differing = total = 0
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        network = Convolutions().eval()
        norms: list[Any] = [network.norm, network.second_norm, network.last_norm]
        for norm in norms:
            nn.init.normal_(norm.weight, 1, 0.3)
            for array in (norm.bias, norm.running_mean):
                nn.init.normal_(array, 0, 0.3)
            nn.init.uniform_(norm.running_var, 0.5, 2)
        x = torch.randn(8, 3, 16, 16)
        state = _state(network)
        module, weights, arrays = _traced(convolutions, state, x.numpy())
        original = hloom.run(module, arrays).outputs[0]
        start = process_time()
        made = hloom.prune_structured(module, weights, 0.5, axes=["channels", "residual"])
        seconds = process_time() - start
        output = hloom.run(made.module, made.convert(arrays)).outputs[0]
        start = process_time()
        importance = torch_pruning.importance.GroupMagnitudeImportance(p=2)
        torch_pruning.pruner.MagnitudePruner(
            network, x, importance=importance, pruning_ratio=0.5, ignored_layers=[network.head]
        ).step()
        peer_seconds = process_time() - start
        results.append((_error(output, original), _error(network(x).detach().numpy(), original), seconds, peer_seconds))
        cut = dict(zip(sorted(state), made.convert(arrays), strict=False))
        for name in ("norm", "last_norm"):
            ours, theirs = (set(one[f"{name}.running_mean"].tolist()) for one in (cut, _state(network)))
            differing += len(ours - theirs)
            total += len(ours)
    mean = np.mean(results, axis=0)
    cells = f"{mean[0]:.4f} | {mean[1]:.4f} | {mean[2]:.2f} | {mean[3]:.2f}"
    print(f"| channels, of {SEEDS} networks | torch-pruning | {differing} of {total} | {cells} |", flush=True)


def compare_matrices() -> None:
    """Masks of random matrices: torch.ao's 2:4, and Wanda as its authors' code computes it."""
    generator = np.random.default_rng(0)
    counts = {"2:4": 0, "Wanda": 0, "2:4 by Wanda": 0}
    total = 0
    for _ in range(MATRICES):
        outputs, summed, tokens = (int(generator.integers(1, 40)) * step for step in (1, 4, 1))
        weight = generator.standard_normal((outputs, summed)).astype(np.float32)
        x = generator.standard_normal((tokens, summed)).astype(np.float32)
        module = hloom.load(jax.jit(lambda w, x: jnp.tanh(x) @ w.T).lower(weight, x))
        options: dict[str, Any] = {"method": "wanda", "calibration": [[weight, x]], "only": [0]}
        ours = {
            "2:4": hloom.prune(module, [weight, x], pattern="2:4", only=[0]),
            "Wanda": hloom.prune(module, [weight, x], 0.5, **options),
            "2:4 by Wanda": hloom.prune(module, [weight, x], pattern="2:4", **options),
        }
        layer = nn.Linear(summed, outputs, bias=False)
        layer.weight.data = torch.from_numpy(weight.copy())
        metric = np.abs(weight) * np.sqrt(np.square(np.tanh(x)).sum(0) / tokens)
        theirs = {
            "2:4": _groups_of(nn.Sequential(layer), "0")[0].numpy() != 0,
            "Wanda": _lowest_of_rows(torch.from_numpy(metric)).numpy() != 0,
            "2:4 by Wanda": _lowest_of_groups(torch.from_numpy(metric)).numpy() != 0,
        }
        total += weight.size
        for name, made in ours.items():
            counts[name] += int((made.weights[0].mask != theirs[name]).sum())
    for name, differing in counts.items():
        print(f"{name}, {MATRICES} random matrices: {differing} of {total:,} elements differ", flush=True)


def _lowest_of_rows(metric: Any) -> Any:
    """Wanda's masks, as prune_wanda of the authors' lib/prune.py takes them: by a stable sort of every row."""
    lowest = torch.sort(metric, dim=-1, stable=True)[1][:, : metric.shape[1] // 2]
    return torch.ones_like(metric).scatter_(1, lowest, 0.0)


def _lowest_of_groups(metric: Any) -> Any:
    """Wanda's 2:4 masks: of every four columns the two lowest by topk."""
    mask = torch.ones_like(metric)
    for column in range(0, metric.shape[1], 4):
        lowest = torch.topk(metric[:, column : column + 4], 2, dim=1, largest=False)[1]
        mask.scatter_(1, column + lowest, 0.0)
    return mask


def _groups_of(network: nn.Module, *names: str) -> list[Any]:
    """2:4 masks of torch.ao for layers of a network."""
    sparsifier = WeightNormSparsifier(sparsity_level=1.0, sparse_block_shape=(1, 4), zeros_per_block=2, norm=1)
    sparsifier.prepare(network, [{"tensor_fqn": f"{name}.weight"} for name in names])
    sparsifier.step()
    layers: list[Any] = [network.get_submodule(name) for name in names]
    return [layer.parametrizations.weight[0].mask for layer in layers]


def _by_magnitude(network: nn.Module) -> dict[str, Any]:
    for name in LAYERS:
        torch_prune.l1_unstructured(getattr(network, name), "weight", 0.5)
    return {name: getattr(network, name).weight_mask for name in LAYERS}


def _by_global_magnitude(network: nn.Module) -> dict[str, Any]:
    layers = [(getattr(network, name), "weight") for name in LAYERS]
    torch_prune.global_unstructured(layers, pruning_method=torch_prune.L1Unstructured, amount=0.5)
    return {name: getattr(network, name).weight_mask for name in LAYERS}


def _by_groups(network: nn.Module) -> dict[str, Any]:
    return dict(zip(LAYERS, _groups_of(network, *LAYERS), strict=True))


def _by_wanda(network: nn.Module, x: Any) -> dict[str, Any]:
    masks: dict[str, Any] = {}
    for name in LAYERS:
        layer = getattr(network, name)
        scores = layer.weight.detach().abs() * x.norm(dim=0)
        lowest = scores.argsort(dim=1, stable=True)[:, : scores.shape[1] // 2]
        masks[name] = torch.ones_like(scores).scatter_(1, lowest, 0.0)
        x = torch.relu(layer(x)).detach()
    return masks


def _state(network: nn.Module) -> Arrays:
    return {
        name: array.detach().numpy().copy()
        for name, array in network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }


def _traced(
    function: Callable[..., Any], state: Mapping[str, np.ndarray], x: np.ndarray
) -> tuple[hloom.Module, Arrays, list[np.ndarray]]:
    """A program, its weights by parameters' names, and all of its arrays; weights are in the order of their names."""
    module = hloom.load(jax.jit(function).lower(dict(state), x))
    arrays = [*(state[name] for name in sorted(state)), x]
    return module, {module.entry.parameters[n].name: array for n, array in enumerate(arrays[:-1])}, arrays


def _key(module: hloom.Module, number: int, state: Mapping[str, np.ndarray]) -> str:
    """The name in the checkpoint of a parameter of a module."""
    assert number < len(module.entry.parameters) - 1, "the last is the input"
    return sorted(state)[number]


def _error(output: np.ndarray, original: np.ndarray) -> float:
    return float(np.linalg.norm(output - original) / np.linalg.norm(original))


if __name__ == "__main__":
    main()
