"""Modules of PyTorch, lowered by torch_xla."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch  # pyright: ignore[reportMissingImports]
import torch_xla  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from .registry import Call, Program, register

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def texts(call: Call) -> Iterator[tuple[str, str]]:
    """The HLO of what a call yields, as torch_xla traces it."""
    function, arguments = call
    results = function(*arguments)
    yield "", torch_xla._XLAC._get_xla_tensors_hlo(list(results))


def _floats(*dims: int) -> Any:
    return torch.randn(*dims).to("xla")


def _trained(model: Any, optimizer: Any, inputs: Any, targets: Any) -> Call:
    model = model.to("xla")
    stepped = optimizer(model.parameters())

    def step(inputs: Any, targets: Any) -> Any:
        loss = functional.mse_loss(model(inputs), targets)
        loss.backward()
        stepped.step()
        return [loss, *model.parameters()]

    return step, (inputs, targets)


@program
def perceptron_adamw() -> Call:
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    return _trained(model, partial(torch.optim.AdamW, lr=1e-3), _floats(4, 6), _floats(4, 3))


@program
def convolution_batch_norm() -> Call:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 2)
    )
    return _trained(model, partial(torch.optim.SGD, lr=0.1, momentum=0.9), _floats(2, 3, 7, 7), _floats(2, 2))


@program
def transformer_layer() -> Call:
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return _trained(model, partial(torch.optim.RMSprop, lr=1e-3), _floats(2, 5, 8), _floats(2, 5, 8))


@program
def attention_causal() -> Call:
    def apply(query: Any, key: Any, value: Any) -> Any:
        return [functional.scaled_dot_product_attention(query, key, value, is_causal=True)]

    return apply, (_floats(2, 2, 5, 4), _floats(2, 2, 5, 4), _floats(2, 2, 5, 4))


@program
def indexing() -> Call:
    def apply(x: Any) -> Any:
        indices = x.argsort(dim=1)
        changed = x.clone()
        changed[:, 1:3] = x.gather(1, indices)[:, :2]
        changed = changed.index_add(0, indices[0, :4] % 4, x[:4])
        return [
            changed,
            x.cumsum(0),
            x.topk(2).values,
            torch.where(x > 0, x, x.flip(0)),
            x.roll(1, 0),
            x.unfold(1, 2, 1),
        ]

    return apply, (_floats(4, 6),)


@program
def linear_algebra() -> Call:
    def apply(x: Any) -> Any:
        positive = x @ x.T + torch.eye(4, device="xla")
        return [
            torch.linalg.cholesky(positive),
            torch.linalg.inv(positive),
            torch.linalg.qr(x)[0],
            torch.baddbmm(x[None], x[None], x[None]),
        ]

    return apply, (_floats(4, 4),)


@program
def embedding_and_loss() -> Call:
    def apply(tokens: Any, weights: Any) -> Any:
        weights = weights.requires_grad_()
        loss = functional.cross_entropy(functional.embedding(tokens, weights) @ weights.T, tokens, label_smoothing=0.1)
        loss.backward()
        return [loss, weights.grad]

    return apply, (torch.arange(6).to("xla") % 5, _floats(9, 4).detach())


@program
def interpolation_and_padding() -> Call:
    def apply(x: Any) -> Any:
        return [
            functional.interpolate(x, scale_factor=2.0, mode="bilinear"), functional.pad(x, (1, 1, 1, 1), "reflect"),
            functional.adaptive_avg_pool2d(x, 2), functional.group_norm(x, 2), functional.pixel_shuffle(x, 2),
            functional.conv_transpose2d(x, x[:4].transpose(0, 0).reshape(-1)[: 4 * 2 * 9].reshape(4, 2, 3, 3)),
        ]  # fmt: skip

    return apply, (_floats(2, 4, 6, 6),)
