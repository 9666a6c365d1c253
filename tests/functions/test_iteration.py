"""What a loop goes over may change meanwhile: every kind of iterable, change and consumer, beside CPython.

Covers `functions/iterators.py`, `functions/iterator_rules.py`, `functions/builtin_functions/iteration.py`,
`functions/integer_bounds.py`.
"""

from __future__ import annotations

import copy
import linecache
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hloom

SOURCES = {
    "list": "v", "dict": "d", "keys": "d.keys()", "values": "d.values()", "array": "x", "tuple": "(1, n, 3)",
    "range": "range(4)", "run's range": "range(n)", "text": "'abc'", "zip": "zip(v, w)", "zip of arrays": "zip(x, y)",
    "zip with an iterator": "zip(iter(v), w)", "enumerate": "enumerate(v)", "enumerated array": "enumerate(x)",
    "reversed list": "reversed(v)", "reversed array": "reversed(x)", "map": "map(lambda a: a + v[0], v)",
    "map of an array": "map(lambda a: a + x[0], x)", "filter": "filter(lambda a: a is not None, v)",
    "generator": "(a for a in v)", "generator of an array": "(a + n for a in x)", "iter": "iter(v)",
    "iter of an array": "iter(x)", "iter with a sentinel": "iter(lambda: v.pop(), 2)", "chain": "itertools.chain(v, w)",
    "islice": "itertools.islice(v, 1, 3)", "pairwise": "itertools.pairwise(v)", "accumulate": "itertools.accumulate(v)",
    "zip_longest": "itertools.zip_longest(v, (1, 2))", "starmap": "itertools.starmap(lambda a, b: a + b, zip(v, w))",
    "takewhile": "itertools.takewhile(lambda a: a is not None, v)", "long array": "z", "long zip": "zip(z, z)",
}  # fmt: skip
CHANGES = {
    "nothing": "pass", "append": "v.append(n) if len(v) < 5 else None", "pop": "v.pop() if len(v) > 1 else None",
    "an item": "v[-1] = n + 10", "the first item": "v[0] = v[0] + n", "a value": "d['b'] = d['b'] + n",
    "a key": "d['c'] = n", "no key": "d.pop('b', None)", "an element": "x[-1] = x[0] + n",
    "all elements": "x += 1", "a long array": "z[n] = 7",
    "clear": "v.clear()", "insert": "v.insert(0, n) if len(v) < 5 else None",
}  # fmt: skip
CONSUMERS = {
    "for": "for e in it:\n        r = e\n        count = count + 1\n        {change}",
    "for with break": "for e in it:\n        r = e\n        {change}\n        if count > 1:\n            break\n        count += 1",
    "for, changed before": "{change}\n    for e in it:\n        r = e\n        count += 1",
    "comprehension": "r = [(e, change()) for e in it]",
    "next": "r = next(it, None) if hasattr(it, '__next__') else 0\n    {change}\n    count = len(list(it))",
    "list": "{change}\n    r = list(it)",
    "twice": "r = list(it)\n    {change}\n    count = list(it)",
    "unpacking": "{change}\n    r, *count = it",
    "arguments": "{change}\n    r = (lambda *a: a)(*it)",
    "in": "{change}\n    r = 2 in it",
    "any": "{change}\n    r = any(it)",
    "zip": "{change}\n    r = list(zip(it, w))",
}  # fmt: skip
PRELUDE = """def f(n):
    v, w, d = [1, 2, n], [4, 5, 6, 7], {{"a": n, "b": 2}}
    x, y, z, r, count = np.arange(4.0), np.arange(4.0) + 1, np.arange(40.0), 0, 0
    def change():
        {change}
    it = {source}
    {consumer}
    return r, count, v, d, x, z[:8]
"""


def function_of(text: str) -> Callable[..., Any]:
    """The function `f` of a program's text, whose lines tools can read."""
    name = f"<program {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    namespace: dict[str, Any] = {"np": np}
    exec(compile("import itertools\n" + text, name, "exec"), namespace)
    linecache.cache[name] = len(text), None, ["import itertools\n", *text.splitlines(keepends=True)], name
    return namespace["f"]


def is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(is_equal, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(is_equal(a[key], b[key]) for key in a)
    return bool(np.shape(a) == np.shape(b) and np.all(np.asarray(a == b)))


def problem_of(text: str, *arguments: Any) -> str | None:
    """What a program does otherwise than in Python; None where it gives Python's value or error, or is refused."""
    function = function_of(text)
    try:
        wanted = function(*copy.deepcopy(arguments))
    except Exception as error:
        wanted = error
    try:
        given = hloom.function(function)(*copy.deepcopy(arguments))
    except hloom.HloomError as error:
        is_same = isinstance(error, (hloom.Unsupported, type(wanted)))
        return None if is_same else f"{text}\n{wanted!r}\n{error}"
    is_same = not isinstance(wanted, Exception) and is_equal(wanted, given)
    return None if is_same else f"{text}\n{wanted!r}\n{given!r}"


def program_of(source: str, change: str, consumer: str) -> str:
    change = CHANGES[change]
    return PRELUDE.format(source=SOURCES[source], change=change, consumer=CONSUMERS[consumer].format(change=change))


ENDLESS = set(product(["iter with a sentinel"], ["append", "insert"], ["for", "comprehension"]))
"""What does not end in Python: each round appends what the next one takes."""
MEMBERS = [member for member in product(SOURCES, CHANGES, CONSUMERS) if member not in ENDLESS]
SHARE = 311
"""One member of so many is compiled in `make test`: a number without a common factor with the sizes of the tables."""


def test_members_of_iteration():
    problems = [problem_of(program_of(*member), 3) for member in MEMBERS[::SHARE]]
    assert [problem for problem in problems if problem] == []


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES)
def test_all_members_of_iteration(source: str):
    problems = [problem_of(program_of(*member), 3) for member in MEMBERS if member[0] == source]
    assert [problem for problem in problems if problem] == []


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A few iterators over shared lists, taken from in turn while the lists change."""
    lines = ["def f(n):", "    v, w, x, k, r = [1, n, 3], [4, 5], np.arange(4.0), 1, []"]
    for name in ("a", "b"):
        source = draw(st.sampled_from([
            "iter(v)", "zip(v, w)", "map(lambda t: t + k, v)", "(t * k for t in v)", "enumerate(w)", "reversed(v)",
            "filter(lambda t: t is not None, v)", "iter(x)", "(t + k for t in x)", "itertools.chain(w, v)",
            "(t for t in v if k > 0)", "((t, u) for t in w for u in v)", "itertools.islice(v, 2)",
        ]))  # fmt: skip
        lines.append(f"    {name} = {source}")
    steps = [
        "r.append(next(a, -1))", "r.append(next(b, -1))", "v.append(n)", "v[0] = 9", "w[1] = n", "k = n", "x[2] = n",
        "v.pop(0) if len(v) > 1 else None", "r.extend(a)", "r.append(list(zip(a, b)))", "r.append(5 in a)",
        "b = zip(a, v)", "v = [7, n]", "for e in b:\n        r.append(e)\n        if len(r) > 4:\n            break",
        "if n > 2:\n        r.append(k)", "r.append([t for t in a])", "r.append(sum(t for t in v))",
    ]  # fmt: skip
    lines += ["    " + draw(st.sampled_from(steps)) for _ in range(draw(st.integers(1, 6)))]
    return "\n".join([*lines, "    return r, list(a), list(b)", ""])


CHECK: dict[str, Any] = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=4, **CHECK)
@given(programs())
def test_iterators_of_random_programs(text: str):
    assert problem_of(text, 3) is None


@pytest.mark.long
@settings(max_examples=300, **CHECK)
@given(programs())
def test_iterators_of_many_random_programs(text: str):
    assert problem_of(text, 3) is None


def test_a_chain_of_calls_ends():
    """Distinct functions that call each other in a row are not recursion, however many they are."""
    lines = [f"def f{k}(x):\n    return f{k - 1}(x) + 1.0\n" for k in range(1, 150)]
    text = "\n".join(["def f0(x):\n    return x\n", *lines, "def f(x):\n    return f149(x)\n"])
    assert hloom.function(function_of(text))(2.0) == 151.0
