"""Random programs in which the rules on sorts, maps and reductions of several arrays fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.reduce import FLOATS, INTEGERS, shape, some, text, without

_UNARY = ("negate", "abs", "copy")
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def comparison(elements: list[str], key: int) -> str:
    """A computation that compares two elements of one of several arrays."""
    lines = []
    for number, element in enumerate(elements):
        lines += [
            f"a{number} = {element}[] parameter({2 * number})",
            f"b{number} = {element}[] parameter({2 * number + 1})",
        ]
    lines.append(f"ROOT lt = pred[] compare(a{key}, b{key}), direction=LT")
    return "before {\n" + "\n".join(lines) + "\n}\n"


def of_single_elements(random: Random) -> str:
    """A dimension of size 1 or 0, and one array or several."""
    elements = [random.choice(INTEGERS) for _ in range(random.randint(1, 3))]
    sizes = shape(random)
    along = random.randrange(len(sizes))
    sizes[along] = random.choice((1, 1, 0))
    types = [f"{element}[{text(sizes)}]" for element in elements]
    result = types[0] if len(types) == 1 else f"({', '.join(types)})"
    lines = [f"p{n} = {array_text} parameter({n})" for n, array_text in enumerate(types)]
    names = ", ".join(f"p{n}" for n in range(len(types)))
    lines.append(f"ROOT s = {result} sort({names}), dimensions={{{along}}}, to_apply=before")
    return comparison(elements, random.randrange(len(elements))) + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"


def of_fewer(random: Random) -> str:
    """Several arrays of which not all are asked for."""
    elements = [random.choice(INTEGERS) for _ in range(random.randint(2, 4))]
    key, unused = random.sample(range(len(elements)), 2)
    sizes = shape(random)
    along = random.randrange(len(sizes))
    sizes[along] += 1
    types = [f"{element}[{text(sizes)}]" for element in elements]
    lines = [f"p{n} = {array_text} parameter({n})" for n, array_text in enumerate(types)]
    names = ", ".join(f"p{n}" for n in range(len(types)))
    stable = "is_stable=true, "
    lines.append(f"s = ({', '.join(types)}) sort({names}), dimensions={{{along}}}, {stable}to_apply=before")
    asked = [n for n in range(len(types)) if n != unused and (n == key or random.random() < 0.7)]
    lines += [f"g{n} = {types[n]} get-tuple-element(s), index={n}" for n in asked]
    lines.append(f"ROOT t = ({', '.join(types[n] for n in asked)}) tuple({', '.join(f'g{n}' for n in asked)})")
    return comparison(elements, key) + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"


def several(ops: list[str], elements: list[str]) -> str:
    """A computation that combines several pairs, each by itself."""
    count = len(ops)
    lines = [f"a{n} = {element}[] parameter({n})" for n, element in enumerate(elements)]
    lines += [f"b{n} = {element}[] parameter({count + n})" for n, element in enumerate(elements)]
    lines += [f"c{n} = {element}[] {ops[n]}(a{n}, b{n})" for n, element in enumerate(elements)]
    types = ", ".join(f"{element}[]" for element in elements)
    lines.append(f"ROOT t = ({types}) tuple({', '.join(f'c{n}' for n in range(count))})")
    return "several {\n" + "\n".join(lines) + "\n}\n"


def reduction(random: Random, count: int) -> tuple[str, list[str], list[str]]:
    """A reduction of several arrays: its computation, the types of the results, and the lines."""
    elements = [random.choice(INTEGERS) for _ in range(count)]
    ops = [random.choice(("add", "maximum", "minimum")) for _ in range(count)]
    sizes = shape(random)
    dims = some(random, list(range(len(sizes))))
    lines = [f"p{n} = {element}[{text(sizes)}] parameter({n})" for n, element in enumerate(elements)]
    lines += [f"start{n} = {element}[] constant(0)" for n, element in enumerate(elements)]
    types = [f"{element}[{text(without(sizes, dims))}]" for element in elements]
    names = ", ".join([f"p{n}" for n in range(count)] + [f"start{n}" for n in range(count)])
    lines.append(f"r = ({', '.join(types)}) reduce({names}), dimensions={{{text(dims)}}}, to_apply=several")
    return several(ops, elements), types, lines


def reduce_of_fewer(random: Random) -> str:
    """A reduction of several arrays of which one is asked for."""
    head, types, lines = reduction(random, random.randint(2, 3))
    index = random.randrange(len(types))
    lines.append(f"ROOT g = {types[index]} get-tuple-element(r), index={index}")
    return head + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"


def of_one_in_tuple(random: Random) -> str:
    """A reduction whose computation yields a tuple of one."""
    head, _, lines = reduction(random, 1)
    lines[-1] = "ROOT " + lines[-1]
    return head + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"


def mapped(random: Random) -> str:
    """A map whose computation is one op, a parameter or a constant."""
    element = random.choice(FLOATS)
    sizes = shape(random)
    array_text = f"{element}[{text(sizes)}]"
    bodies = [
        "ROOT r = {e}[] parameter(0)",
        "a = {e}[] parameter(0)\nROOT r = {e}[] constant(3)",
        f"a = {{e}}[] parameter(0)\nROOT r = {{e}}[] {random.choice(_UNARY)}(a)",
        f"a = {{e}}[] parameter(0)\nb = {{e}}[] parameter(1)\nROOT r = {{e}}[] {random.choice(_BINARY)}(b, a)",
        "a = {e}[] parameter(0)\nb = {e}[] parameter(1)\nROOT r = pred[] compare(a, b), direction=LT",
    ]
    body = random.choice(bodies).replace("{e}", element)
    count = body.count("parameter(")
    result = f"pred[{text(sizes)}]" if "compare" in body else array_text
    lines = [f"p{n} = {array_text} parameter({n})" for n in range(count)]
    names = ", ".join(f"p{n}" for n in range(count))
    lines.append(f"ROOT m = {result} map({names}), dimensions={{{text(list(range(len(sizes))))}}}, to_apply=one")
    return f"one {{\n{body}\n}}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


DOMAINS: dict[str, Callable[[Random], str]] = {
    "sort-of-single-elements": of_single_elements,
    "sort-of-fewer": of_fewer,
    "reduce-of-fewer": reduce_of_fewer,
    "reduction-of-one-in-tuple": of_one_in_tuple,
    "map-of-one-op": mapped,
}
"""Per rule, a program in which it fires, of random shapes and types."""
