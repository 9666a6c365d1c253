"""Rules as JSON: what was saved loads again and says the same; what is wrong is refused with its place.

Covers `deserialization.py`, `json_reader.py`.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloom
from hloom import ir
from hloom.rewrite import (
    ANY,
    Family,
    Rule,
    RuleError,
    holding,
    load_rules,
    one_of,
    register,
    rewrite,
    rule,
    rule_from_json,
    same_rule,
    save_rules,
    to_json,
)
from hloom.rewrite.codecs import decode_value, encode_value
from hloom.text import HloomError
from tests.passes.rule_assertions import module_of

FAMILY = Family("serial-tests")
register("serial-tests.composed", lambda first, second: tuple(first[axis] for axis in second))
register("serial-tests.holds", lambda value: True)
register("serial-tests.built", lambda build, x, factor: build.op("negate", x))
register("serial-tests.cost", lambda node: 1.0)


@FAMILY.rewrites("negate", benefit=3)
def native_negation(build, node):
    """negate(negate(x)) -> x"""
    return node.operands[0].operands[0] if node.operands[0].opcode == "negate" else None


@rule(benefit=2)
def transposes(p):
    """transpose(transpose(x)) -> transpose(x)"""
    x = p.value("x", dtype=("f32", "s32"))
    first, second = p.attribute("first"), p.attribute("second")
    outer = p.op("transpose", p.op("transpose", x, dimensions=first), dimensions=second)
    p.where((x.rank >= 2) | ~(x.shape[0] == 3), x.rank < 100)
    p.equivalence(reason="so that there is one", tolerance=1e-5, values={"x": ("f32[2,3]", "s32[3,4]")})
    with p.rewrite() as r:
        dimensions = p.call("serial-tests.composed", first, second)
        r.replace({outer: r.op("transpose", x, dimensions=dimensions, carry=outer, drop=("sharding",))})


@rule
def many_things(p):
    """most powers in one rule"""
    x, zero = p.value("x", rank=2), p.constant("zero", float("-inf"))
    total = p.op(
        "reduce", x, zero, dimensions=one_of((0,), (1,)), to_apply=p.graph(lambda a, b: p.op("maximum", a, b)),
        shared=True,
    )  # fmt: skip
    bound = p.constant("bound", splat=False)
    test = p.op(("negate", "abs"), p.op("add", total, bound), effects=True)
    p.where(bound.literal == np.float32(2), x.value == float("nan"), total.dimensions.length == 1)
    with p.rewrite() as r:
        made = r.constant(p.choose(x.rank == 2, 1.5, float("inf")), type=total.type)
        r.replace({test: r.native("serial-tests.built", made, ir.WindowDimension(2))})


@rule(cost=None)
def several_results(p):
    """both results of a sort of two operands"""
    x, y, rest = p.value("x"), p.value("y", shape=[2, None, p.dimension("n")]), p.values("rest")
    one, other = p.op("sort", x, y, dimensions=holding("serial-tests.holds"), is_stable=None, to_apply=ANY, results=2)
    joined = p.op("concatenate", one, rest, dimensions=(0,))
    with p.rewrite() as r:
        first, second = r.op("sort", y, x, dimensions=(0,), to_apply=p.call("serial-tests.composed", x), results=2)
        r.replace({joined: r.op("concatenate", second, rest, dimensions=(p.dimension("n") - 1,))})
    del first, other


RULES: list[Rule] = [native_negation, transposes, many_things, several_results]


@pytest.mark.parametrize("item", RULES, ids=str)
def test_what_was_saved_says_the_same(item: Rule):
    loaded = rule_from_json(json.loads(json.dumps(to_json(item))))
    assert same_rule(item, loaded)
    assert str(loaded.origin) == str(item.origin) and loaded.depth == item.depth and loaded.roots == item.roots
    assert not same_rule(item, next(other for other in RULES if other is not item))


def test_files(tmp_path: Path):
    save_rules(RULES, tmp_path / "rules.json")
    assert all(map(same_rule, RULES, load_rules(tmp_path / "rules.json")))
    assert all(map(same_rule, RULES, load_rules((tmp_path / "rules.json").read_text())))
    assert to_json(FAMILY) == {"format": "hloom rules 1", "rules": [to_json(native_negation)]}


def test_rules_saved_under_former_names_load():
    family = Family("serial-tests-today", formerly="serial-tests-before", because="is a test")

    @family.rewrites("negate", formerly="negation-of-negation")
    def negate_of_negate(build, node):
        """negate(negate(x)) -> x"""
        return node.operands[0].operands[0] if node.operands[0].opcode == "negate" else None

    (saved,) = family
    text = "x = f32[2] parameter(0)\n n = f32[2] negate(x)\n ROOT m = f32[2] negate(n)"
    for family_name in ("serial-tests-today", "serial-tests-before"):
        for rule_name in ("negate-of-negate", "negation-of-negation"):
            data = to_json(saved) | {"name": rule_name, "family": family_name, "native": f"{family_name}.{rule_name}"}
            loaded = rule_from_json(json.loads(json.dumps(data)))
            assert loaded.function is saved.function and loaded.because == "is a test"
            assert rewrite(module_of(text), [loaded]).matched == 1
    with pytest.raises(RuleError, match=r"no native function named 'serial-tests-before\.negate' is registered"):
        _ = rule_from_json(to_json(saved) | {"native": "serial-tests-before.negate"})


def test_a_loaded_rule_does_the_same():
    text = "x = f32[2,3] parameter(0)\n t = f32[3,2] transpose(x), dimensions={1,0}\n ROOT u = f32[2,3] transpose(t), dimensions={1,0}"
    result = []
    for transpose in (transposes, rule_from_json(to_json(transposes))):
        module = module_of(text)
        assert rewrite(module, [transpose]).matched == 1
        result.append(hloom.print(module))
    assert result[0] == result[1]


def test_a_condition_reads_the_same():
    loaded = rule_from_json(to_json(transposes))
    assert loaded.pattern and transposes.pattern
    assert [condition.text for condition in loaded.pattern.conditions] == [
        condition.text for condition in transposes.pattern.conditions
    ]


def test_costs_are_saved_by_name_or_not_at_all():
    def made(cost):
        @rule(name="priced", cost=cost)
        def matched(p):
            outer = p.op("negate", p.op("negate", p.any()))
            with p.rewrite() as r:
                r.replace({outer: outer})

        return matched

    from hloom.rewrite import registered

    priced = made(registered("serial-tests.cost"))
    assert to_json(priced)["cost"] == "serial-tests.cost"
    assert rule_from_json(to_json(priced)).cost is registered("serial-tests.cost")
    with pytest.raises(RuleError, match=r"rule priced \(.*\) cannot be saved: its cost is the Python function"):
        to_json(made(lambda node: 1.0))


VALUES = [
    None, True, 3, -0.0, float("inf"), float("nan"), 1j, "text", (1, (2, "x")), np.float32(1.5), np.int8(-3),
    ml_dtypes.bfloat16(2), np.arange(4), np.zeros((0, 2)), ir.literal_of(np.ones((2, 2), np.float32)),
    ir.literal_of([1, 2]), ir.TensorType(ir.dtype("f32"), (2,)), ir.TupleType([ir.TOKEN]), ir.dtype("s4"),
    ir.Window((ir.WindowDimension(2, 1, -1),)), ir.ConvolutionDimensions("bf", "io", "bf"),
    (ir.SliceDimension(0, 2), ir.SliceDimension(1, 9, 3)), (ir.PaddingDimension(0, 1, 2),),
    ir.ExplicitGroups(((0, 1),)), ir.Uniform("replicated"), ir.ResultAccuracy("highest"), ("default", "highest"),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values(value: Any):
    saved = json.loads(json.dumps(encode_value(value), allow_nan=False))
    result = decode_value(saved, "value")
    assert type(result) is type(value) and encode_value(result) == encode_value(value)


def test_values_without_a_codec():
    with pytest.raises(RuleError, match="a value of object cannot be saved: <object object at"):
        encode_value(object())


def changed(path: str, value: Any) -> dict[str, Any]:
    """The JSON of `transposes` with one part exchanged."""
    data = json.loads(json.dumps(to_json(transposes)))
    *way, last = [int(item) if item.isdecimal() else item for item in path.split("/")]
    inside: Any = data
    for item in way:
        inside = inside[item]
    inside[last] = value
    return data


DEEP: Any = 1
for _ in range(90):
    DEEP = ["not", DEEP]

REFUSED = [
    ("name", 3, "name: it must be a text"),
    ("colour", 3, "the rule: nothing is called 'colour' here"),
    ("benefit", "high", "benefit: it must be a whole number from -1000000 to 1000000"),
    ("terms/1/opcodes/0", "transposed", "terms[1]: no op is called 'transposed'"),
    ("terms/1/operands/0", 1, "terms[1].operands[0]: it must be a whole number from 0 to 0"),
    ("terms/1/operands/0", {"term": 0, "result": 1}, "terms[1].operands[0]: it has one result"),
    ("terms/1/operands/0", {"made": 0}, "terms[1].operands[0]: what is made cannot stand here"),
    ("terms/1/attributes/colour", "any", "terms[1]: transpose has no attribute 'colour'"),
    ("terms/1/attributes/dimensions", {"holds": "os.system"}, "terms[1].attributes.dimensions.holds: no native function "
     "named 'os.system' is registered"),
    ("terms/1/attributes/dimensions", {"same": {"window": {"dimensions": 3}}}, "terms[1].attributes.dimensions.same.window"
     ".dimensions: 3 is not what it must be: tuple[hloom.ir.values.WindowDimension, ...]"),
    ("terms/1/attributes/dimensions", {"same": {"pickle": "x"}}, "terms[1].attributes.dimensions.same: no codec is called "
     "'pickle'"),
    ("terms/2/optional", True, "'transpose' is replaced, but is optional"),
    ("terms/2/results", 3, "replaced[0][0]: it has 3 results"),
    ("conditions/0", ["system", "ls"], "conditions[0]: no operator is called 'system' here"),
    ("conditions/0", ["equal", 1], "conditions[0]: 'equal' does not take 1 arguments"),
    ("conditions/0", ["call", "os.system", "ls"], "conditions[0][1]: no native function named 'os.system' is registered"),
    ("conditions/0", ["feature", 0, -1, "__class__"], "conditions[0][3]: a value has no '__class__'"),
    ("conditions/0", ["feature", 7, -1, "rank"], "conditions[0][1]: it must be a whole number from 0 to 2"),
    ("conditions/0", ["made", 0, -1], "conditions[0]: no operator is called 'made' here"),
    ("conditions/0", 10**60, "conditions[0]: the number is too large"),
    ("conditions/0", ["variable", "third"], "'third' is used but never bound"),
    ("makes/0/operands/0", {"made": 0}, "makes[0].operands[0].made: it must be a whole number from 0 to -1"),
    ("makes/0/carry", 0, "makes[0].carry: it must be an operation of the pattern"),
    ("makes/0/operation", "add", "makes[0]: add has no attribute 'dimensions'"),
    ("domain/values/x", "f99[2]", "domain: 'f99' is not an element type"),
    ("domain/tolerance", "large", "domain: equivalence: 'tolerance' is how far results in f32 may differ, relative to "
     "the larger; other types in proportion, not 'large'"),
    ("replaced", [], "it replaces nothing"),
    ("replaced/0/0", 0, "'x' is replaced, but is not an operation of the pattern"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_what_is_refused(path: str, value: Any, message: str):
    with pytest.raises(RuleError) as caught:
        rule_from_json(changed(path, value))
    assert caught.value.message.partition(": ")[2] == message


def test_what_is_nested_too_deep():
    with pytest.raises(RuleError, match="it is nested deeper than 64"):
        rule_from_json(changed("conditions/0", DEEP))
    with pytest.raises(RuleError, match="is not JSON"):
        load_rules('{"format": ' + "[" * 100_000)


def test_files_that_are_none(tmp_path: Path):
    with pytest.raises(RuleError, match=r"cannot read .*: no such file or directory"):
        load_rules(tmp_path / "missing.json")
    with pytest.raises(RuleError, match="rules is not JSON"):
        load_rules("{")
    with pytest.raises(RuleError, match="rules is not a file of rules"):
        load_rules("{}")


@pytest.mark.parametrize(
    "test",
    [["power", ["power", 10, 400], 400], ["remainder", "%1000000000d", 3], ["multiply", "a", 10**12],
     ["product", ["known", [10**30] * 999]], ["power", 2.0, 1e9]],
)  # fmt: skip
def test_expressions_that_would_take_for_ever_have_no_value(test: Any):
    loaded = rule_from_json(changed("conditions/0", ["less", test, 1]))
    module = module_of(
        "x = f32[2,3] parameter(0)\n t = f32[3,2] transpose(x), dimensions={1,0}\n ROOT u = f32[2,3] transpose(t), dimensions={1,0}"
    )
    account = rewrite(module, [loaded])["transposes"]
    assert account.matched == 0 and any("has no value here" in item for item in account.rejected)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.sampled_from(["x", "add", "f32", "0"])
)
JUNK = st.recursive(SCALARS, lambda inner: st.one_of(
    st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(["same", "bind", "made", "term", "window", "type"]), inner)
), max_leaves=6)  # fmt: skip


@given(st.integers(0, 2**32), JUNK)
def test_data_with_any_part_exchanged_load_or_raise_our_errors(seed: int, junk: Any):
    random = Random(seed)
    data = to_json(random.choice(RULES))
    _exchange(data, random, junk)
    try:
        loaded = rule_from_json(json.loads(json.dumps(data)))
        assert same_rule(loaded, rule_from_json(to_json(loaded)))
        rewrite(module_of("x = f32[2] parameter(0)\n ROOT n = f32[2] negate(x)"), [loaded])
    except HloomError:
        pass


def _exchange(data: Any, random: Random, junk: Any) -> None:
    """Put junk in the place of one part, chosen on the way down."""
    while True:
        keys = list(data) if isinstance(data, dict) else list(range(len(data)))
        if not keys:
            return
        key = random.choice(keys)
        if not isinstance(data[key], (dict, list)) or random.random() < 0.3:
            data[key] = copy.deepcopy(junk)
            return
        data = data[key]


UNARY = ("negate", "abs", "sign", "floor", "exponential")
BINARY = ("add", "subtract", "multiply", "maximum")


@st.composite
def declared(draw) -> Rule:
    """A rule of a random pattern: elementwise operations over values, constants and conditions."""

    def body(p) -> None:
        names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
        values = [p.value(name, dtype=draw(st.sampled_from(["f32", ("f32", "bf16"), ()])), rank=draw(st.none() | st.integers(0, 3)))
                  for name in names]  # fmt: skip
        current = values[0]
        for value in values[1:]:
            current = p.op(draw(st.sampled_from(BINARY)), current, value, shared=draw(st.booleans()))
        for _ in range(draw(st.integers(0, 3))):
            if draw(st.booleans()):
                current = p.op(
                    draw(st.sampled_from(BINARY)), current, p.constant("", draw(st.sampled_from([0, 1.0, -0.0, 2.5])))
                )
            else:
                current = p.op(draw(st.sampled_from(UNARY)), current, optional=draw(st.booleans()))
        root = p.op(draw(st.sampled_from(UNARY)), current)
        for _ in range(draw(st.integers(0, 2))):
            size = values[0].rank + draw(st.integers(-2, 2))
            p.where(draw(st.sampled_from([size > 0, (size == 1) | (values[0].dtype == "f32"), ~(size * 2 <= 4)])))
        with p.rewrite() as r:
            made = values[0]
            for value in values[1:]:
                made = r.op(draw(st.sampled_from(BINARY)), made, value)
            r.replace({root: r.op(draw(st.sampled_from(UNARY)), made)})

    return rule(body, name="drawn", benefit=draw(st.integers(-3, 3)))


@given(declared())
def test_any_rule_that_can_be_declared_comes_back(item: Rule):
    assert same_rule(item, rule_from_json(json.loads(json.dumps(to_json(item), allow_nan=False))))
