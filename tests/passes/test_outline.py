"""The pass `outline`: repeated instructions become calls of one computation."""

from random import Random

import numpy as np
import pytest

import hloom
from hloom.evaluator import evaluate
from hloom.ir import verify
from hloom.passes import apply
from hloom.passes.outline import Repeat, repeats
from tests.corpus import lowered
from tests.passes.rule_assertions import module_of


def layers(count: int, changed: str = "") -> str:
    """So many layers of nine instructions, one after the other; `changed` is another instruction in the second."""
    lines = ["x0 = f32[4,4] parameter(0)", "k = f32[] constant(2)", "h = f32[4,4] broadcast(k), dimensions={}"]
    for n in range(count):
        opcode = changed if changed and n == 1 else "cosine"
        lines += [
            f"w{n} = f32[4,4] parameter({n + 1})",
            f"a{n} = f32[4,4] dot(x{n}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"b{n} = f32[4,4] tanh(a{n})",
            f"c{n} = f32[4,4] multiply(b{n}, h)",
            f"d{n} = f32[4,4] sine(c{n})",
            f"e{n} = f32[4,4] {opcode}(d{n})",
            f"f{n} = f32[4,4] subtract(e{n}, c{n})",
            f"g{n} = f32[4,4] negate(f{n})",
            f"i{n} = f32[4,4] floor(g{n})",
            f"x{n + 1} = f32[4,4] add(i{n}, x{n})",
        ]
    return "\n".join([*lines, f"ROOT r = f32[4,4] negate(x{count})"])


def outlined(text: str):
    result, report = apply(module_of(text), "outline")
    verify(result)
    verify(hloom.parse(hloom.print(result)))
    return result, report.passes[0]


def test_layers_become_calls():
    result, report = outlined(layers(6))
    made = result["outlined"]
    assert len(made.callers) == 6
    assert [node.opcode for node in made.nodes].count("dot") == 1
    assert [node.opcode for node in result.entry.nodes].count("dot") == 0
    assert "bytes of text" in report.notes[-1]


def test_a_layer_that_differs_stays():
    result, _ = outlined(layers(6, changed="log"))
    assert sum(node.opcode == "log" for node in result.nodes()) == 1
    assert len(result["outlined"].callers) == 5 or len(result["outlined"].callers) == 4


def test_numbers_stay():
    module = module_of(layers(5))
    result, _ = outlined(layers(5))
    random = np.random.default_rng(1)
    given = [random.normal(size=(4, 4)).astype(np.float32) for _ in module.entry.parameters]
    for left, right in zip(evaluate(module, given), evaluate(result, given), strict=True):
        np.testing.assert_array_equal(left, right)


def test_what_is_wired_otherwise_stays():
    text = layers(2).replace("subtract(e1, c1)", "subtract(c1, e1)")
    assert "outlined" not in outlined(text)[0]


def test_what_is_short_or_has_effects_stays():
    text = "x = f32[] parameter(0)\n a = f32[] sine(x)\n b = f32[] sine(a)\n ROOT c = f32[] sine(b)"
    assert "outlined" not in outlined(text)[0]
    lines, before = ["x = f32[] parameter(0)"], "x"
    for n in range(40):
        lines.append(f'a{n} = f32[] custom-call({before}), custom_call_target="f", custom_call_has_side_effect=true')
        before = f"a{n}"
    assert "outlined" not in outlined("\n".join([*lines, f"ROOT r = f32[] negate({before})"]))[0]


def test_outlining_undone_is_the_program():
    before = module_of(layers(4))
    result, _ = apply(before, ["outline", "inline", "cse", "dce"])
    before.name = result.name
    clean, _ = apply(before, ["cse", "dce"])
    assert hloom.difference(result, clean) is None


@pytest.mark.parametrize("name", ["models.transformer", "models.long_short_term_memory", "random.random_rejection"])
def test_jax_programs(name):
    text = lowered("before")[name]
    result, _ = outlined(text)
    assert result.node_count <= hloom.parse(text).node_count


def by_looking(text: list[int], length: int) -> int:
    """How many times, without overlaps, the word of this length that occurs most often occurs."""
    most = 0
    for start in range(len(text) - length + 1):
        word, dim, count = text[start : start + length], 0, 0
        while dim + length <= len(text):
            result = text[dim : dim + length] == word
            count, dim = count + result, dim + (length if result else 1)
        most = max(most, count)
    return most


def test_repeats_are_those_that_are_there():
    random = Random(3)
    for _ in range(50):
        text = [random.randrange(3) for _ in range(random.randrange(2, 40))]
        for repeat in repeats(text, 2, 20):
            words = {tuple(text[index : index + repeat.length]) for index in repeat.positions}
            assert len(words) == 1 and len(repeat.positions) > 1
            assert all(b - a >= repeat.length for a, b in zip(repeat.positions, repeat.positions[1:], strict=False))
            assert len(repeat.positions) <= by_looking(text, repeat.length)


def test_a_word_that_follows_itself():
    assert repeats([5, 1, 2, 1, 2, 1, 2, 7], 2, 1) == [Repeat(2, (1, 3, 5))]
    assert repeats([1, 2, 3], 2, 5) == []
