"""Random programs made from patterns: they verify, the pattern matches them, and the domain is kept.

Covers `random_types.py`, `random_attributes.py`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from hloom.ir import Level, TensorType, verify
from hloom.ops import OPS
from hloom.passes.rules.add import ADD
from hloom.passes.rules.bitwise import BITWISE
from hloom.passes.rules.convert import CONVERT
from hloom.passes.rules.divide import DIVIDE
from hloom.rewrite import ANY, Family, Rule, rewrite, rule
from hloom.rewrite.declaration import PatternBuilder
from hloom.rewrite.instances import instance, instances
from hloom.rewrite.random_attributes import ATTRIBUTES, draw_attributes
from hloom.rewrite.random_types import OPERANDS, Sampler, draw_operand

COUNT = 25


def identity_of(opcode: str, operands: int, **attributes: object) -> Rule:
    """An op of any attributes, taken for its first operand's negation: it fires wherever its pattern matches."""

    def declare(p: PatternBuilder) -> None:
        values = [p.value("x"), *(p.any() for _ in range(operands - 1))]
        result = p.op(opcode, *values, commutative=False, attributes=dict.fromkeys(attributes, ANY))
        p.where(values[0].type == result.type)
        with p.rewrite() as r:
            r.replace({result: values[0]})

    return rule(declare, name=f"{opcode}-identity")


@pytest.mark.parametrize(
    ("opcode", "operands", "attributes"),
    [
        ("negate", 1, ()),
        ("add", 2, ()),
        ("select", 3, ()),
        ("transpose", 1, ("dimensions",)),
        ("reverse", 1, ("dimensions",)),
        ("reshape", 1, ()),
        ("slice", 1, ("slice",)),
        ("pad", 2, ("padding",)),
        ("convert", 1, ()),
        ("broadcast", 1, ("dimensions",)),
    ],
)
def test_programs_verify_and_the_rule_fires(opcode: str, operands: int, attributes: tuple[str, ...]):
    tested = identity_of(opcode, operands, **dict.fromkeys(attributes))
    programs = list(islice(instances(tested, Random(1)), COUNT))
    assert len(programs) == COUNT
    fired = 0
    for module in programs:
        assert verify(module).level is Level.HLO, str(module)
        assert any(node.opcode == opcode for node in module.nodes())
        fired += rewrite(module, [tested]).matched
    assert fired >= COUNT * 0.8, "nearly all match"


def test_the_same_seed_draws_the_same_programs():
    tested = identity_of("add", 2)
    first, second = ([str(module) for module in islice(instances(tested, Random(5)), 5)] for _ in range(2))
    assert first == second


def test_the_domain_is_kept():
    @rule
    def narrow(p: PatternBuilder):
        """negate(x) -> x"""
        x = p.value("x")
        result = p.op("negate", x)
        p.equivalence(reason="a test", dtypes=("s8", "f64"), ranks=(2,), sizes=(3, 5))
        with p.rewrite() as r:
            r.replace({result: x})

    for module in islice(instances(narrow, Random(2)), COUNT):
        for parameter in module.entry.parameters:
            value_type = parameter.type
            assert isinstance(value_type, TensorType)
            assert value_type.dtype.name in ("s8", "f64")
            assert value_type.rank == 2 and set(value_type.dims) <= {3, 5}


@pytest.mark.parametrize("opcode", sorted(OPERANDS))
def test_operand_types_are_arrays_whatever_is_known(opcode: str):
    for seed in range(10):
        sampler = Sampler(Random(seed), {})
        for known in ([None] * 3, [TensorType(sampler.element, (2, 3))] * 3):
            for index in range(3):
                assert isinstance(draw_operand(sampler, opcode, index, known, {}), TensorType)


def test_an_operand_of_another_rank_than_a_convolution_takes_is_no_error():
    @rule
    def converted(p: PatternBuilder):
        """convolution(convert(x), w) -> x"""
        x = p.value("x")
        result = p.op("convolution", p.op("convert", x), p.any(), window=ANY, dim_labels=ANY)
        p.where(x.type == result.type)
        with p.rewrite() as r:
            r.replace({result: x})

    for seed in range(20):
        instance(converted, Random(seed))


@pytest.mark.parametrize("opcode", sorted(ATTRIBUTES))
def test_attributes_that_are_drawn_are_those_of_the_op(opcode: str):
    """On operands that do not suit the op, nothing is drawn; what is, has a row."""
    for seed in range(20):
        sampler = Sampler(Random(seed), {})
        types = [sampler.some_type() for _ in range(3)]
        for count in (1, 2, 3):
            drawn, result_type = draw_attributes(sampler, OPS[opcode], types[:count], {})
            assert set(drawn) <= set(OPS[opcode].attributes)
            assert result_type is None or isinstance(result_type, TensorType)


@pytest.mark.parametrize(
    "family, name",
    [
        (ADD, "common-factor"),
        (ADD, "constant-to-the-right"),
        (BITWISE, "and-with-ones"),
        (BITWISE, "shift-of-shift"),
        (BITWISE, "logic-with-itself"),
        (CONVERT, "narrow-integers-computed-wide"),
        (DIVIDE, "power-of-one-half"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_values_satisfy_the_conditions_of_a_text(family: Family, name: str):
    listed = family[name]
    fired = 0
    for module in islice(instances(replace(listed, pattern=listed.patterns[0]), Random(0)), 5):
        verify(module)
        fired += rewrite(module, [listed]).matched > 0
    assert fired


def test_conditions_that_no_value_satisfies():
    family = Family("test-unsatisfiable")
    family.table("never: negate(x) -> x if x is zero, x is all-ones, x is not static  # test")
    (listed,) = family
    (pattern,) = listed.patterns
    random = Random(0)
    assert not any(instance(replace(listed, pattern=pattern), random) for _ in range(10))
