"""The time of a matrix product on a GPU, against measured times and at its limits.

Covers `analysis/matmul_time.py` and `analysis/compute_time.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hloom.analysis import device, roofline
from hloom.analysis.matmul_time import Matmul, MatmulRates, matmul_seconds
from hloom.formats.hlo import parse
from hloom.ir import dtype
from tests.analysis.gpu_times import accuracy, estimate, matmuls

RATES = MatmulRates(5e-6, 1e15, 1e15, 1e-6, 2e-6, 4e12)
ROWS = matmuls()
MADE = accuracy(ROWS, map(estimate, ROWS))


def product(batch: int, m: int, n: int, k: int, *, rates: MatmulRates = RATES) -> float:
    return Matmul(rates, 100, 4e12, 2, batch, m, n, k).seconds


@pytest.mark.parametrize("group", MADE)
def test_measured_products(group: tuple[str, str, str]):
    """How well such rates do on rows left out is in docs/time.md, by scripts/calibrate_gpus.py."""
    made = MADE[group]
    assert made.rows > 200
    assert 0.97 <= made.median <= 1.03
    assert made.within >= 0.85


@pytest.mark.parametrize("row", ROWS[::97], ids=str)
def test_the_roofline_of_a_dot_takes_what_the_rates_give(row):
    batch, m, n, k = row.shape
    left, right, made = {"bf16": ("bf16",) * 3, "f32": ("f32",) * 3}.get(row.operand, ("f8e4m3fn", "f8e5m2", "bf16"))
    module = parse(
        f"ENTRY e {{\n  x = {left}[{batch},{m},{k}] parameter(0)\n  w = {right}[{batch},{k},{n}] parameter(1)\n"
        f"  ROOT h = {made}[{batch},{m},{n}] dot(x, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n}"
    )
    assert roofline(module, row.device).seconds == pytest.approx(estimate(row))


def test_a_wave_that_is_not_full_takes_as_long_as_a_full_one():
    """101 tiles of 128 x 128 on 100 multiprocessors take twice as long as 100, in which nothing is split."""
    rates = MatmulRates(0, 1e15, 1e15, 0, 1.0, 4e12)  # splitting takes a second, so it is out of the question
    tiles = [product(count, 64, 64, 4096, rates=rates) for count in (99, 100, 101, 200, 201)]
    assert tiles == pytest.approx([tiles[0], tiles[0], 2 * tiles[0], 2 * tiles[0], 3 * tiles[0]])


def test_few_tiles_of_a_long_sum_are_split():
    never = replace(RATES, split_seconds=1.0)
    assert product(1, 256, 256, 1 << 16) < product(1, 256, 256, 1 << 16, rates=never) / 2


def test_time_grows_with_every_dimension():
    sizes = [1, 8, 64, 100, 128, 1000, 4096, 10**6]
    for dimension in range(4):
        shapes = [[*([256] * dimension), size, *([256] * (3 - dimension))] for size in sizes]
        seconds = [product(*shape) for shape in shapes]
        assert seconds == sorted(seconds)
        assert all(map(math.isfinite, seconds))


def test_one_product_and_an_array_of_them_agree():
    shapes = np.array([[1, 256, 256, 256], [4, 1000, 3, 77], [1, 1, 1, 1]], np.float64)
    each = matmul_seconds(shapes, RATES, 100, 4e12, 2)
    assert each == pytest.approx([product(*map(int, shape)) for shape in shapes])


def test_the_parts_of_a_product_take_what_products_of_their_shapes_take():
    whole = Matmul(RATES, 100, 4e12, 2, 4, 4096, 1000, 512)
    shares = np.array([[1, 1, 1, 1], [0.25, 0.5, 1, 1], [1, 1, 0.5, 0.25]])
    parts = [(4, 4096, 1000, 512), (1, 2048, 1000, 512), (4, 4096, 500, 128)]
    assert whole.shared_seconds(shares) == pytest.approx([product(*part) for part in parts])


def test_a_product_without_elements_takes_no_time():
    assert product(0, 256, 256, 256) == product(1, 256, 256, 0) == 0


def test_rates_are_those_of_the_type_its_precision_and_its_size():
    h100 = device("h100")
    assert h100.matmul_rates(dtype("f16")) is h100.matmul_rates(dtype("bf16"))
    assert h100.matmul_rates(dtype("f8e5m2")) is h100.matmul["f8"]
    assert h100.matmul_rates(dtype("f32")) is h100.matmul["f32_fast"]
    for name in ("f64", "s8", "c64", "pred"):
        assert h100.matmul_rates(dtype(name)) is None
    assert h100.matmul_rates(dtype("f32"), is_fast=False) is None
    assert device("tpu-v5e").matmul_rates(dtype("bf16")) is None


def test_a_convolution_is_a_product_of_patches_and_filters():
    """A window of one is the dot of the pixels with the filters."""
    convolution = parse(
        "ENTRY e {\n  x = bf16[8,32,32,512] parameter(0)\n  w = bf16[1,1,512,1024] parameter(1)\n"
        "  ROOT y = bf16[8,32,32,1024] convolution(x, w), window={size=1x1}, dim_labels=b01f_01io->b01f\n}"
    )
    dot = parse(
        "ENTRY e {\n  x = bf16[8192,512] parameter(0)\n  w = bf16[512,1024] parameter(1)\n"
        "  ROOT y = bf16[8192,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    assert roofline(convolution, "h100").seconds == pytest.approx(roofline(dot, "h100").seconds)


def test_a_call_of_cublas_is_a_product():
    call = parse(
        "ENTRY e {\n  x = bf16[4,512,1024] parameter(0)\n  w = bf16[4,1024,2048] parameter(1)\n"
        '  ROOT y = (bf16[4,512,2048], s8[4096]) custom-call(x, w), custom_call_target="__cublas$gemm", backend_config='
        '{"gemm_backend_config":{"alpha_real":1,"beta":0,"dot_dimension_numbers":{"lhs_contracting_dimensions":["2"],'
        '"rhs_contracting_dimensions":["1"],"lhs_batch_dimensions":["0"],"rhs_batch_dimensions":["0"]}}}\n}'
    )
    dot = parse(
        "ENTRY e {\n  x = bf16[4,512,1024] parameter(0)\n  w = bf16[4,1024,2048] parameter(1)\n"
        "  ROOT y = bf16[4,512,2048] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}\n}"
    )
    [called], [own] = (roofline(module, "h100").timings for module in (call, dot))
    assert (called.compute, called.launch) == pytest.approx((own.compute, own.launch))
    assert called.seconds == pytest.approx(own.seconds, rel=0.01)


def test_a_fusion_that_holds_a_product_starts_as_slowly_as_one():
    text = """HloModule m
    fused {
      x = bf16[512,512] parameter(0)
      w = bf16[512,512] parameter(1)
      d = bf16[512,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT t = bf16[512,512] negate(d)
    }
    ENTRY e {
      x = bf16[512,512] parameter(0)
      w = bf16[512,512] parameter(1)
      ROOT f = bf16[512,512] fusion(x, w), kind=kCustom, calls=fused
    }"""
    [timing] = roofline(parse(text), "h100").timings
    assert timing.launch == device("h100").matmul["bf16"].launch_seconds
