"""What evaluating may take is checked before it is taken: instructions, elements, bytes.

Covers `limits.py`.
"""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

from hloom.evaluator import LimitReached, evaluate
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.runtime import random_inputs
from hloom.text import HloomError

COMPUTATIONS = """
  sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
  odd { a = f32[] parameter(0)  b = f32[] parameter(1)  m = f32[] multiply(a, b)  ROOT c = f32[] add(a, m) }
  ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }
  lt { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
  abs_lt {
    a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
    x = f32[] abs(a)  y = f32[] abs(b)  ROOT e = pred[] compare(x, y), direction=LT
  }
"""
N = 1 << 14
TYPES = ("f32", "bf16", "f64", "f8e4m3fn", "c64", "f16")
PAIRS = {dtype: (f"{dtype}[{N}]", f"{dtype}[{N}]") for dtype in (*TYPES, "s8", "u4", "s32", "u64")}
MATRIX, TABLE = ("f32[128,128]",), ("f32[512,32]", "s32[512]")
PROGRAMS = [
    *((PAIRS[dtype], f"{dtype}[{N}] {opcode}(p0, p1)")
      for dtype in TYPES for opcode in ("add", "divide", "power", "atan2")),
    *((PAIRS[dtype], f"{dtype}[{N}] {opcode}(p0, p1)")
      for dtype in ("s8", "u4", "s32", "u64") for opcode in ("add", "divide", "power", "remainder", "shift-left")),
    *((PAIRS[dtype][:1], f"{dtype}[{N}] {opcode}(p0)")
      for dtype in TYPES for opcode in ("exponential", "log-plus-one", "logistic", "negate", "sqrt", "tan", "tanh")),
    *((PAIRS[dtype][:1], f"{dtype}[{N}] erf(p0)") for dtype in TYPES if dtype != "c64"),
    *((PAIRS[dtype][:1], f"{dtype}[{N}] count-leading-zeros(p0)") for dtype in ("s8", "u4", "s32", "u64")),
    *((PAIRS[dtype][:1], f"{target}[{N}] convert(p0)")
      for dtype in TYPES for target in ("f32", "bf16", "s8", "u64", "f8e5m2", "s4", "c128", "pred")),
    *(((), f"{dtype}[{N}] iota(), iota_dimension=0") for dtype in ("s4", "f32", "bf16", "u8", "c64")),
    (("f32[]",), f"f32[{N}] broadcast(p0), dimensions={{}}"),
    ((f"f32[{N}]",) * 3, f"f32[{N}] clamp(p0, p1, p2)"),
    ((f"pred[{N}]", *(f"f32[{N}]",) * 2), f"f32[{N}] select(p0, p1, p2)"),
    ((f"f32[{N}]",), f"f32[{N}] reduce-precision(p0), exponent_bits=5, mantissa_bits=10"),
    ((f"f32[{N}]", f"u32[{N}]"), f"s8[{N}] stochastic-convert(p0, p1)"),
    ((f"f32[{N}]",), f"u4[{N},8] bitcast-convert(p0)"),
    ((f"u4[{N},8]",), f"f32[{N}] bitcast-convert(p0)"),
    (("f32[16]", "f32[]"), f"f32[{N + 16}] pad(p0, p1), padding=0_{N}"),
    ((f"f32[{N}]",) * 2, f"f32[{2 * N}] concatenate(p0, p1), dimensions={{0}}"),
    ((f"f32[{N}]", "f32[4]", "s32[]"), f"f32[{N}] dynamic-update-slice(p0, p1, p2)"),
    *(((f"{dtype}[128,{inner}]", f"{dtype}[{inner},128]"),
       f"{dtype}[128,128] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
      for dtype in ("f32", "bf16", "s8", "pred", "c64") for inner in (1, 128)),
    (("f32[1,64,64,2]", "f32[3,3,2,4]"),
     "f32[1,64,64,4] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    (("f32[1,2,2,1]", "f32[2,2,1,1]"),
     "f32[1,1,1,1] convolution(p0, p1), window={size=2x2 stride=999x999 pad=99_99x99_99}, dim_labels=b01f_01io->b01f"),
    ((f"f32[{N}]", "f32[]"), "f32[] reduce(p0, p1), dimensions={0}, to_apply=sum"),
    ((f"f32[{N}]", "f32[]"), "f32[] reduce(p0, p1), dimensions={0}, to_apply=odd"),
    ((*MATRIX, "f32[]"), "f32[128] reduce(p0, p1), dimensions={1}, to_apply=odd"),
    *(((*MATRIX, "f32[]"), f"f32[128,128] reduce-window(p0, p1), window={{size=3x3 pad=1_1x1_1}}, to_apply={graph}")
      for graph in ("sum", "odd")),
    (("f32[2,2]", "f32[]"), "f32[1,1] reduce-window(p0, p1), window={size=2x2 stride=999x999 pad=99_99x99_99}, to_apply=sum"),
    ((*MATRIX, "f32[64,64]", "f32[]"),
     "f32[128,128] select-and-scatter(p0, p1, p2), window={size=2x2 stride=2x2}, select=ge, scatter=sum"),
    (TABLE, "f32[512,32] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
            "index_vector_dim=1, slice_sizes={1,32}"),
    (("f32[4,4,4,4,16,16]", f"s32[{N},1]"),
     f"f32[{N}] gather(p0, p1), offset_dims={{}}, collapsed_slice_dims={{0,1,2,3,4,5}}, start_index_map={{0}}, "
     "index_vector_dim=1, slice_sizes={1,1,1,1,1,1}"),
    *(((f"f32[{N}]", f"s32[{N},1]", f"f32[{N}]"),
       f"f32[{N}] scatter(p0, p1, p2), update_window_dims={{}}, inserted_window_dims={{0}}, "
       f"scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={graph}") for graph in ("sum", "odd")),
    ((f"f32[{N}]",), f"f32[{N}] sort(p0), dimensions={{0}}, to_apply=lt"),
    ((f"f32[{N}]", f"s32[{N}]"), f"(f32[{N}], s32[{N}]) sort(p0, p1), dimensions={{0}}, to_apply=abs_lt"),
    ((f"f32[{N}]",), "(f32[5], s32[5]) topk(p0), k=5, largest=true"),
    *((("u64[2]",), f"(u64[2], {dtype}[{N}]) rng-bit-generator(p0), algorithm=rng_three_fry")
      for dtype in ("u8", "u32", "u64")),
    *((("u64[3]",), f"(u64[3], {dtype}[{N}]) rng-bit-generator(p0), algorithm=rng_philox")
      for dtype in ("u8", "u32", "u64")),
    (MATRIX, "f32[128,128] cholesky(p0), lower=true"),
    (MATRIX * 2, "f32[128,128] triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"),
    (("c64[128,128]",), "c64[128,128] fft(p0), fft_type=FFT, fft_length={128,128}"),
    (MATRIX, "c64[128,65] fft(p0), fft_type=RFFT, fft_length={128,128}"),
    (("f32[64,256]", *("f32[256]",) * 2),
     "(f32[64,256], f32[256], f32[256]) batch-norm-training(p0, p1, p2), epsilon=1, feature_index=1"),
    ((f"f32[{N}]",) * 2, f"f32[{N}] map(p0, p1), dimensions={{0}}, to_apply=odd"),
]  # fmt: skip
FIXED_BYTES = 100_000
"""What any instruction may take beside: plans, small arrays, the interpreter's own."""


def program(parameters: tuple[str, ...], root: str) -> Module:
    lines = [f"p{number} = {type_} parameter({number})" for number, type_ in enumerate(parameters)]
    return parse("\n".join([COMPUTATIONS, "ENTRY e {", *lines, f"ROOT r = {root}", "}"]))


@pytest.mark.parametrize(("parameters", "root"), PROGRAMS, ids=[root.partition("(p")[0] for _, root in PROGRAMS])
def test_no_instruction_takes_more_memory_than_is_checked(parameters: tuple[str, ...], root: str):
    module = program(parameters, root)
    inputs = random_inputs([parameter.type for parameter in module.entry.parameters])  # type: ignore
    with pytest.raises(LimitReached) as caught:
        evaluate(module, inputs, memory=0)
    checked = int("".join(re.findall(r"may take ([\d,]+) bytes", caught.value.message)).replace(",", ""))
    tracemalloc.start()
    try:
        evaluate(module, inputs)
        assert tracemalloc.get_traced_memory()[1] <= checked + FIXED_BYTES
    finally:
        tracemalloc.stop()


def test_what_is_in_use_counts_and_what_is_forgotten_does_not():
    chain = "\n".join(f"x{k + 1} = f32[1000] negate(x{k})" for k in range(50))
    module = parse(f"ENTRY e {{ x0 = f32[1000] parameter(0)\n{chain}\nROOT y = f32[1000] copy(x50) }}")
    evaluate(module, [np.zeros(1000, np.float32)], memory=70_000)
    uses = ", ".join(f"x{k}" for k in range(1, 51))
    module = parse(
        f"ENTRY e {{ x0 = f32[1000] parameter(0)\n{chain}\nROOT y = ({', '.join(['f32[1000]'] * 50)}) tuple({uses}) }}"
    )
    with pytest.raises(LimitReached, match=r"x\d+: negate to f32\[1000\] may take 52,000 bytes where 20,000 are in use"):
        evaluate(module, [np.zeros(1000, np.float32)], memory=70_000)


def test_the_state_of_a_loop_is_held_once():
    module = parse("""
      more { s = (s32[], f32[1000]) parameter(0)  i = s32[] get-tuple-element(s), index=0
             n = s32[] constant(100)  ROOT less = pred[] compare(i, n), direction=LT }
      step { s = (s32[], f32[1000]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
             j = s32[] add(i, one)  x = f32[1000] get-tuple-element(s), index=1  y = f32[1000] add(x, x)
             ROOT t = (s32[], f32[1000]) tuple(j, y) }
      ENTRY e { i = s32[] parameter(0)  x = f32[1000] parameter(1)  s = (s32[], f32[1000]) tuple(i, x)
                ROOT w = (s32[], f32[1000]) while(s), condition=more, body=step }
    """)
    inputs = [np.int32(0), np.zeros(1000, np.float32)]
    assert evaluate(module, inputs, memory=90_000)[0] == 100
    with pytest.raises(LimitReached, match=r"y: add .* in round 1 of the loop w"):
        evaluate(module, inputs, memory=78_000)


LOOP = """
  always { x = f32[] parameter(0)  ROOT yes = pred[] constant(true) }
  step { x = f32[] parameter(0)  ROOT y = f32[] add(x, x) }
"""


def test_an_endless_loop_is_named_with_its_round():
    module = parse(f"{LOOP} ENTRY e {{ x = f32[] parameter(0)  ROOT w = f32[] while(x), condition=always, body=step }}")
    with pytest.raises(LimitReached) as caught:
        evaluate(module, [np.float32(1)], steps=3000)
    message = "step: more than 3,000 instructions would be executed, in round 1,000 of the loop w"
    assert (caught.value.message, caught.value.hint) == (message, "steps= allows more, on the command line --steps")


def test_loops_in_loops_are_named_from_within():
    inner = "inner { x = f32[] parameter(0)  ROOT v = f32[] while(x), condition=always, body=step }"
    module = parse(
        f"{LOOP} {inner} ENTRY e {{ x = f32[] parameter(0)  ROOT w = f32[] while(x), condition=always, body=inner }}"
    )
    with pytest.raises(HloomError, match=r"in round [\d,]+ of the loop v, in round 1 of the loop w\n"):
        evaluate(module, [np.float32(1)], steps=3000)


def test_calls_that_double_end():
    graphs = ["g0 { x = f32[] parameter(0) ROOT y = f32[] add(x, x) }"]
    graphs += [
        f"g{k} {{ x = f32[] parameter(0) a = f32[] call(x), to_apply=g{k - 1} "
        f"ROOT b = f32[] call(a), to_apply=g{k - 1} }}"
        for k in range(1, 60)
    ]
    module = parse("\n".join([*graphs, "ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=g59 }"]))
    with pytest.raises(LimitReached, match="more than 10,000 instructions would be executed"):
        evaluate(module, [np.float32(1)], steps=10_000)


@pytest.mark.filterwarnings("ignore:.*negate has no attribute 'window'")
def test_windows_of_what_has_none_are_not_counted():
    text = "HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x), window={size=9} }"
    (result,) = evaluate(parse(text), [np.ones(2, np.float32)], steps=10, memory=1 << 20)
    assert result.tolist() == [-1, -1]


def test_each_element_of_a_window_counts():
    module = program(
        ("f32[1]", "f32[]"), "f32[1] reduce-window(p0, p1), window={size=1000000000 pad=999999999_0}, to_apply=sum"
    )
    with pytest.raises(LimitReached, match="r: more than 10,000,000 instructions would be executed"):
        evaluate(module, [np.zeros(1, np.float32), np.float32(0)])
