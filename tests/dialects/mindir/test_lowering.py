"""Lowering to HLO, with the numbers that MindSpore gave.

Primitives: `elementwise_lowering.py`, `reduction_lowering.py`, `data_movement_lowering.py`, `linear_lowering.py`,
`normalisation_lowering.py`, `gradient_lowering.py`, `effects_lowering.py`, `lowering_context.py`; calls:
`control_flow_lowering.py`, `emitter.py`, `free_variables.py`.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import hloom
from hloom import HloomError, Unsupported
from hloom.dialects import mindir
from hloom.dialects.mindir.effects_lowering import EFFECTS
from hloom.dialects.mindir.emitter import hlo_name
from hloom.dialects.mindir.free_variables import References
from hloom.dialects.mindir.lowering import STRUCTURE, TABLE
from hloom.dialects.mindir.rows import PREFIX, ROWS
from tests.dialects.mindir.samples import FOLDER, NOT_LOWERED, TEXTS, check_numbers


@pytest.mark.parametrize("name", [name for name in TEXTS if not name.startswith(NOT_LOWERED)])
def test_a_net_yields_mindspores_numbers(name):
    assert check_numbers(name.split(".")[0], hloom.load(FOLDER / name)) > 0


def opcodes(name: str) -> list[str]:
    return [node.opcode for node in mindir.lower(hloom.load(FOLDER / name)).nodes()]


@pytest.mark.parametrize(
    "name, whiles, conditionals",
    [
        ("loop.optimize.ir", 1, 0),
        ("loop.validate.ir", 1, 0),
        ("gcd.validate.ir", 1, 0),
        ("nested.optimize.ir", 2, 1),
        ("nested.validate.ir", 2, 1),
        ("branch.optimize.ir", 0, 1),
        ("mutual.validate.ir", 1, None),
        ("early_return.optimize.ir", 2, None),
        ("mlp.validate.ir", 0, 0),
    ],
)
def test_a_loop_is_one_while(name, whiles, conditionals):
    made = opcodes(name)
    assert made.count("while") == whiles
    assert conditionals is None or made.count("conditional") == conditionals


def test_a_loops_condition_is_its_own_and_no_tag_is_carried():
    module = mindir.lower(hloom.load(FOLDER / "loop.optimize.ir"))
    (loop,) = [node for node in module.nodes() if node.opcode == "while"]
    assert str(loop.type) == "(f32[], f32[], s32[])"
    assert loop.attributes["condition"].root.opcode == "compare"


def test_recursion_that_is_no_tail_call_is_refused_at_its_line():
    with pytest.raises(Unsupported) as error:
        mindir.lower(hloom.load(FOLDER / "recursion.optimize.ir"))
    lines = str(error.value).splitlines()
    assert re.match(
        r"make_mindspore_samples\.py:[0-9]+:16: .*power.* calls itself here, and not as its last step", lines[0]
    )
    assert lines[1].strip() == "return x * power(x, n - 1)"
    assert lines[2] == " " * (lines[1].index("power(x")) + "^"


def program(*lines: str, parameters: str = "%para1_x: <Tensor[Float32], (2)>", graphs: str = "") -> hloom.Module:
    """A module of one graph of nodes `%n(name) = ...` and types, one a line, and further graphs."""
    body = "\n".join(f"  {line}" for line in lines)
    return mindir.parse(f"# IR entry: @main\n# Params:\n{parameters}\n\nsubgraph @main() {{\n{body}\n}}\n{graphs}")


def results(module: hloom.Module, *arguments) -> np.ndarray:
    (result,) = hloom.run(mindir.lower(module), list(arguments)).outputs
    return np.asarray(result)


def test_numbers_meet_tensors_in_the_tensors_type():
    module = program(
        "%0(y) = PrimFunc_Mul(%para1_x, F32(2.5))",
        "  : (<Tensor[Float32], (2)>, <Float32, NoShape>) -> (<Tensor[Float32], (2)>)",
        "Return(%0)",
    )
    np.testing.assert_array_equal(results(module, np.array([1, 2], np.float32)), np.array([2.5, 5], np.float32))


@pytest.mark.parametrize(
    "line, message",
    [
        ("PrimFunc_Frobnicate(%para1_x)", "y of @main: the primitive Frobnicate has no lowering to HLO"),
        ("PrimFunc_Reshape(%para1_x, (I64(3)))", "Reshape: f32[2] cannot be reshaped to [3]"),
        ("PrimFunc_Reshape(%para1_x, %para1_x)", "Reshape: a value here must be known when the program is compiled"),
        ("PrimFunc_Softmax(%para1_x, (I64(5)))", "Softmax: there is no dimension 5 among 1"),
        ("PrimFunc_Add(%para1_x, None)", "Add: operand 1 must be a tensor, not None"),
        ("PrimFunc_Add(%para1_x)", "Add: it has no operand 1"),
        ("PrimFunc_Dropout(%para1_x, F32(0))", "Dropout: the probability to keep an element is 0"),
        ("PrimFunc_BatchNorm(%para1_x, %para1_x, %para1_x, %para1_x, %para1_x, Bool(1))", "has no monad that says when"),
        ("TupleGetItem(%para1_x, I64(0))", "TupleGetItem: operand 0 must be a tuple, not f32[2]"),
        ("PrimFunc_Exp(%7)", "%7 of @main: nothing defines it"),
        ("%para1_x(%para1_x)", "this value is not a function that is known here"),
        ("call @gone(%para1_x)", "graph gone is called and not defined"),
        ("MakeTuple(@main)", "the program yields the function main, which is not an array"),
    ],
)
def test_what_has_no_lowering_is_refused_by_name(line, message):
    with pytest.raises(HloomError, match=re.escape(message)):
        mindir.lower(program(f"%0(y) = {line}", "  : (<null>) -> (<null>)", "Return(%0)"))


def test_a_type_that_the_lowering_does_not_yield_is_an_error():
    module = program(
        "%0(y) = PrimFunc_Exp(%para1_x)", "  : (<Tensor[Float32], (2)>) -> (<Tensor[Float32], (3)>)", "Return(%0)"
    )
    with pytest.raises(Unsupported, match=re.escape("y of @main: its type is f32[3], but its lowering yields f32[2]")):
        mindir.lower(module)


def test_a_write_is_a_result_and_not_dropped():
    """Only the order of effects leads to it, no value does."""
    module = program(
        "%0(write) = AssignAdd(%para1_x, F32(1), UMonad[U])",
        "%1(order) = UpdateState(UMonad[U], %0)",
        "%2(before) = Load(%para1_x, UMonad[U])",
        "%3(after) = Load(%para1_x, %1)",
        "%4(y) = PrimFunc_Sub(%3, %2)",
        "%5(z) = Depend(%4, %1)",
        "Return(%5)",
    )
    lowered = mindir.lower(module)
    assert lowered.attachments[mindir.UPDATES] == ("x",)
    difference, updated = hloom.run(lowered, [np.array([1, 2], np.float32)]).outputs
    np.testing.assert_array_equal(np.asarray(difference), np.array([1, 1], np.float32))
    np.testing.assert_array_equal(np.asarray(updated), np.array([2, 3], np.float32))


def test_nesterovs_momentum_is_that_of_the_documentation():
    """MindSpore's CPU kernel computes plain momentum here, so that its numbers are not reference."""
    module = program(
        "%0(new) = ApplyMomentum(%para1_x, %para2_m, F32(0.1), %para3_g, F32(0.5), UMonad[U]) "
        "primitive_attrs: {use_nesterov: Bool(1)}",
        "%1(order) = UpdateState(UMonad[U], %0)",
        "%2(z) = Depend(%0, %1)",
        "Return(%2)",
        parameters="\n".join(f"%para{number}_{name}: <Tensor[Float32], (2)>" for number, name in enumerate("xmg", 1)),
    )
    x, m, g = (np.array(pair, np.float32) for pair in ((1, 2), (3, 4), (5, 6)))
    new, *updates = hloom.run(mindir.lower(module), [x, m, g]).outputs
    accumulated = m * 0.5 + g
    expected = x - 0.1 * (g + 0.5 * accumulated)
    for actual, wanted in zip((new, *updates), (expected, expected, accumulated), strict=True):
        np.testing.assert_allclose(np.asarray(actual), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "lines, message",
    [
        (["%0(a) = Assign(%para1_x, %para1_x, UMonad[U])", "%1(b) = Assign(%para1_x, %para1_x, UMonad[U])",
          "%2(u) = UpdateState(UMonad[U], %0, %1)"], "b of @main: Assign: nothing orders this write to x"),
        (["%0(a) = Assign(%para1_x, %para1_x, UMonad[U])", "%1(b) = PrimFunc_Exp(%para1_x)",
          "%2(u) = UpdateState(UMonad[U], %0, %1)"], "b of @main: it reads x, which is written to, and does not say"),
        (["%0(a) = PrimFunc_Exp(%para1_x)", "%1(b) = Assign(%0, %0, UMonad[U])",
          "%2(u) = UpdateState(UMonad[U], %1)"], "b of @main: Assign: operand 0 must be a parameter of the program"),
        (["%0(a) = PrimFunc_Exp(%para1_x)", "%1(b) = Assign(%para1_x, %0)",
          "%2(u) = UpdateState(UMonad[U], %1)"], "b of @main: a primitive that writes has a monad"),
    ],
)  # fmt: skip
def test_writes_that_nothing_orders_are_refused(lines, message):
    module = program(*lines, "%3(z) = Depend(F32(1), %2)", "Return(%3)")
    with pytest.raises(Unsupported, match=re.escape(message)):
        mindir.lower(module)


def test_a_write_before_a_branch_that_may_read_it_is_refused():
    graphs = "\nsubgraph @f(%para2_v, %para3_u) {\n  %0(a) = Load(%para2_v, %para3_u)\n  Return(%0)\n}\n"
    module = program(
        "%0(write) = Assign(%para1_x, %para1_x, UMonad[U])",
        "%1(order) = UpdateState(UMonad[U], %0)",
        "%2(a) = call @f(%para1_x, %1)",
        "%3(b) = call @f(%para1_x, %1)",
        "%4(c) = MakeTuple(%2, %3)",
        "Return(%4)",
        graphs=graphs,
    )
    with pytest.raises(Unsupported, match="write of @main: writes before a branch, a loop or a call"):
        mindir.lower(module)


def test_a_read_that_a_write_needs_is_before_it():
    """The gradient of a scale takes the scale, and the update takes the gradient."""
    module = program(
        "%0(gradient) = PrimFunc_Square(%para1_x)",
        "%1(write) = AssignSub(%para1_x, %0, UMonad[U])",
        "%2(order) = UpdateState(UMonad[U], %1)",
        "%3(z) = Depend(%0, %2)",
        "Return(%3)",
    )
    gradient, updated = hloom.run(mindir.lower(module), [np.array([1, 3], np.float32)]).outputs
    np.testing.assert_array_equal(np.asarray(gradient), np.array([1, 9], np.float32))
    np.testing.assert_array_equal(np.asarray(updated), np.array([0, -6], np.float32))


def test_a_free_variable_that_is_a_function_is_called():
    """With free variables as arguments too, as inner functions stand before their closures are lifted."""
    text = (
        "# IR entry: @main\n# Params:\n%para1_x: <Tensor[Float32], (2)>\n\nsubgraph @main() {\n"
        "  %0(f) = Partial(@times, %para1_x)\n      : (<Func, NoShape>, <Tensor[Float32], (2)>) -> (<Func, NoShape>)\n"
        "  %1(y) = call @inner()\n      : () -> (<Tensor[Float32], (2)>)\n"
        "  Return(%1)\n      : (<Tensor[Float32], (2)>)\n}\n\n"
        "# Parameters: 2, (<Tensor[Float32], (2)>, <Tensor[Float32], (2)>)\nsubgraph @times(%para2_a, %para3_b) {\n"
        "  %0(y) = PrimFunc_Mul(%para2_a, %para3_b)\n"
        "      : (<Tensor[Float32], (2)>, <Tensor[Float32], (2)>) -> (<Tensor[Float32], (2)>)\n"
        "  Return(%0)\n      : (<Tensor[Float32], (2)>)\n}\n\n"
        "# Parameters: 0, ()\nsubgraph @inner parent: [subgraph @main]() {\n"
        "  %0(y) = $(@main:f)($(@main:para1_x))\n      : (<Tensor[Float32], (2)>) -> (<Tensor[Float32], (2)>)\n"
        "  Return(%0)\n      : (<Tensor[Float32], (2)>)\n}\n"
    )
    module = mindir.parse(text)
    assert "%0(y) = $(@main:f)($(@main:para1_x))" in mindir.to_text(module)
    np.testing.assert_array_equal(results(module, np.array([2, -3], np.float32)), np.array([4, 9], np.float32))


def dropout(*seeds: int) -> hloom.Module:
    """Dropout of 100 by 100 elements, each kept with probability 0.7."""
    given = ", ".join(f"I64({seed})" for seed in seeds)
    return program(
        f"%0(pair) = PrimFunc_Dropout(%para1_x, F32(0.7), {given})",
        "Return(%0)",
        parameters="%para1_x: <Tensor[Float32], (100, 100)>",
    )


@pytest.mark.parametrize("seeds", [(0, 0), (5, 7)])
def test_dropout_keeps_so_many_elements_and_scales_them(seeds):
    x = np.random.default_rng(0).uniform(1, 2, (100, 100)).astype(np.float32)
    lowered = mindir.lower(dropout(*seeds))
    assert hloom.verify(lowered).level is hloom.Level.HLO
    masks = []
    for _ in range(2):
        y, mask = (np.asarray(output) for output in hloom.run(lowered, [x]).outputs)
        assert set(np.unique(mask)) == {0, 1}
        assert abs(mask.mean() - 0.7) < 0.025
        assert np.abs(mask.mean(0) - 0.7).max() < 0.25
        np.testing.assert_allclose(y, x * mask / np.float32(0.7), rtol=1e-6)
        masks.append(mask)
    assert np.array_equal(*masks) == (seeds != (0, 0))


def test_dropout_that_keeps_everything_has_no_random_numbers():
    module = program(
        "%0(pair) = PrimFunc_Dropout(%para1_x, F32(1), I64(0), I64(0))",
        "%1(d) = DropoutGrad(%para1_x, %para1_x) primitive_attrs: {keep_prob: F32(0.5)}",
        "%2(all) = MakeTuple(%0, %1)",
        "Return(%2)",
    )
    lowered = mindir.lower(module)
    x = np.array([1.5, -2], np.float32)
    y, mask, gradient = hloom.evaluate(lowered, [x])
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(mask, np.ones(2, np.float32))
    np.testing.assert_array_equal(gradient, 2 * x * x)


def test_hlo_has_the_scopes_and_lines_of_the_text():
    lowered = mindir.lower(hloom.load(FOLDER / "mlp.validate.ir"))
    (dot, *_) = [node for node in lowered.entry.nodes if node.opcode == "dot"]
    assert dot.metadata is not None
    assert dot.metadata.source_file == "make_mindspore_samples.py"
    assert dot.metadata.source_line > 0
    assert "Dense" in dot.metadata.op_name


def test_functions_are_shared_where_several_calls_want_them():
    """f calls g twice, g calls h twice, ...: the program grows by a computation per function."""
    graphs = "".join(
        f"\nsubgraph @f{i}(%para{i + 2}_v) {{\n  %0(a) = call @f{i + 1}(%para{i + 2}_v)\n  %1(b) = call @f{i + 1}(%0)\n"
        f"  %2(c) = PrimFunc_Neg(%1)\n  Return(%2)\n}}\n"
        for i in range(40)
    )
    last = "\nsubgraph @f40(%para90_v) {\n  %0(a) = PrimFunc_Tanh(%para90_v)\n  Return(%0)\n}\n"
    module = program("%0(y) = call @f0(%para1_x)", "Return(%0)", graphs=graphs + last)
    lowered = mindir.lower(module)
    assert len(lowered.graphs) < 50
    assert lowered.node_count < 1000


COUNT = 30


def test_choices_one_after_another_grow_linearly():
    """Both arms of each choice go on in the next one, as after MindSpore's first stages."""
    graphs = ""
    for i in range(COUNT):
        parameter, following = f"para{3 * i + 2}_v", f"@g{i + 1}" if i < COUNT - 1 else "@end"
        graphs += (
            f"\nsubgraph @g{i}(%{parameter}) {{\n  %0(s) = PrimFunc_SumExt(%{parameter}, None, Bool(0), None)\n"
            f"  %1(p) = PrimFunc_Greater(%0, F32(0.5))\n  %2(f) = Switch(%1, @a{i}, @b{i})\n  %3(r) = %2(%{parameter})\n"
            f"  Return(%3)\n}}\n"
        )
        for arm, primitive in (("a", "Sin"), ("b", "Cos")):
            name = f"para{3 * i + 3 + (arm == 'b')}_v"
            graphs += (
                f"\nsubgraph @{arm}{i}(%{name}) {{\n  %0(w) = PrimFunc_{primitive}(%{name})\n"
                f"  %1(r) = call {following}(%0)\n  Return(%1)\n}}\n"
            )
    graphs += "\nsubgraph @end(%para900_v) {\n  Return(%para900_v)\n}\n"
    module = program("%0(y) = call @g0(%para1_x)", "Return(%0)", graphs=graphs)
    lowered = mindir.lower(module)
    assert lowered.node_count < 50 * COUNT
    value = np.array([0.3, 0.9], np.float32)
    expected = value
    for _ in range(COUNT):
        expected = np.sin(expected) if expected.sum() > 0.5 else np.cos(expected)
    np.testing.assert_allclose(results(module, value), expected, rtol=1e-4)


def test_calls_nest_deeper_than_pythons_stack():
    count = 2000
    graphs = "".join(
        f"\nsubgraph @f{i}(%para{i + 2}_v) {{\n  %0(a) = call @f{i + 1}(%para{i + 2}_v)\n  %1(b) = PrimFunc_Neg(%0)\n"
        f"  Return(%1)\n}}\n"
        for i in range(count)
    )
    last = f"\nsubgraph @f{count}(%para9000_v) {{\n  Return(%para9000_v)\n}}\n"
    lowered = mindir.lower(program("%0(y) = call @f0(%para1_x)", "Return(%0)", graphs=graphs + last))
    assert sum(node.opcode == "negate" for node in lowered.nodes()) == count


def test_a_function_called_with_itself_without_end_is_refused():
    graphs = "\nsubgraph @f(%para2_g) {\n  %0(a) = %para2_g(%para2_g)\n  Return(%0)\n}\n"
    with pytest.raises(HloomError):
        mindir.lower(program("%0(y) = call @f(@f)", "Return(%0)", graphs=graphs))


def test_references_and_free_variables():
    module = hloom.load(FOLDER / "loop.optimize.ir")
    references = References(module)
    header, entry, body, after = module.graphs
    assert references.free[header] == (entry.parameters[0],)
    assert set(references.free[body]) == {entry.parameters[0], header.parameters[0], header.parameters[1]}
    assert references.reachable([body], frozenset()) == {header, body, after}
    assert references.reachable([body], frozenset([header])) == {body}


def test_the_rows_are_the_primitives_that_have_a_lowering():
    assert {PREFIX + name for name in {**TABLE, **STRUCTURE, **EFFECTS, "Load": None, "UpdateState": None}} == set(ROWS)


def test_names_are_those_that_hlo_takes():
    assert hlo_name("541_525_↵__main___Loop_construct_2544") == "__main___Loop_construct"
    assert hlo_name("para12_fc1.weight") == "fc1.weight"
    assert hlo_name("↵") == "v"


def test_gelu_and_layer_norm_are_those_of_the_paper():
    module = program(
        "%0(y) = PrimFunc_GeLU(%para1_x)", "  : (<Tensor[Float32], (2)>) -> (<Tensor[Float32], (2)>)", "Return(%0)"
    )
    x = np.array([-1.5, 0.7], np.float32)
    expected = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(results(module, x), expected, rtol=1e-6)
