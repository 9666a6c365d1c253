"""Random programs that make views, write through them and read them: by branches, loops, functions and containers.

Arrays hold integers, so that results are equal to the last bit; names keep their shapes, so that every program runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.functions.view_forms import HEADER

SHAPES = ((3, 3), (3,), (2, 3), (2,), (9,))
MAKERS: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[str, ...]] = {
    ((3, 3), (3, 3)): ("{v}.T", "{v}[::-1]", "np.flip({v}, 1)", "np.rot90({v})", "{v}[:]", "{v}.copy()", "{v} + 1",
                       "{v}.swapaxes(0, 1)", "{v}.T[::-1]", "np.asarray({v})", "pick({v}, {v})"),
    ((3, 3), (3,)): ("{v}[{n}]", "{v}[:, {n}]", "{v}.diagonal().copy()", "{v}[{n}, ::-1]", "({v}[{n}], {v}[0])[1]",
                     "[{v}[{n}], {v}[{n}]][0]", "{v}.T[{n}]", "{v}[{n} - 1]", "row_of({v}, {n})", "np.squeeze({v}[{n}:{n} + 1])",
                     "{v}[[0, 1]][{m}]", "({v}[{n}] if {test} else {v}[:, {n}])", "{{'a': {v}[{n}]}}['a']", "np.moveaxis({v}, 0, 1)[{n}]"),
    ((3, 3), (2, 3)): ("{v}[1:]", "{v}[{m}:{m} + 2]", "{v}[::-2]", "{v}[:2, ::-1]", "np.split({v}, [1])[1]"),
    ((3, 3), (9,)): ("{v}.reshape(-1)", "{v}.ravel()", "{v}.T.reshape(-1)", "{v}.flatten()"),
    ((3,), (3,)): ("{v}[::-1]", "{v}[:]", "{v}.copy()", "{v} * 2", "pick({v}, {v})", "np.atleast_1d({v})"),
    ((3,), (2,)): ("{v}[1:]", "{v}[{m}:{m} + 2]", "{v}[::2]", "{v}[::-2]"),
    ((3,), (3, 3)): ("np.stack([{v}, {v}, {v}])", "np.outer({v}, {v})"),
    ((2, 3), (2, 3)): ("{v}[::-1]", "{v}[:, ::-1]", "{v} - 1"),
    ((2, 3), (3,)): ("{v}[{m}]", "{v}[-{m}]", "{v}[0]"),
    ((2, 3), (2,)): ("{v}[:, {n}]", "{v}.T[{n}]", "{v}[:, 1:][{m}]"),
    ((2,), (2,)): ("{v}[::-1]", "{v}.copy()"),
    ((9,), (3, 3)): ("{v}.reshape(3, 3)", "{v}.reshape(3, 3).T"),
    ((9,), (3,)): ("{v}[{n}:{n} + 3]", "{v}[::3]", "{v}[{n} * 3:{n} * 3 + 3]"),
}  # fmt: skip
"""By the shapes of a name and of what is made of it: expressions, most of them views."""
CHANGES: dict[tuple[int, ...], tuple[str, ...]] = {
    (3, 3): ("{v}[{n}][{n}] = {c}", "{v}[{n}, {n}] += {c}", "{v}[{n}], {v}[{n}] = {v}[{n}], {v}[{n}]", "{v} += {c}",
             "{v}[:, {n}][{m}] = {c}", "{v}[{n}].sort()", "bump({v}[{n}])", "{v}[{n}] += bump({v}[{n}])", "{v}[{n}] -= {v}[{n}]",
             "{v}[{n}, {n}] += bump({v})", "{v} += {v}.T", "{v}[:, {n}] = {v}[{n}] + 0", "{v}[{m}:{m} + 2] += {c}",
             "{v}[{n}][::-1][{m}:] *= 2", "{v}[{n}] = {v}[{n}] + bump({v}) + {v}[{n}]", "np.add.at({v}, {n}, {c})"),
    (3,): ("{v}[{n}] = {c}", "{v} += {c}", "{v}[:] = {v}[::-1]", "{v}.sort()", "{v}[{m}:{m} + 2] += {c}", "bump({v})",
           "{v}[{n}] += bump({v})", "{v}[{v} > {c}] = {c}", "{v}[{n}], {v}[{n}] = {v}[{n}], {v}[{n}]", "{v}.fill({c})",
           "{v} *= 2", "{v}[{m}:] += {v}[1:] if {test} else {c}" , "{v}[1:] += {v}[:-1]"),
    (2, 3): ("{v}[{m}] += {c}", "{v}[{m}][{n}] = {c}", "{v}[0], {v}[1] = {v}[1], {v}[0]", "{v}[:, {n}] = {c}", "bump({v}[{m}])"),
    (2,): ("{v}[{m}] = {c}", "{v} += {c}", "bump({v})", "{v}[:] = {v}[::-1]"),
    (9,): ("{v}[{n}:{n} + 3] += {c}", "{v}[{n} * {m}] = {c}", "{v} -= {c}", "{v}[{n}:][::-1][{m}] = {c}"),
}  # fmt: skip
"""By the shape of a name: statements that change its elements."""
FUNCTIONS = """def bump(r):
    r += 1
    return r.sum() % 7


class Holder:
    def __init__(self, v):
        self.v = v


def row_of(x, k):
    return x[k]


def pick(x, y):
    return y


"""


class ProgramWriter:
    """The writing of one program; `pick` chooses one of several."""

    def __init__(self, pick: Callable[[Sequence[Any]], Any], is_moving: bool = True) -> None:
        self.pick = pick
        self.is_moving = is_moving
        self.lines: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {"x": (3, 3), "y": (3, 3)}
        self.depth = 0

    def text(self, size: int) -> str:
        """The text of a program of so many statements."""
        self.block(size, 1)
        names = ", ".join(self.shapes)
        body = "\n".join(["    x = a.copy()", "    y = a * 10", "    t = 0", *self.lines, f"    return t, {names}"])
        return f"{HEADER}{FUNCTIONS}def program(a, i, j, n):\n{body}\n"

    def block(self, size: int, indent: int) -> None:
        for _ in range(size):
            self.statement(indent)

    def add(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def filled(self, template: str, name: str) -> str:
        parts: list[str] = []
        rest = template.replace("{v}", name)
        for mark, options in (
            ("{n}", ("i", "j", "1", "2", "i", "-j", "k") if self.is_moving else ("0", "1", "2")),
            ("{m}", ("min(i, 1)", "0", "1", "min(j, 1)") if self.is_moving else ("0", "1")),
            ("{c}", ("5", "t", "3", "-2")), ("{test}", ("i > j", "t % 2 == 0", "n > 2")),
        ):  # fmt: skip
            while mark in rest:
                choice = self.pick(options)
                choice = "i" if choice == "k" and not self.depth else choice
                rest = rest.replace(mark, choice, 1)
        parts.append(rest.replace("{{", "{").replace("}}", "}"))
        return "".join(parts)

    def statement(self, indent: int) -> None:
        statements = ["make", "make", "change", "change", "change", "read", "again"]
        if indent == 1:
            statements += ["hold", "closure", "recursion"]
        if indent < 3:
            statements += ["if", "for", "rows", "while"]
        getattr(self, f"_{self.pick(statements)}")(indent)

    def _name(self) -> str:
        return self.pick(sorted(self.shapes))

    def _make(self, indent: int) -> None:
        source = self._name()
        shapes = [made for given, made in MAKERS if given == self.shapes[source]]
        made = self.pick(shapes)
        text = self.filled(self.pick(MAKERS[self.shapes[source], made]), source)
        if indent > 1:  # a name that there is, so that it is bound on every path
            names = [name for name, shape in sorted(self.shapes.items()) if shape == made and name not in "xy"]
            if names:
                self.add(indent, f"{self.pick(names)} = {text}")
            return
        name = f"v{len(self.shapes)}"
        self.shapes[name] = made
        self.add(indent, f"{name} = {text}")

    def _hold(self, indent: int) -> None:
        """A list or an object that holds an array: what holds it is a name too."""
        name, number = self._name(), len(self.shapes)
        holder = self.pick(("list", "object"))
        self.add(indent, f"h{number} = [{name}, {self._name()}]" if holder == "list" else f"h{number} = Holder({name})")
        self.shapes[f"h{number}[0]" if holder == "list" else f"h{number}.v"] = self.shapes[name]

    def _closure(self, indent: int) -> None:
        number = len(self.lines)
        self.add(indent, f"def f{number}():")
        self._change_from_inside(indent + 1)
        self.add(indent + 1, f"return {self._name()}.sum() % 5")
        self.add(indent, f"t += f{number}() + f{number}()")

    def _recursion(self, indent: int) -> None:
        number = len(self.lines)
        self.add(indent, f"def f{number}(r, left):")
        self.add(indent + 1, "if left == 0:")
        self.add(indent + 2, "return r")
        self._change_from_inside(indent + 1)
        self.add(indent + 1, f"return f{number}(r, left - 1)")
        name = self._name()
        if name in "xy":
            self.add(indent, f"f{number}({name}, n)")
        else:
            self.add(indent, f"{name} = f{number}({name}, n)")

    def _change(self, indent: int) -> None:
        name = self._name()
        self.add(indent, self.filled(self.pick(CHANGES[self.shapes[name]]), name))

    def _change_from_inside(self, indent: int) -> None:
        """A change in a nested function: `x += 1` there binds a name of the function itself unless it says otherwise."""
        name = self._name()
        text = self.filled(self.pick(CHANGES[self.shapes[name]]), name)
        if name.isidentifier() and re.match(rf"{name} [-+*]=", text):
            self.add(indent, f"nonlocal {name}")
        self.add(indent, text)

    def _again(self, indent: int) -> None:
        """One name for what another one means."""
        name = self._name()
        others = [other for other, shape in sorted(self.shapes.items()) if shape == self.shapes[name]]
        self.add(indent, f"{name} = {self.pick(others)}")

    def _read(self, indent: int) -> None:
        name = self._name()
        texts = ["{v}.sum()", "{v}.sum() + bump({v}) + {v}.max()", "({v} + bump({v})).sum()", "({v} < {v}[::-1]).sum()"]
        self.add(indent, f"t += ({self.filled(self.pick(texts), name)}) % 11")

    def _if(self, indent: int) -> None:
        self.add(indent, f"if {self.pick(('i > j', 't % 3 == 1', 'n > 1', 'i == 0'))}:")
        self._inner(self.pick((1, 2)), indent)
        if self.pick((True, False)):
            self.add(indent, "else:")
            self._inner(self.pick((1, 2)), indent)

    def _inner(self, size: int, indent: int) -> None:
        count = len(self.lines)
        self.block(size, indent + 1)
        if len(self.lines) == count:
            self.add(indent + 1, "t += 1")

    def _for(self, indent: int) -> None:
        self.add(indent, f"for k in range({self.pick(('n', '2', 'n', '3'))}):")
        self.depth += 1
        self._inner(self.pick((1, 2, 3)), indent)
        self.depth -= 1

    def _while(self, indent: int) -> None:
        counter = f"c{len(self.lines)}"
        self.add(indent, f"{counter} = n")
        self.add(indent, f"while {counter} > 0:")
        self.add(indent + 1, f"{counter} -= 1")
        self._inner(self.pick((1, 2)), indent)

    def _rows(self, indent: int) -> None:
        names = [name for name, shape in sorted(self.shapes.items()) if len(shape) == 2]
        self.add(indent, f"for r in {self.pick(names)}:")
        self.add(indent + 1, self.filled(self.pick(CHANGES[(3,)]), "r"))
