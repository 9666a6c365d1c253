"""Random conditionals in which the rules of branching.py fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Domain = Callable[[Random], str]
_OPS = ("add({0}, {1})", "subtract({1}, {0})", "multiply({0}, {0})", "maximum({0}, {1})", "{1}")


def conditional(
    random: Random,
    branches: int,
    *,
    index: str,
    results: Sequence[int] = (0, 1, 2),
    unused: bool = False,
    are_equal: bool = False,
    constants: bool = False,
) -> str:
    """A module of one conditional; each branch takes (f32[3], f32[3], f32[3]) and yields three values.

    `index` is the expression of the choice, `results` are the elements used; with `unused` no branch uses its third
    element; `are_equal` branches are the same and are given the same.
    """  # fmt: skip
    taken = "(f32[3], f32[3], f32[3])"
    body = [_branch_lines(random, unused) for _ in range(branches)]
    texts = []
    for number in range(branches):
        lines = "\n".join(body[0 if are_equal else number])
        texts.append(f"b{number} {{\n  p = {taken} parameter(0)\n{lines}\n}}\n")
    predicate = index.startswith("pred")
    names = "true_computation=b0, false_computation=b1"
    if not predicate:
        names = f"branch_computations={{{', '.join(f'b{n}' for n in range(branches))}}}"
    third = "f32[3] constant({1, -0, nan})" if constants else "f32[3] parameter(2)"
    operands = []
    for number in range(branches):
        order = ["x", "y", "z"]
        if not are_equal:
            random.shuffle(order)
        operands.append(f"  t{number} = {taken} tuple({', '.join(order)})")
    given = ", ".join("t0" if are_equal else f"t{number}" for number in range(branches))
    return "\n".join([
        *texts, "ENTRY e {", "  x = f32[3] parameter(0)", "  y = f32[3] parameter(1)", f"  z = {third}",
        f"  q = {index}", *operands, f"  c = {taken} conditional(q, {given}), {names}",
        *[f"  o{n} = f32[3] get-tuple-element(c), index={n}" for n in results],
        f"  ROOT o = ({', '.join('f32[3]' for _ in results)}) tuple({', '.join(f'o{n}' for n in results)})\n}}\n",
    ])  # fmt: skip


def _branch_lines(random: Random, unused: bool) -> list[str]:
    count = 2 if unused else 3
    gets = [f"  g{n} = f32[3] get-tuple-element(p), index={n}" for n in range(count)]
    lines, names = [], []
    for number in range(3):
        form = random.choice(_OPS).format(f"g{random.randrange(count)}", f"g{random.randrange(count)}")
        names.append(f"r{number}" if "(" in form else form)
        if "(" in form:
            lines.append(f"  r{number} = f32[3] {form}")
    return [*gets, *lines, f"  ROOT t = (f32[3], f32[3], f32[3]) tuple({', '.join(names)})"]


def _known(random: Random) -> str:
    if random.random() < 0.4:
        return conditional(random, 2, index=f"pred[] constant({random.choice(['true', 'false'])})")
    return conditional(random, random.randrange(1, 4), index=f"s32[] constant({random.randrange(-2, 5)})")


def _index(random: Random) -> tuple[int, str]:
    if random.random() < 0.4:
        return 2, "pred[] parameter(3)"
    return random.randrange(2, 4), "s32[] parameter(3)"


def _equal(random: Random) -> str:
    count, index = _index(random)
    return conditional(random, count, index=index, are_equal=True)


def _unused_results(random: Random) -> str:
    count, index = _index(random)
    return conditional(random, count, index=index, results=sorted(random.sample(range(3), random.randrange(1, 3))))


def _unused_operands(random: Random) -> str:
    count, index = _index(random)
    if random.random() < 0.5:
        return conditional(random, count, index=index.replace("parameter(3)", "parameter(2)"), constants=True)
    return conditional(random, count, index=index, unused=True)


def _by_predicate(random: Random) -> str:
    array_text = random.choice(("s32", "s32", "s32"))
    return conditional(random, 2, index=f"{array_text}[] convert(pred[] parameter(3))")


def _repeated_results(random: Random) -> str:
    """Two branches that yield each of their values several times."""
    numbers = [random.randrange(3) for _ in range(4)]  # four of three values: some come twice
    names = ", ".join(f"v{number}" for number in numbers)
    types = ", ".join("f32[3]" for _ in numbers)
    branches = ""
    for name in ("f", "g"):
        lines = "".join(f"  v{n} = f32[3] {random.choice(('sine', 'abs', 'negate'))}(p)\n" for n in range(3))
        branches += f"{name} {{\n  p = f32[3] parameter(0)\n{lines}  ROOT t = ({types}) tuple({names})\n}}\n"
    elements = "".join(f"  g{n} = f32[3] get-tuple-element(c), index={n}\n" for n in range(len(numbers)))
    results = ", ".join(f"g{n}" for n in range(len(numbers)))
    return (
        f"{branches}ENTRY e {{\n  i = pred[] parameter(0)\n  x = f32[3] parameter(1)\n"
        f"  c = ({types}) conditional(i, x, x), true_computation=f, false_computation=g\n"
        f"{elements}  ROOT r = ({types}) tuple({results})\n}}\n"
    )


DOMAINS: dict[str, Domain] = {
    "repeated-results": _repeated_results,
    "known-branch": _known,
    "equal-branches": _equal,
    "unused-results": _unused_results,
    "unused-operands": _unused_operands,
    "branch-by-predicate": _by_predicate,
}
