"""Instruction times on TPUs: what an instruction does (`tpu_work`), and its cycles (`tpu_time`, `tpu_kernels`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.analysis import device, roofline
from hloom.analysis.cost import cost
from hloom.analysis.cost_analysis import MATHEMATICAL
from hloom.analysis.tpu_kernels import async_collective, tpu_kernels
from hloom.analysis.tpu_time import tpu_cycles, tpu_parameters
from hloom.analysis.tpu_work import (
    MOST_WINDOWS,
    MatrixWork,
    compiler_cycles,
    registers_of,
    tpu_work,
    window_count,
)
from hloom.ir import Apply

TILES = "{1,0:T(8,128)}"
LOCAL = "{1,0:T(8,128)S(1)}"
V6E = tpu_parameters()["tpu-v6e"]


def entry(*lines: str, before: str = "") -> hloom.Module:
    return hloom.parse(f"HloModule m, is_scheduled=true\n{before}\nENTRY e {{\n" + "\n".join(lines) + "\n}")


def root(module: hloom.Module) -> Apply:
    node = module.entry.root
    assert isinstance(node, Apply)
    return node


def work_of(module: hloom.Module):
    return tpu_work(root(module), lambda node: 2 * 1024**3)


def test_bytes_are_counted_in_whole_tiles_by_memory():
    work = work_of(entry(f"x = f32[9,100]{TILES} parameter(0)", f"ROOT y = f32[9,100]{LOCAL} negate(x)"))
    assert (work.loaded, work.stored, work.local) == (16 * 128 * 4, 0, 0)
    assert dict(work.registers) == {"single": 2}
    work = work_of(entry(f"x = f32[9,100]{LOCAL} parameter(0)", f"ROOT y = f32[9,100]{TILES} negate(x)"))
    assert (work.loaded, work.stored, work.local) == (0, 16 * 128 * 4, 16 * 128 * 4)


def test_an_operand_that_is_only_sliced_counts_what_is_read():
    fused = f"""f {{
  p = f32[4096,1024]{TILES} parameter(0)
  s = f32[8,1024]{TILES} slice(p), slice={{[0:8], [0:1024]}}
  ROOT n = f32[8,1024]{TILES} multiply(s, s)
}}"""
    module = entry(
        f"x = f32[4096,1024]{TILES} parameter(0)",
        f"ROOT y = f32[8,1024]{TILES} fusion(x), kind=kLoop, calls=f",
        before=fused,
    )
    work = work_of(module)
    assert (work.loaded, work.stored) == (8 * 1024 * 4, 8 * 1024 * 4)
    assert dict(work.registers) == {"move": 8, "arithmetic": 8}


def test_windows_and_cycles_are_those_of_the_configuration():
    config = '{"window_config":{"estimated_cycles":"1234","iteration_bounds":["2","3","1"]}}'
    module = entry(
        f"x = f32[8,128]{TILES} parameter(0)", f"ROOT y = f32[8,128]{TILES} negate(x), backend_config={config}"
    )
    assert window_count(root(module)) == 6
    assert compiler_cycles(root(module)) == 1234


def test_hostile_configurations_are_bounded():
    bounds = ",".join(['"999999999999999999"'] * 16)
    module = entry(
        f"x = f32[8,128]{TILES} parameter(0)",
        f'ROOT y = f32[8,128]{TILES} negate(x), backend_config={{"window_config":{{"iteration_bounds":[{bounds}]}}}}',
    )
    assert window_count(root(module)) == MOST_WINDOWS
    assert roofline(module, "tpu-v5e").seconds > 0


def test_the_model_does_not_read_the_compilers_cycles():
    lines = [f"x = f32[8,128]{TILES} parameter(0)", f"ROOT y = f32[8,128]{TILES} negate(x)"]
    config = ', backend_config={"window_config":{"estimated_cycles":"999999999","iteration_bounds":["1"]}}'
    plain, configured = (roofline(module, "tpu-v6e") for module in (entry(*lines), entry(lines[0], lines[1] + config)))
    assert plain.seconds == configured.seconds
    assert plain.compiler_estimate() is None
    estimate = configured.compiler_estimate()
    assert estimate is not None
    assert str(estimate).startswith("the compiler's estimate of 1 instructions: 571 ms; here 1.2")


def test_a_small_operation_takes_about_a_microsecond():
    for name in tpu_parameters():
        module = entry(f"x = f32[8,128]{TILES} parameter(0)", f"ROOT y = f32[8,128]{TILES} negate(x)")
        assert roofline(module, name).seconds == pytest.approx(1.2e-6, rel=0.15)


def test_one_window_loads_computes_and_stores_and_several_overlap():
    lines = [f"x = f32[1024,1024]{TILES} parameter(0)", f"ROOT y = f32[1024,1024]{TILES} negate(x)"]
    config = ', backend_config={{"window_config":{{"iteration_bounds":["{}"]}}}}'
    one, four = (entry(lines[0], lines[1] + config.format(count)) for count in (1, 4))
    single, several = (tpu_cycles(root(module), work_of(module), V6E) for module in (one, four))
    assert single.total == pytest.approx(single.compute + single.memory + V6E.latency)
    assert several.total == pytest.approx(4 * V6E.latency + several.memory + several.compute / 4)


def test_packing_and_reducing_share_a_pass_that_nothing_hides():
    fused = """f {
  p = KIND[1024,1024]{1,0:T(8,128)} parameter(0)
  c = f32[1024,1024]{1,0:T(8,128)} convert(p)
  z = f32[] constant(0)
  ROOT r = f32[1024]{0:T(1024)} reduce(c, z), dimensions={1}, to_apply=sum
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}"""

    def passes(kind: str) -> float:
        module = entry(
            f"x = {kind}[1024,1024]{TILES} parameter(0)",
            "ROOT y = f32[1024]{0:T(1024)} fusion(x), kind=kLoop, calls=f",
            before=fused.replace("KIND", kind),
        )
        work = work_of(module)
        return tpu_cycles(root(module), work, V6E).memory - work.moved / V6E.hbm

    assert passes("f32") == pytest.approx(V6E.register_cycles("reduce") * 1024)
    longer = max(V6E.register_cycles(name) for name in ("packed", "reduce"))
    assert passes("bf16") == pytest.approx(longer * 1024)


def test_tiles_smaller_than_a_register_are_loaded_even_if_they_stay_in_vmem():
    def cycles(layout: str) -> float:
        module = entry("z = f32[] constant(0)", f"ROOT b = f32[64,64]{layout} broadcast(z), dimensions={{}}")
        return tpu_cycles(root(module), work_of(module), V6E).total

    assert cycles(LOCAL) < 100
    assert cycles("{1,0:T(4,128)S(1)}") > V6E.latency


def convolution(right: str, made: str, attributes: str, flops: float) -> MatrixWork:
    module = entry(
        "x = bf16[8,32,32,256]{3,2,1,0:T(8,128)(2,1)S(1)} parameter(0)",
        f"w = bf16[{right}]{{3,2,1,0:T(8,128)(2,1)S(1)}} parameter(1)",
        f"ROOT c = {made}{{3,2,1,0:T(8,128)}} convolution(x, w), {attributes}",
    )
    return tpu_work(root(module), lambda node: flops).products[0]


ROWS = 8 * 32 * 32
SLIDING = "window={size=5x3 pad=2_2x1_1}, dim_labels=b01f_01io->b01f"
EMITTER = ', backend_config={"convolution_algorithm_config":{"emitter":"%s"}}'


def test_positions_of_a_window_are_contracted_with_the_features():
    flops = 2 * 0.75 * 15 * 24 * ROWS * 64  # a quarter of the positions is padding
    product = convolution("5,3,24,64", "f32[8,32,32,64]", SLIDING, flops)
    assert product == MatrixWork(ROWS, 15 * 24, 64, 0.75)


def test_some_emitters_and_reversed_kernels_align_the_features_of_each_position():
    flops = 2 * 15 * 24 * ROWS * 64
    aligned = MatrixWork(ROWS, 15 * 128, 64, 1.0)
    emitter = EMITTER % "EmitOutputBatchInSublanes"
    assert convolution("5,3,24,64", "f32[8,32,32,64]", SLIDING + emitter, flops) == aligned
    reversed_kernel = SLIDING.replace("1_1}", "1_1 rhs_reversal=1x1}")
    assert convolution("5,3,24,64", "f32[8,32,32,64]", reversed_kernel, flops) == aligned


@pytest.mark.parametrize(("emitter", "passes"), [("EmitDepthwiseAllBatchInLanes", 30), ("EmitDepthwiseOther", 15)])
def test_a_depthwise_kernel_takes_a_pass_or_two_for_each_position(emitter: str, passes: int):
    attributes = f"{SLIDING}, feature_group_count=256{EMITTER % emitter}"
    product = convolution("5,3,1,256", "f32[8,32,32,256]", attributes, 2 * 15 * ROWS * 256)
    assert product == MatrixWork(ROWS, 1, 256, passes)


def test_a_patch_in_the_array_takes_the_time_of_64_rows_to_load():
    attributes = SLIDING + EMITTER % "EmitAllInputFeaturePackedInSublanesOutputBatchInSublanes"
    product = convolution("5,3,3,64", "f32[8,32,32,64]", attributes, 2 * 15 * 3 * ROWS * 64)
    assert product == MatrixWork(32 * 32 * 64, 15 * 3, 64, 1.0)


def test_zeros_that_dilation_inserts_are_multiplied_unless_the_emitter_aligns_positions():
    dilated = SLIDING.replace("1_1}", "1_1 lhs_dilate=2x2}")
    flops = 2 * 15 / 4 * 24 * ROWS * 64
    assert convolution("5,3,24,64", "f32[8,32,32,64]", dilated, flops).passes == 1.0
    emitter = EMITTER % "EmitOutputBatchInSublanes"
    assert convolution("5,3,24,64", "f32[8,32,32,64]", dilated + emitter, flops).passes == 0.25


def test_groups_that_were_written_as_a_dimension_of_the_window_are_no_positions():
    grouped = "window={size=5x4 stride=1x3 pad=2_2x0_0 lhs_dilate=1x4}, dim_labels=b01f_01io->b01f"
    product = convolution("5,4,24,64", "f32[8,32,32,64]", grouped, 2 * 5 * 24 * ROWS * 64)
    assert product == MatrixWork(ROWS, 5 * 24, 64, 1.0)


def test_batches_that_were_written_as_a_window_are_rows():
    module = entry(
        "x = bf16[8,128,64]{2,1,0:T(8,128)(2,1)S(1)} parameter(0)",
        "w = bf16[8,64,32]{2,1,0:T(8,128)(2,1)S(1)} parameter(1)",
        "ROOT c = bf16[8,128,32]{2,1,0:T(8,128)(2,1)} convolution(x, w), window={size=8 stride=7 lhs_dilate=8}, "
        "dim_labels=0bf_0io->0bf",
    )
    product = tpu_work(root(module), lambda node: 2 * 8 * 128 * 64 * 32).products[0]
    assert product == MatrixWork(8 * 128, 64, 32)


def product_cycles(device: str, kind: str = "bf16", made: str = f"f32[1024,1024]{LOCAL}", **changed: str) -> float:
    """The cycles of a product of 1,024 x 1,024 matrices that stand in VMEM, unless their layouts are changed."""
    left, right = changed.get("left", LOCAL), changed.get("right", LOCAL)
    module = entry(
        f"x = {kind}[1024,1024]{left} parameter(0)",
        f"w = {kind}[1024,1024]{right} parameter(1)",
        f"ROOT d = {made} convolution(x, w), dim_labels=bf_io->bf{changed.get('attributes', '')}",
    )
    work = tpu_work(root(module), lambda node: 2 * 1024**3)
    return tpu_cycles(root(module), work, tpu_parameters()[device]).total


@pytest.mark.parametrize("device", tpu_parameters())
def test_a_product_streams_rows_through_tiles_by_its_precision(device: str):
    on = tpu_parameters()[device]
    plain = (1024 / on.array) ** 2 * 1024 / on.row_rate
    assert product_cycles(device, made=f"f32[1024,1024]{LOCAL}") == pytest.approx(on.start + plain)
    assert product_cycles(device, "s8") == pytest.approx(on.start + plain / 2)
    highest = product_cycles(device, attributes=", operand_precision={highest,highest}")
    assert highest == pytest.approx(on.start + 6 * plain)


@pytest.mark.parametrize("device", tpu_parameters())
def test_a_product_waits_for_each_factor_in_hbm_and_for_its_result(device: str):
    on = tpu_parameters()[device]
    elements = 1024 * 1024 / on.hbm
    local = product_cycles(device)
    loaded = product_cycles(device, left=TILES, right=TILES)
    assert loaded - local == pytest.approx(2 * (on.fetch + 2 * elements))
    stored = product_cycles(device, made=f"f32[1024,1024]{TILES}")
    assert stored - local == pytest.approx(on.latency + 4 * elements)


def test_a_result_of_bf16_passes_through_hbm_unless_vectors_compute_on_bf16():
    made = "bf16[1024,1024]{1,0:T(8,128)(2,1)S(1)}"
    v5e = tpu_parameters()["tpu-v5e"]
    assert product_cycles("tpu-v6e", made=made) == product_cycles("tpu-v6e")
    extra = product_cycles("tpu-v5e", made=made) - product_cycles("tpu-v5e")
    assert extra == pytest.approx(v5e.latency + 4 * 1024 * 1024 / v5e.hbm)


DUMPS = Path(__file__).parent.parent / "targets" / "dumps"


def ranks(values: Sequence[float]) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - counts / 2)[inverse]


def cycles_by_us_and_the_compiler(path: Path, device: str) -> Iterator[tuple[float, int]]:
    module = hloom.load(path)
    analysis = cost(module).analysis(MATHEMATICAL)
    for node in module.nodes():
        theirs = compiler_cycles(node)
        if theirs and isinstance(node, Apply):
            work = tpu_work(node, lambda product: analysis.own(product).flops)
            yield tpu_cycles(node, work, tpu_parameters()[device]).total, theirs


@pytest.mark.parametrize("device", tpu_parameters())
def test_cycles_of_programs_that_were_not_fitted_agree_with_the_compilers(device: str):
    paths = sorted(DUMPS.glob(f"*.{device.removeprefix('tpu-')}.hlo.gz"))
    ours, theirs = zip(*(pair for path in paths for pair in cycles_by_us_and_the_compiler(path, device)), strict=True)
    assert len(ours) > 50
    assert np.corrcoef(ranks(ours), ranks(theirs))[0, 1] > 0.95
    assert sum(ours) / sum(theirs) == pytest.approx(1, abs=0.15)


def test_registers_are_of_32_bits_and_padded():
    module = entry("x = bf16[16,128]{1,0:T(8,128)(2,1)} parameter(0)", "ROOT y = f32[3,5] convert(x)")
    assert registers_of(module.entry.root.operands[0].type) == 2
    assert registers_of(module.entry.root.type) == 1
    assert registers_of(None) == 0


def test_only_what_a_tpu_compiler_made_is_priced_by_the_model():
    tiled = entry(f"x = f32[8,128]{TILES} parameter(0)", f"ROOT y = f32[8,128]{TILES} negate(x)")
    plain = entry("x = f32[8,128] parameter(0)", "ROOT y = f32[8,128] negate(x)")
    v5e, h100 = (device(name) for name in ("tpu-v5e", "h100"))
    assert tpu_kernels(tiled, v5e, lambda node: 0.0) is not None
    assert tpu_kernels(plain, v5e, lambda node: 0.0) is None
    assert tpu_kernels(tiled, h100, lambda node: 0.0) is None


def test_calls_that_only_name_memory_take_no_time():
    module = entry(
        f"x = f32[8,128]{TILES} parameter(0)",
        f'a = f32[64,128]{TILES} custom-call(), custom_call_target="AllocateBuffer"',
        f"y = f32[8,128]{TILES} negate(x)",
        "ROOT t = (f32[64,128], f32[8,128]) tuple(a, y)",
    )
    times = {timing.node.name: timing.seconds for timing in roofline(module, "tpu-v5e").timings}
    assert times.get("a", 0.0) == 0
    assert async_collective(root(entry("x = f32[] parameter(0)", "ROOT y = f32[] negate(x)"))) is None
