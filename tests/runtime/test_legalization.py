"""XLA's optimised text, before and after legalising, and the numbers through XLA.

Covers `op_expanders.py`, `bitcast_expander.py`, `constant_division.py`.
"""

import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import PrintOptions, parse, print_module
from hloom.ir import DTYPES
from hloom.runtime import compare, legalization, legalize, run, xla_queries
from hloom.runtime.xla_queries import embeddable_stablehlo, shardy_text
from hloom.text import HloomError, Unsupported


def body(text, partitions=1):
    """What the entry's body becomes, one instruction per line."""
    module = legalize(parse(f"HloModule m\n{text}"), partitions)
    printed = print_module(module, PrintOptions.short_parsable())
    entry = printed[printed.index("ENTRY") :].splitlines()[1:]
    return [line.strip() for line in entry[: entry.index("}")]]


def refusal(text):
    with pytest.raises(HloomError) as caught:
        legalize(parse(text))
    return str(caught.value)


def test_bitcast_with_the_same_order_is_a_reshape():
    assert body("ENTRY e { x = f32[2,3]{1,0} parameter(0) ROOT y = f32[6]{0} bitcast(x) }") == [
        "x = f32[2,3] parameter(0)",
        "ROOT y = f32[6] reshape(x)",
    ]


def test_bitcast_to_another_order_is_a_transpose():
    assert body("ENTRY e { x = f32[2,3]{0,1} parameter(0) ROOT y = f32[3,2]{1,0} bitcast(x) }") == [
        "x = f32[2,3] parameter(0)",
        "ROOT y = f32[3,2] transpose(x), dimensions={1,0}",
    ]


def test_bitcast_to_another_type_is_a_bitcast_convert():
    assert body("ENTRY e { x = f32[4]{0} parameter(0) ROOT y = s32[4]{0} bitcast(x) }")[-1].startswith("ROOT y = s32[4]")
    x = np.arange(4, dtype=np.float32)
    wide = run("HloModule m\n ENTRY e { x = f32[4]{0} parameter(0) ROOT y = u8[2,8]{1,0} bitcast(x) }", [x])
    assert np.array_equal(wide.outputs[0], x.view(np.uint8).reshape(2, 8))
    narrow = run("HloModule m\n ENTRY e { x = u16[2,4]{1,0} parameter(0) ROOT y = u64[2]{0} bitcast(x) }", [x.view(np.uint16).reshape(2, 4)])
    assert np.array_equal(narrow.outputs[0], x.view(np.uint64))


LAYOUTS = [
    ("2,3,4", "2,1,0", "4,6", "1,0"), ("2,3,4", "0,2,1", "12,2", "1,0"), ("2,3,4", "1,0,2", "2,12", "0,1"),
    ("4,1,6", "0,1,2", "6,2,2", "2,1,0"), ("24", "0", "2,3,4", "0,1,2"), ("1", "0", "1,1", "0,1"),
]  # fmt: skip


@pytest.mark.parametrize(("dims", "order", "result_dims", "result_order"), LAYOUTS)
def test_bitcast_reads_memory(dims, order, result_dims, result_order):
    sizes, result_sizes = ([int(size) for size in dim.split(",")] for dim in (dims, result_dims))
    orders, result_orders = ([int(axis) for axis in case.split(",")][::-1] for case in (order, result_order))
    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    memory = x.transpose(orders).ravel()
    expected = memory.reshape([result_sizes[axis] for axis in result_orders]).transpose(np.argsort(result_orders))
    text = f"ENTRY e {{ x = f32[{dims}]{{{order}}} parameter(0) ROOT y = f32[{result_dims}]{{{result_order}}} bitcast(x) }}"
    assert np.array_equal(run(f"HloModule m\n {text}", [x]).outputs[0], expected)


def test_bitcast_reads_tiles():
    x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    text = "ENTRY e { x = f32[4,6]{1,0:T(2,3)} parameter(0) ROOT y = f32[24]{0} bitcast(x) }"
    expected = x.reshape(2, 2, 2, 3).transpose(0, 2, 1, 3).ravel()
    assert np.array_equal(run(f"HloModule m\n {text}", [x]).outputs[0], expected)


def test_bitcast_of_padded_tiles_that_stay():
    assert body("ENTRY e { x = f32[5,6]{1,0:T(8,128)} parameter(0) ROOT y = f32[1,5,6]{2,1,0:T(8,128)} bitcast(x) }") == [
        "x = f32[5,6] parameter(0)",
        "ROOT y = f32[1,5,6] reshape(x)",
    ]


def test_fusion_is_a_call():
    text = """
    fused { a = f32[2]{0} parameter(0) ROOT b = f32[2]{0} negate(a) }
    ENTRY e { x = f32[2]{0} parameter(0) ROOT y = f32[2]{0} fusion(x), kind=kLoop, calls=fused }
    """
    assert body(text) == ["x = f32[2] parameter(0)", "ROOT y = f32[2] call(x), to_apply=fused"]


def test_asynchronous_pairs_are_joined():
    text = """
    ENTRY e {
      x = f32[2]{0} parameter(0)
      s = (f32[2]{0}, f32[2]{0}, u32[]) copy-start(x)
      y = f32[2]{0} copy-done(s)
      t = ((f32[2]{0}), f32[2]{0}, s32[]) negate-start(y)
      u = ((f32[2]{0}), f32[2]{0}, s32[]) negate-update(t)
      ROOT z = f32[2]{0} negate-done(u)
    }
    """
    assert body(text) == [
        "x = f32[2] parameter(0)",
        "y = f32[2] copy(x)",
        "ROOT z = f32[2] call(y), to_apply=async_wrapped",
    ]


def test_collectives_of_several_arrays_are_split():
    text = """
    sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e {
      x = f32[2] parameter(0)
      ROOT r = (f32[2], f32[2]) all-reduce(x, x), channel_id=1, replica_groups=[1,2]<=[2], use_global_device_ids=true, to_apply=sum
    }
    """
    assert [line.replace("ROOT ", "").split(" = ")[1] for line in body(text)[1:]] == [
        "f32[2] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum",
        "f32[2] all-reduce(x), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum",
        "(f32[2], f32[2]) tuple(r.1, r.2)",
    ]


def test_a_partitioned_program_becomes_replicas():
    text = """
    HloModule m, is_scheduled=true, num_partitions=2
    ENTRY e {
      x = f32[2] parameter(0), sharding={devices=[2]<=[2]}
      i = u32[] partition-id()
      y = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
      ROOT r = (f32[2], u32[]) tuple(y, i)
    }
    """
    printed = print_module(legalize(parse(text), 2), PrintOptions.short_parsable())
    assert printed.splitlines()[0] == "HloModule m, replica_count=2"
    assert "i = u32[] replica-id()" in printed
    assert "y = f32[2] collective-permute(x), source_target_pairs={{0,1},{1,0}}" in printed
    assert [device[1].item() for device in run(text).per_device] == [0, 1]


REAL = {
    "acos": ([-1, -0.999, -0.3, 0.0, 1e-5, 0.9999, 1, 2], np.arccos),
    "asin": ([-1, -0.3, 0.0, 1e-5, 0.9999, 1, 2], np.arcsin),
    "atanh": ([-1, -0.3, 0.0, 1e-5, 0.9999, 1, 2], np.arctanh),
    "acosh": ([0.5, 1, 1.0001, 2, 50, 1e5, 1e19, 3e38, np.inf], np.arccosh),
    "asinh": ([-3e38, -20, -1, -1e-5, 0.0, 1e-5, 0.3, 2, 1e5, 1e12, 1e19, 3e38, np.inf], np.arcsinh),
    "sinh": ([-np.inf, -89, -20, -1, -1e-5, 0.0, 1e-5, 0.3, 2, 88, 89, 100], np.sinh),
    "cosh": ([-np.inf, -89, -20, -1, -1e-5, 0.0, 1e-5, 0.3, 2, 88, 89, 100], np.cosh),
}


@pytest.mark.parametrize("type_name", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("opcode", REAL)
def test_functions_that_the_cpu_lacks(opcode, type_name):
    values, function = REAL[opcode]
    x = np.array([*values, np.nan]).astype(DTYPES[type_name].numpy)
    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64)).astype(x.dtype)
    actual = run(f"ENTRY e {{ x = {type_name}[{x.size}] parameter(0) ROOT y = {type_name}[{x.size}] {opcode}(x) }}", [x])
    tolerance = {"f32": 1e-6, "f64": 2e-15, "bf16": 1e-2}[type_name]
    assert compare([expected], actual.outputs, rtol=tolerance, atol=0) == []


@pytest.mark.parametrize("type_name", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_mulhi(type_name):
    dtype = DTYPES[type_name].numpy
    x, y = (np.frombuffer(np.random.default_rng(seed).bytes(64 * dtype.itemsize), dtype) for seed in (0, 1))
    expected = [int(a) * int(b) >> DTYPES[type_name].bits for a, b in zip(x, y, strict=True)]
    text = f"ENTRY e {{ x = {type_name}[64] parameter(0) y = {type_name}[64] parameter(1) ROOT z = {type_name}[64] mulhi(x, y) }}"
    assert run(f"HloModule m\n {text}", [x, y]).outputs[0].tolist() == expected


def test_layouts_of_custom_calls_stay():
    text = 'ENTRY e { x = f32[2,2]{0,1} parameter(0) ROOT y = f32[2,2]{0,1} custom-call(x), custom_call_target="f", operand_layout_constraints={f32[2,2]{0,1}} }'
    assert "f32[2,2]{0,1} custom-call(x)" in body(text)[-1]


def test_the_module_in_hand_is_not_changed():
    text = "HloModule m\n\nENTRY e {\n  x = f32[2,3]{0,1} parameter(0)\n  ROOT y = f32[3,2]{1,0} bitcast(x), metadata={op_name=\"a\"}\n}\n"
    module = parse(text)
    before = print_module(module)
    legalize(module)
    assert print_module(module) == before


def test_every_problem_is_named():
    message = refusal("""
    HloModule m
    ENTRY e {
      x = f32[4] parameter(0)
      u = u32[4] parameter(1)
      y = s8[4] stochastic-convert(x, u)
      c = c64[4] parameter(2)
      s = c64[4] sinh(c)
      d = f32[<=4] parameter(3)
      ROOT b = f32[<=4] bitcast(d)
    }
    """)
    assert message == (
        "cannot be made legal for XLA's CPU client:\n"
        "  y (stochastic-convert) in e: XLA's CPU backend has none\n"
        "  s (sinh) in e: XLA's CPU backend has no sinh of c64\n"
        "  b (bitcast) in e: its operand's type is f32[<=4]: an array of static size is needed"
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ROOT y = f32[5] bitcast(x)", "y (bitcast) in e: a bitcast between 4 and 5 elements"),
        ("ROOT y = f64[4] bitcast(x)", "y (bitcast) in e: a bitcast from f32[4] to f64[4], which take different numbers of bits"),
        ("ROOT y = f32[2,2]{1,0:T(8,128)} bitcast(x)", "y (bitcast) in e: the tiles of f32[2,2]{1,0:T(8,128)} leave padding in memory"),
        ("ROOT y = f32[4] copy-done(x)", "y (copy-done) in e: its operand x is parameter, not copy-start"),
        ("t = token[] after-all() ROOT y = ((f32[4]), token[]) infeed(t)", "y (infeed) in e: nothing feeds it"),
    ],
)  # fmt: skip
def test_reasons(line, reason):
    message = refusal(f"HloModule m\n ENTRY e {{ x = f32[4] parameter(0) {line} }}")
    assert message == f"cannot be made legal for XLA's CPU client:\n  {reason}"


def test_fragments_are_refused():
    message = refusal("ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] call(x), to_apply=gone }")
    assert message == "a fragment cannot run: nothing defines computation gone"
    with pytest.raises(Unsupported, match="nothing defines operand gone in e"):
        legalize(parse("ENTRY e { ROOT y = f32[4] negate(gone) }"))


def test_tuple_constants_are_built():
    assert body("ENTRY e { ROOT c = (s32[], (f32[2])) constant((1, ({2, 3}))) }") == [
        "constant = s32[] constant(1)",
        "constant.1 = f32[2] constant({2, 3})",
        "c.1 = (f32[2]) tuple(constant.1)",
        "ROOT c = (s32[], (f32[2])) tuple(constant, c.1)",
    ]


def test_tuple_select_is_one_per_array():
    text = """
    HloModule m
    ENTRY e {
      p = pred[] parameter(0)
      t = (s32[], f32[2]) parameter(1)
      f = (s32[], f32[2]) parameter(2)
      ROOT r = (s32[], f32[2]) tuple-select(p, t, f)
    }
    """
    inputs = [np.array(False), np.int32(1), np.zeros(2, np.float32), np.int32(2), np.ones(2, np.float32)]
    assert [item.tolist() for item in run(text, inputs).outputs] == [2, [1, 1]]


def test_index_vectors_are_split():
    text = "ENTRY e { x = s32[3,4] parameter(0) i = s32[2] parameter(1) ROOT y = s32[1,1] dynamic-slice(x, i), dynamic_slice_sizes={1,1} }"
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert run(text, [x, np.array([2, 1], np.int32)]).outputs[0] == x[2, 1]


def test_types_that_are_left_out():
    text = "ENTRY e { x = f32[1] parameter(0) y = sinh(x) ROOT z = f32[1] negate(y) }"
    assert run(text, [np.zeros(1, np.float32)]).outputs[0] == 0
    message = refusal("ENTRY e { x = f32[1] parameter(0) ROOT y = f32[1] fusion(x), kind=kLoop }")
    assert message == "cannot be made legal for XLA's CPU client:\n  y (fusion) in e: y has no calls="


def test_deep_tuples_are_refused():
    type_text, value = "s32[]", "1"
    for _ in range(150):
        type_text, value = f"({type_text})", f"({value})"
    message = refusal(f"ENTRY e {{ ROOT c = {type_text} constant({value}) }}")
    assert message == "cannot be made legal for XLA's CPU client:\n  c (constant) in e: its tuples nest deeper than 100"


def test_names_of_types_are_changed_on_the_way_to_xla():
    """XLA's parser takes `u1` for a type wherever it stands."""
    module = parse("""HloModule f32
    token {
      u1 = f32[4] parameter(0)
      ROOT opaque = f32[4] negate(u1)
    }
    ENTRY bf16 {
      pred = f32[4] parameter(0)
      u1 = f32[4] call(pred), to_apply=token
      u1_ = f32[4] add(u1, pred)
      ROOT c64 = f32[4] multiply(u1_, u1)
    }""")
    before = print_module(module)
    x = np.arange(4, dtype=np.float32)
    result = run(module, {"pred": x})
    assert result.outputs[0].tolist() == [0, 0, 0, 0]
    assert print_module(module) == before
    with pytest.raises(HloomError, match="pred"):
        run(module, {"u1": x})


@pytest.mark.parametrize("name", ["s32", "u8", "s64"])
@pytest.mark.parametrize(("opcode", "expected"), [("divide", [-1, 3]), ("remainder", [5, 0])])
@pytest.mark.parametrize("divisor", ["constant({0, 2})", "subtract(constant({3, 4}), constant({3, 2}))"])
def test_constant_divisions_by_zero(name: str, opcode: str, expected: list[int], divisor: str):
    """XLA folds these when it compiles, and dies of them."""
    divisor = divisor.replace("constant({3", f"{name}[2] constant({{3")
    text = f"ENTRY e {{ a = {name}[2] constant({{5, 6}}) b = {name}[2] {divisor} ROOT r = {name}[2] {opcode}(a, b) }}"
    wanted = np.array(expected).astype(DTYPES[name].numpy)
    assert run(parse(text)).outputs[0].tolist() == wanted.tolist()
    assert evaluate(parse(text))[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("send", [run, embeddable_stablehlo, shardy_text])
def test_partial_maxima_are_refused_by_name(send, monkeypatch):
    """As text XLA's parser before 0.11 rejects them, in a proto it takes them for sums."""
    for module in (legalization, xla_queries):
        monkeypatch.setattr(module, "jaxlib_version", lambda: "0.10.2")
    sharding = "sharding={mesh['x'=2], [{}], unreduced=max{'x'}}"
    program = parse(f"HloModule m, num_partitions=2\nENTRY e {{ ROOT p = f32[8] parameter(0), {sharding} }}")
    with pytest.raises(Unsupported, match=r"p in e is a partial max .* jaxlib 0.10.2 does not know"):
        send(program)
