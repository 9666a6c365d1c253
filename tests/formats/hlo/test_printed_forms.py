"""Printed forms kept with attributes (`fast_attribute_reader.py`, `printer.py`) say what would be printed without them."""

from __future__ import annotations

import random
import warnings
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.formats.hlo import PrintOptions, parse, print_module
from hloom.formats.hlo.fast_attribute_reader import read_plain_attributes
from hloom.ir import Graph, Module, Node, Parameter, difference
from hloom.ops import OPS
from hloom.text import HloomError, HloomWarning
from tests.corpus import handwritten, lowered
from tests.formats.hlo.modules import modules
from tests.helpers.properties import examples, sample

ANEW = PrintOptions(constant_limit=2**62)
"""What the default options print, by the general way, which keeps no forms."""

SHOWN = {
    "without percent": PrintOptions(percent=False),
    "without metadata": PrintOptions(metadata=False),
    "without layouts": PrintOptions(layouts=False),
    "numbered names": PrintOptions(canonical_names=True),
}


def readable() -> dict[str, Module]:
    """The texts of the corpus that read."""
    modules_read: dict[str, Module] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        for name, text in sample({**handwritten(), **lowered("before"), **lowered("after")}, 2).items():
            try:
                modules_read[name] = parse(text)
            except HloomError:
                continue
    return modules_read


def without_kept_forms(text: str) -> Module:
    """Read with every attribute read token by token."""
    with patch("hloom.formats.hlo.computation_reader.read_plain_attributes", lambda *_: None):
        return parse(text)


# Edits


def rename(graph: Graph, node: Node, chance: random.Random) -> None:
    graph.rename(node, f"{node.name}.renamed")


def rename_graph(graph: Graph, node: Node, chance: random.Random) -> None:
    graph.module.rename_graph(graph, f"{graph.name}.renamed")


def drop_an_attribute(graph: Graph, node: Node, chance: random.Random) -> None:
    if node.attributes:
        graph.set_attributes(node, node.attributes.changed({chance.choice(list(node.attributes)): None}))


def add_an_attribute(graph: Graph, node: Node, chance: random.Random) -> None:
    graph.set_attributes(node, node.attributes.changed(backend_config='{"a":"b"}'))


def exchange_metadata(graph: Graph, node: Node, chance: random.Random) -> None:
    graph.set_metadata(node, chance.choice([None, 'op_name="other"', "}{"]))


def exchange_a_type(graph: Graph, node: Node, chance: random.Random) -> None:
    graph.set_type(node, chance.choice(graph.nodes).type)


def exchange_an_operand(graph: Graph, node: Node, chance: random.Random) -> None:
    before = [other for other in graph.nodes if graph.comes_before(other, node)]
    if node.operands and before:
        graph.set_operands(node, [chance.choice(before), *node.operands[1:]])


def exchange_uses(graph: Graph, node: Node, chance: random.Random) -> None:
    graph.replace_uses(node, chance.choice(graph.nodes))


def exchange_the_output(graph: Graph, node: Node, chance: random.Random) -> None:
    graph.set_output(node)


def erase(graph: Graph, node: Node, chance: random.Random) -> None:
    if not node.is_used and not isinstance(node, Parameter):
        graph.erase(node)


EDITS = (
    *(rename, rename_graph, drop_an_attribute, add_an_attribute, exchange_metadata, exchange_a_type),
    *(exchange_an_operand, exchange_uses, exchange_the_output, erase),
)


def edit(module: Module, chance: random.Random) -> None:
    """One edit of one node."""
    graph = chance.choice(module.graphs)
    chance.choice(EDITS)(graph, chance.choice(graph.nodes), chance)


def assert_printed_alike(module: Module) -> None:
    assert print_module(module) == print_module(module, ANEW)


def test_modules_as_read_and_edited_print_as_without_kept_forms():
    chance = random.Random(0)
    for module in readable().values():
        for _ in range(4):
            assert_printed_alike(module)
            edit(module, chance)
            edit(module, chance)
        assert_printed_alike(module.clone())


@examples(40)
@given(modules(), st.randoms(use_true_random=False))
def test_generated_modules_print_as_without_kept_forms(text: str, chance: random.Random):
    module = parse(text)
    for _ in range(6):
        assert_printed_alike(module)
        edit(module, chance)
        edit(module, chance)
    assert_printed_alike(module)


@pytest.mark.parametrize("options", SHOWN)
def test_other_options_print_as_without_kept_forms(options: str):
    for text in sample(lowered("after"), 8).values():
        module = parse(text)
        assert print_module(module) == print_module(without_kept_forms(text))
        assert print_module(module, SHOWN[options]) == print_module(without_kept_forms(text), SHOWN[options])


@examples(40)
@given(modules())
def test_plain_attributes_are_read_as_token_by_token(text: str):
    module, careful = parse(text), without_kept_forms(text)
    assert difference(module, careful) is None
    for node, other in zip(module.nodes(), careful.nodes(), strict=True):
        assert list(node.attributes) == list(other.attributes)


# One text at a time

GRAPHS = {"f": Graph("f", Module()), "renamed": Graph("g", Module())}

PLAIN = {
    ("broadcast", ", dimensions={0,1}"): ", dimensions={0,1}",
    ("broadcast", ", dimensions={}"): ", dimensions={}",
    ("get-tuple-element", ", index=0"): ", index=0",
    ("compare", ", direction=LT, type=TOTALORDER"): ", direction=LT, type=TOTALORDER",
    ("fusion", ", kind=kLoop, calls=f"): ", kind=kLoop, calls=%f",
    ("fusion", ", kind=kLoop, calls=%f"): ", kind=kLoop, calls=%f",
    ("sort", ", dimensions={0}, is_stable=true, to_apply=%f"): ", dimensions={0}, is_stable=true, to_apply=%f",
    ("slice", ", slice={[0:4], [1:8]}"): ", slice={[0:4], [1:8]}",
    ("slice", ", slice={[0:4:1], [1:8:2]}"): ", slice={[0:4:1], [1:8:2]}",
    ("reduce-window", ", window={size=1x2 stride=1x2}, to_apply=f"): ", window={size=1x2 stride=1x2}, to_apply=%f",
    ("convolution", ", window={size=3}, dim_labels=b0f_0io->b0f"): ", window={size=3}, dim_labels=b0f_0io->b0f",
    ("pad", ", padding=0_1x2_3"): ", padding=0_1x2_3",
    ("get-tuple-element", ', index=0, frontend_attributes={a="b, c=d"}'): ', index=0, frontend_attributes={a="b, c=d"}',
    ("dot", ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"): (
        ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
}


@pytest.mark.parametrize(("opcode", "text"), PLAIN)
def test_plain(opcode: str, text: str):
    attributes = read_plain_attributes(OPS[opcode], text, GRAPHS)
    assert attributes is not None
    assert attributes.text == PLAIN[opcode, text]


NOT_PLAIN = {
    "nothing": ("broadcast", ""),
    "no comma": ("broadcast", "dimensions={0}"),
    "a comma too many": ("broadcast", ", dimensions={0}, "),
    "a blank": ("broadcast", ", dimensions={0, 1}"),
    "a blank behind": ("broadcast", ", dimensions={0} "),
    "a blank before": ("broadcast", ",  dimensions={0}"),
    "a leading zero": ("broadcast", ", dimensions={01}"),
    "a sign": ("broadcast", ", dimensions={-1}"),
    "a number of 64 bits and more": ("broadcast", ", dimensions={9999999999999999999}"),
    "open": ("broadcast", ", dimensions={0"),
    "no value": ("broadcast", ", dimensions="),
    "no such attribute": ("broadcast", ", colour={0}"),
    "no such choice": ("compare", ", direction=UP"),
    "no such computation": ("fusion", ", kind=kLoop, calls=%h"),
    "a computation renamed since": ("fusion", ", kind=kLoop, calls=%renamed"),
    "a computation that the op does not call": ("broadcast", ", to_apply=%f"),
    "two percent signs": ("fusion", ", kind=kLoop, calls=%%f"),
    "another order": ("fusion", ", calls=%f, kind=kLoop"),
    "twice": ("broadcast", ", dimensions={0}, dimensions={0}"),
    "the default": ("sort", ", dimensions={0}, is_stable=false"),
    "a window in another order": ("convolution", ", window={stride=2 size=1}"),
    "strides of one": ("slice", ", slice={[0:4:1]}"),
    "a blank in a slice": ("slice", ", slice={[0:4],  [1:8]}"),
    "an attribute inside a string": ("custom-call", ', custom_call_target="a, schedule=b"'),
    "a configuration that something follows": ("copy", ', backend_config={"a":1}, sharding={replicated}'),
    "a configuration in quotes": ("copy", ', backend_config="a"'),
    "a configuration that is open": ("copy", ", backend_config={{}"),
}


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_not_plain(case: str):
    opcode, text = NOT_PLAIN[case]
    assert read_plain_attributes(OPS[opcode], text, GRAPHS) is None


def test_a_configuration_stands_behind_the_metadata():
    attributes = read_plain_attributes(OPS["fusion"], ', kind=kLoop, calls=%f, backend_config={"a":[1]}', GRAPHS)
    assert attributes is not None
    assert attributes["backend_config"] == '{"a":[1]}'
    assert attributes.parts == (", kind=kLoop, calls=%f", ', backend_config={"a":[1]}')
    assert attributes.text is None
