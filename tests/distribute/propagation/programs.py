"""Small random programs, with numpy's words for each instruction, for whole arrays and for parts alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Dims = tuple[int, ...]
Compute = Callable[[list[np.ndarray], Dims], np.ndarray]
"""From operands and the result's dimensions to the result; both may be parts."""


@dataclass
class Program:
    """Lines of an entry graph, and for each value its dimensions, operands and numpy's way to compute it."""

    lines: list[str] = field(default_factory=list)
    dims: dict[str, Dims] = field(default_factory=dict)
    operands: dict[str, list[str]] = field(default_factory=dict)
    computes: dict[str, Compute] = field(default_factory=dict)

    def add(self, text: str, dims: Dims, operands: list[str], compute: Compute | None = None) -> str:
        """A further instruction; `text` stands behind its type."""
        name = f"v{len(self.dims)}"
        self.lines.append(f"  {name} = {type_text(dims)} {text}")
        self.dims[name] = dims
        self.operands[name] = operands
        if compute is not None:
            self.computes[name] = compute
        return name

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return [name for name in self.dims if name not in self.computes]

    @property
    def text(self) -> str:
        """The program as HLO: everything is yielded."""
        names = list(self.dims)
        kinds = ", ".join(type_text(dims) for dims in self.dims.values())
        root = f"  ROOT out = ({kinds}) tuple({', '.join(names)})"
        return "\n".join(
            ["HloModule random", SUM, "ENTRY main {", "  zero = f32[] constant(0)", *self.lines, root, "}"]
        )

    def values(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Every value, from whole numbers as parameters."""
        source = np.random.default_rng(seed)
        arrays: dict[str, np.ndarray] = {}
        for name, dims in self.dims.items():
            if name in self.computes:
                arrays[name] = self.computes[name]([arrays[operand] for operand in self.operands[name]], dims)
            else:
                arrays[name] = source.integers(-2, 3, dims).astype(np.float32)
        return arrays


SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"


def type_text(dims: Dims) -> str:
    """f32[2,3]."""
    return f"f32[{','.join(map(str, dims))}]"


def random_program(seed: int, length: int = 5) -> Program:
    """A program of two or three parameters and so many instructions, the same for the same seed."""
    choose = random.Random(seed)
    program = Program()
    for number in range(choose.choice((2, 3))):
        dims = tuple(choose.choice((2, 4)) for _ in range(choose.choice((1, 2, 2, 3))))
        program.add(f"parameter({number})", dims, [])
    while length:
        length -= choose.choice(_MAKERS)(program, choose)
    return program


def _pick(program: Program, choose: random.Random) -> tuple[str, Dims]:
    name = choose.choice(list(program.dims))
    return name, program.dims[name]


def _add(program: Program, choose: random.Random) -> bool:
    name, dims = _pick(program, choose)
    other = choose.choice([other_name for other_name, other_dims in program.dims.items() if other_dims == dims])
    program.add(f"add({name}, {other})", dims, [name, other], lambda given, _: given[0] + given[1])
    return True


def _transpose(program: Program, choose: random.Random) -> bool:
    name, dims = _pick(program, choose)
    order = choose.sample(range(len(dims)), len(dims))
    made = tuple(dims[dim] for dim in order)
    text = f"transpose({name}), dimensions={_braces(order)}"
    program.add(text, made, [name], lambda given, _: given[0].transpose(order))
    return True


def _reshape(program: Program, choose: random.Random) -> bool:
    name, dims = _pick(program, choose)
    dim = choose.randrange(len(dims)) if dims else 0
    if not dims:
        return False
    if dims[dim] == 4 and len(dims) < 4:
        made = (*dims[:dim], 2, 2, *dims[dim + 1 :])
    elif dim + 1 < len(dims):
        made = (*dims[:dim], dims[dim] * dims[dim + 1], *dims[dim + 2 :])
    else:
        return False
    program.add(f"reshape({name})", made, [name], lambda given, local: given[0].reshape(local))
    return True


def _dot(program: Program, choose: random.Random) -> bool:
    (left, a), (right, b) = _pick(program, choose), _pick(program, choose)
    pairs = [(i, j) for i, size in enumerate(a) for j, other in enumerate(b) if size == other]
    if not pairs or len(a) + len(b) > 5:
        return False
    i, j = choose.choice(pairs)
    made = (*a[:i], *a[i + 1 :], *b[:j], *b[j + 1 :])
    text = f"dot({left}, {right}), lhs_contracting_dims={{{i}}}, rhs_contracting_dims={{{j}}}"
    program.add(text, made, [left, right], lambda given, _: np.tensordot(given[0], given[1], ((i,), (j,))))
    return True


def _reduce(program: Program, choose: random.Random) -> bool:
    name, dims = _pick(program, choose)
    if not dims:
        return False
    dim = choose.randrange(len(dims))
    made = dims[:dim] + dims[dim + 1 :]
    text = f"reduce({name}, zero), dimensions={{{dim}}}, to_apply=sum"
    program.add(text, made, [name], lambda given, _: given[0].sum(dim))
    return True


def _broadcast(program: Program, choose: random.Random) -> bool:
    name, dims = _pick(program, choose)
    if len(dims) > 2:
        return False
    dim, size = choose.randrange(len(dims) + 1), choose.choice((2, 4))
    made = (*dims[:dim], size, *dims[dim:])
    kept = [other_dim for other_dim in range(len(made)) if other_dim != dim]
    text = f"broadcast({name}), dimensions={_braces(kept)}"
    program.add(text, made, [name], lambda given, local: np.broadcast_to(np.expand_dims(given[0], dim), local))
    return True


def _reverse(program: Program, choose: random.Random) -> bool:
    name, dims = _pick(program, choose)
    if not dims:
        return False
    dim = choose.randrange(len(dims))
    text = f"reverse({name}), dimensions={{{dim}}}"
    program.add(text, dims, [name], lambda given, _: np.flip(given[0], dim))
    return True


def _braces(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


_MAKERS = (_add, _add, _transpose, _reshape, _dot, _reduce, _broadcast, _reverse)
