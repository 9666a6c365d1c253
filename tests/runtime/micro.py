"""Many small graphs in one module, each measured by itself: what XLA's partitioner emits for it."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hloom.hlo import parse
from hloom.planner.partitioned import emitted
from hloom.planner.plan import Plan
from hloom.runtime.partition import partition
from hloom.sharding import Mesh, Spec


def every_spec(mesh: Mesh, rank: int) -> Iterator[Spec]:
    """All specs of a rank on a mesh whose axes stand in the mesh's order."""
    for choice in itertools.product([None, *range(rank)], repeat=len(mesh.names)):
        dims = tuple(tuple(n for n, c in zip(mesh.names, choice, strict=True) if c == d) for d in range(rank))
        yield Spec(dims)


@dataclass
class Micro:
    """Graphs of one instruction that read parameters of their own."""

    mesh: Mesh
    parameters: list[str] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.plan = Plan(self.mesh)

    def add(self, result: tuple[str, Spec], operands: list[tuple[str, Spec]], text: str) -> None:
        """One instruction: types and specs of its result and operands; the text has {0}, {1} for these."""
        names = []
        for kind, spec in operands:
            number = len(self.parameters)
            names.append(f"p{number}")
            self.parameters.append(f"p{number} = {kind} parameter({number})")
            self.plan.parameters[number] = spec
        number = len(self.instructions)
        self.plan.instructions[f"i{number}"] = self.plan.outputs[number] = result[1]
        self.instructions.append(f"i{number} = {result[0]} {text.format(*names)}")

    def sent(self) -> list[float]:
        """The bytes that each graph sends."""
        kinds = [each.split()[2] for each in self.instructions]
        names = [f"i{number}" for number in range(len(kinds))]
        root = f"ROOT out = ({', '.join(kinds)}) tuple({', '.join(names)})"
        lines = "\n".join([*self.parameters, *self.instructions, root])
        module = parse(f"HloModule micro\n\nENTRY main {{\n{lines}\n}}\n")
        compiled = partition(self.plan.annotate(module), self.mesh.device_count)
        found: dict[str, float] = defaultdict(float)
        for each in emitted(compiled.module, self.mesh.device_count, 0).collectives:
            found[each.origin] += each.sent
        return [found[name] for name in names]


def kind_of(dims: tuple[int, ...]) -> str:
    """The type of floats of these dimensions."""
    assert math.prod(dims) > 0
    return f"f32[{','.join(map(str, dims))}]"
