"""The pass `cse`: before and after."""

import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply
from tests.passes.rule_assertions import module_of


def assert_merged(before: str, after: str) -> None:
    result, _ = apply(module_of(before), "cse")
    verify(result)
    wanted = module_of(after)
    result.name = wanted.name
    difference = hloom.difference(result, wanted, metadata=False)
    assert difference is None, f"{difference}\n{hloom.print(result, 'short')}"


def assert_kept(text: str) -> None:
    assert_merged(text, text)


def test_equal_instructions_are_one():
    assert_merged(
        "x = f32[2] parameter(0)\n a = f32[2] sine(x)\n b = f32[2] sine(x)\n c = f32[2] negate(a)\n"
        "d = f32[2] negate(b)\n ROOT r = f32[2] subtract(c, d)",
        "x = f32[2] parameter(0)\n a = f32[2] sine(x)\n c = f32[2] negate(a)\n ROOT r = f32[2] subtract(c, c)",
    )


def test_equal_constants_and_iotas_are_one():
    assert_merged(
        "a = s32[2] constant({1, 2})\n b = s32[2] constant({1, 2})\n c = s32[2] iota(), iota_dimension=0\n"
        "d = s32[2] iota(), iota_dimension=0\n ROOT t = (s32[2], s32[2], s32[2], s32[2]) tuple(a, b, c, d)",
        "a = s32[2] constant({1, 2})\n c = s32[2] iota(), iota_dimension=0\n"
        "ROOT t = (s32[2], s32[2], s32[2], s32[2]) tuple(a, a, c, c)",
    )


def test_zeros_of_both_signs_and_nans_of_other_bits_are_not_equal():
    assert_kept("a = f32[] constant(0)\n b = f32[] constant(-0.0)\n ROOT t = (f32[], f32[]) tuple(a, b)")
    assert_kept("a = f32[] constant(nan)\n b = f32[] constant(-nan)\n ROOT t = (f32[], f32[]) tuple(a, b)")


def test_operands_may_change_places():
    assert_merged(
        "x = f32[] parameter(0)\n y = f32[] parameter(1)\n a = f32[] add(x, y)\n b = f32[] add(y, x)\n"
        "ROOT r = f32[] divide(a, b)",
        "x = f32[] parameter(0)\n y = f32[] parameter(1)\n a = f32[] add(x, y)\n ROOT r = f32[] divide(a, a)",
    )


def test_operands_of_a_maximum_of_floats_keep_their_places():
    assert_kept("x = f32[] parameter(0)\n y = f32[] parameter(1)\n a = f32[] maximum(x, y)\n b = f32[] maximum(y, x)\n"
                "ROOT r = f32[] divide(a, b)")  # fmt: skip


def test_random_numbers_and_collectives_stay():
    assert_kept("a = f32[] constant(0)\n b = f32[] constant(1)\n x = f32[2] rng(a, b), distribution=rng_uniform\n"
                "y = f32[2] rng(a, b), distribution=rng_uniform\n ROOT r = f32[2] add(x, y)")  # fmt: skip
    assert_kept('x = f32[] parameter(0)\n a = f32[] custom-call(x), custom_call_target="f", '
                'custom_call_has_side_effect=true\n b = f32[] custom-call(x), custom_call_target="f", '
                'custom_call_has_side_effect=true\n ROOT r = f32[] add(a, b)')  # fmt: skip


def test_layouts_and_shardings_tell_apart():
    assert_kept("x = f32[2,2]{1,0} parameter(0)\n a = f32[2,2]{1,0} copy(x)\n b = f32[2,2]{0,1} copy(x)\n"
                "ROOT t = (f32[2,2]{1,0}, f32[2,2]{0,1}) tuple(a, b)")  # fmt: skip
    assert_kept("x = f32[2] parameter(0)\n a = f32[2] sine(x), sharding={replicated}\n"
                "b = f32[2] sine(x), sharding={maximal device=0}\n ROOT r = f32[2] add(a, b)")  # fmt: skip


def test_control_dependencies_keep_instructions():
    assert_kept("x = f32[] parameter(0)\n c = f32[] cosine(x)\n a = f32[] sine(x)\n"
                "b = f32[] sine(x), control-predecessors={c}\n ROOT r = f32[] divide(a, b)")  # fmt: skip


def test_the_first_keeps_its_metadata():
    text = (
        'x = f32[] parameter(0)\n a = f32[] sine(x), metadata={op_name="first"}\n'
        'b = f32[] sine(x), metadata={op_name="second"}\n ROOT r = f32[] add(a, b)'
    )
    result, report = apply(module_of(text), "cse")
    assert result.entry["a"].raw_metadata == 'op_name="first"' and report.passes[0].erased == 1


def test_equal_computations_are_one():
    text = """
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    g { d = f32[] parameter(0)  h = f32[] parameter(1)  ROOT i = f32[] add(d, h) }
    ENTRY e { x = f32[4] parameter(0)  z = f32[] constant(0)
      p = f32[] reduce(x, z), dimensions={0}, to_apply=f
      q = f32[] reduce(x, z), dimensions={0}, to_apply=g
      ROOT r = f32[] divide(p, q) }
    """
    assert_merged(
        text,
        """
        f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
        ENTRY e { x = f32[4] parameter(0)  z = f32[] constant(0)
          p = f32[] reduce(x, z), dimensions={0}, to_apply=f
          ROOT r = f32[] divide(p, p) }
        """,
    )


def test_computations_of_fusions_have_one_caller():
    text = """
    f { a = f32[4] parameter(0)  ROOT c = f32[4] sine(a) }
    g { b = f32[4] parameter(0)  ROOT d = f32[4] sine(b) }
    ENTRY e { x = f32[4] parameter(0)  y = f32[4] parameter(1)
      p = f32[4] fusion(x), kind=kLoop, calls=f
      q = f32[4] fusion(y), kind=kLoop, calls=g
      ROOT r = f32[4] divide(p, q) }
    """
    assert_kept(text)


def test_equal_fusions_are_one():
    text = """
    f { a = f32[4] parameter(0)  ROOT c = f32[4] sine(a) }
    g { b = f32[4] parameter(0)  ROOT d = f32[4] sine(b) }
    ENTRY e { x = f32[4] parameter(0)
      p = f32[4] fusion(x), kind=kLoop, calls=f
      q = f32[4] fusion(x), kind=kLoop, calls=g
      ROOT r = f32[4] divide(p, q) }
    """
    result, _ = apply(module_of(text), "cse")
    verify(result)
    assert [graph.name for graph in result] == ["f", "e"]


def test_many_duplicates_in_one_tuple_take_one_look():
    lines = "\n".join(f"a{n} = f32[] sine(x)" for n in range(8_000))
    names = ", ".join(f"a{n}" for n in range(8_000))
    module = module_of(f"x = f32[] parameter(0)\n{lines}\nROOT t = ({', '.join(['f32[]'] * 8_000)}) tuple({names})")
    result, report = apply(module, "cse")
    assert report.passes[0].erased == 7_999 and result.node_count == 3


CALL = 'f32[] custom-call(x), custom_call_target="f"'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CALL, 'f32[] custom-call(x, x), custom_call_target="f"'),
        (CALL, 'f32[] custom-call(x), custom_call_target="g"'),
        (CALL.replace("f32[]", "f32[1]"), CALL.replace("f32[]", "f32[2]")),
        (f"{CALL}, window={{size=1}}", f"{CALL}, window={{size=2}}"),
        (f"{CALL}, dim_labels=b0f_0oi->b0f", f"{CALL}, dim_labels=b0f_0oi->bf0"),
        (f'{CALL}, backend_config="a"', f'{CALL}, backend_config="b"'),
        (f"{CALL}, literal=s32[] 0", f"{CALL}, literal=s32[] 1"),
        (f"{CALL}, literal=s32[] 0", f"{CALL}, literal=f32[] 0"),
        (f"{CALL}, operand_precision={{high,default}}", f"{CALL}, operand_precision={{high,high}}"),
        (f"{CALL}, api_version=API_VERSION_STATUS_RETURNING", f"{CALL}, api_version=API_VERSION_ORIGINAL"),
        (f"{CALL}, feature_group_count=0", f"{CALL}, feature_group_count=1"),
    ],
)
def test_calls_of_libraries_with_the_same_attributes_are_one(one: str, other: str):
    """As XLA's xla/service/hlo_cse_test.cc asks."""
    types = one.split()[0], other.split()[0]
    lines = f"x = f32[1] parameter(0)\n a = {one}\n b = {one}\n c = {other}\n"
    kept = f"x = f32[1] parameter(0)\n a = {one}\n c = {other}\n"
    root = f"ROOT t = ({types[0]}, {types[0]}, {types[1]}) tuple(a, *, c)"
    assert_merged(lines + root.replace("*", "b"), kept + root.replace("*", "a"))


@pytest.mark.parametrize("opcode", ["add", "multiply", "and", "or", "xor", "minimum", "maximum"])
def test_whole_numbers_in_either_order(opcode: str):
    lines = f"x = s32[2] parameter(0)\n y = s32[2] parameter(1)\n a = s32[2] {opcode}(x, y)\n"
    assert_merged(
        f"{lines} b = s32[2] {opcode}(y, x)\n ROOT r = s32[2] divide(a, b)", f"{lines} ROOT r = s32[2] divide(a, a)"
    )
