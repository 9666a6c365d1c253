"""What was inserted, and what is left of equal instructions: `insertions.py`, `minimum_cut.py`, `duplicates.py`."""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time

import pytest

import hloom
from hloom.inspection.diff import diff
from hloom.inspection.diff.minimum_cut import SINK, SOURCE, FlowNetwork
from hloom.ir import Module
from hloom.passes import apply


def network(layers: Sequence[str], norm: str = "before") -> Module:
    """A layer for every name, each with a normalisation without weights before or behind it, and a weight of its own.

    The name of an instruction says its layer: that is what the tests compare.
    """
    lines, types = ["x = f32[8,16] parameter(0)"], []
    lines += [f"w_{name} = f32[16,16] parameter({n + 1})" for n, name in enumerate(layers)]

    def normalised(name: str, value: str) -> str:
        lines.extend(
            (
                f"square_{name} = f32[8,16] multiply({value}, {value})",
                f"root_{name} = f32[8,16] sqrt(square_{name})",
                f"norm_{name} = f32[8,16] divide({value}, root_{name})",
            )
        )
        return f"norm_{name}"

    value = "x"
    for name in layers:
        inner = normalised(name, value) if norm == "before" else value
        lines += [
            f"dot_{name} = f32[8,16] dot({inner}, w_{name}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"tanh_{name} = f32[8,16] tanh(dot_{name})",
            f"residual_{name} = f32[8,16] add(tanh_{name}, {value})",
        ]
        value = f"residual_{name}" if norm == "before" else normalised(name, f"residual_{name}")
        types.append("f32[8,16]")
    return hloom.parse(f"ENTRY e {{ {' '.join(lines)} ROOT out = f32[8,16] negate({value}) }}")


def with_named_weights(module: Module) -> Module:
    """The weights told apart by op_name, as a framework names them, and nothing else."""
    for parameter in module.entry.parameters:
        module.entry.set_metadata(parameter, f'op_name="{parameter.name}"')
    return module


@pytest.mark.parametrize("norm", ["before", "behind"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("abc", "axbc"), ("abc", "abxc"), ("ab", "xab"), ("ab", "axyb"), ("abcd", "ad"), ("abc", "bc"), ("abc", "axc")],
)
def test_layers_are_inserted_and_removed_whole(before: str, after: str, norm: str):
    modules = [with_named_weights(network(layers, norm)) for layers in (before, after)]
    result = diff(*modules, costs=False)
    if len(before) != len(after):  # an exchanged layer is matched with the one that stands where it stood
        assert {one.name: other.name for one, other in result.matches.items() if one.name != other.name} == {}
        inserted = [node.name for node in (*result.added, *result.removed)]
        width = 7
        assert len(inserted) == width * abs(len(before) - len(after))
        assert {name.rpartition("_")[2] for name in inserted} == set(before) ^ set(after)
    else:
        assert {one.name for one, other in result.matches.items() if one.name != other.name} <= {
            f"{part}_b" for part in ("w", "square", "root", "norm", "dot", "tanh", "residual")
        }


def test_a_normalisation_put_between_leaves_the_first():
    text = "ENTRY e {{ x = f32[4] parameter(0) {lines} ROOT r = f32[4] negate(last) }}"
    before = hloom.parse(text.format(lines="a = f32[4] tanh(x) last = f32[4] cosine(a)"))
    after = hloom.parse(
        text.format(lines="a = f32[4] tanh(x) b = f32[4] sine(a) c = f32[4] tanh(b) last = f32[4] cosine(c)")
    )
    result = diff(before, after, costs=False)
    assert result.matches[before.entry["a"]] is after.entry["a"]  # both are as near; an equal expression is preferred


def test_what_is_left_of_equal_instructions_is_the_first():
    text = """ENTRY e { x = f32[4] parameter(0)
      a1 = f32[4] tanh(x) b1 = f32[4] cosine(a1)
      a2 = f32[4] tanh(x) b2 = f32[4] cosine(a2) c = f32[4] sine(b2)
      ROOT r = (f32[4], f32[4]) tuple(b1, c) }"""
    before = hloom.parse(text)
    after, _ = apply(before.clone(), ["cse"])
    result = diff(before, after, costs=False)
    assert {node.name for node in result.removed} == {"a2", "b2"}
    back = diff(after, before, costs=False)
    assert {node.name for node in back.added} == {"a2", "b2"}


def test_one_of_equal_instructions_that_is_not_used_any_more_is_gone():
    text = "ENTRY e {{ x = f32[4] parameter(0) {lines} ROOT r = f32[4] sine(b) }}"
    before = hloom.parse(
        text.format(lines="a1 = f32[4] tanh(x) n = f32[4] negate(a1) a2 = f32[4] tanh(x) b = f32[4] cosine(a2)")
    )
    after = hloom.parse(text.format(lines="a2 = f32[4] tanh(x) b = f32[4] cosine(a2)"))
    assert {node.name for node in diff(before, after, costs=False).removed} == {"a1", "n"}


def test_a_pair_is_in_one_pair_only():
    before, after = network("abcde"), network("abxydefg")
    result = diff(before, after, costs=False)
    assert len(set(result.matches.values())) == len(result.matches)
    assert len(result.added) == after.node_count - len(result.matches)
    assert len(result.removed) == before.node_count - len(result.matches)


def test_the_minimum_cut_is_the_nearest_to_the_sink():
    flow = FlowNetwork()
    one, two, alone = (flow.add_node() for _ in range(3))
    for tail, head, capacity in ((SOURCE, one, 1), (one, two, 3), (two, SINK, 1), (SOURCE, alone, 5), (two, alone, 0)):
        flow.add_arc(tail, head, capacity)
    assert flow.behind(9) == {SINK}
    assert flow.behind(0) is None
    assert FlowNetwork().behind(1) == {SINK}


def test_time_grows_with_the_number_of_layers_and_no_faster():
    def seconds(count: int) -> float:
        names = [f"l{n}" for n in range(count)]
        middle = count // 2
        modules = [with_named_weights(network(layers)) for layers in (names, names[:middle] + names[middle + 8 :])]
        best = float("inf")
        for _ in range(2):
            start = thread_time()
            result = diff(*modules, costs=False)
            best = min(best, thread_time() - start)
        assert len(result.removed) == 8 * 7
        return best

    assert seconds(800) < 16 * seconds(100)
