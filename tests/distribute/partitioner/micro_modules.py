"""Many one-instruction programs in one module: what XLA's partitioner emits for each, from one compilation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from hloom.distribute.planner import Plan
from hloom.distribute.planner.partitioned import read_partitioned
from hloom.formats.hlo import parse
from hloom.runtime import partition
from hloom.sharding import Mesh, Spec

MESHES = tuple(map(Mesh.parse, ("x=8", "x=2,y=4", "x=4,y=2", "x=2,y=2,z=2")))


def every_spec(mesh: Mesh, rank: int) -> Iterator[Spec]:
    """All specs of a rank on a mesh whose axes stand in the mesh's order."""
    for choice in itertools.product([None, *range(rank)], repeat=len(mesh.names)):
        pairs = list(zip(mesh.names, choice, strict=True))
        yield Spec(tuple(tuple(name for name, chosen in pairs if chosen == dim) for dim in range(rank)))


@dataclass
class MicroModule:
    """A module of one-instruction programs, each with parameters of its own."""

    mesh: Mesh
    parameters: list[str] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.plan = Plan(self.mesh)

    def add(self, result: tuple[str, Spec], operands: list[tuple[str, Spec]], text: str) -> None:
        """Add an instruction: types and specs of its result and operands; the text has {0}, {1} for these."""
        names = []
        for operand_type, spec in operands:
            number = len(self.parameters)
            names.append(f"p{number}")
            self.parameters.append(f"p{number} = {operand_type} parameter({number})")
            self.plan.parameters[number] = spec
        number = len(self.instructions)
        self.plan.instructions[f"i{number}"] = self.plan.outputs[number] = result[1]
        self.instructions.append(f"i{number} = {result[0]} {text.format(*names)}")

    def bytes_sent(self) -> list[float]:
        """The bytes that a device sends for each instruction, once XLA has partitioned the module."""
        types = [instruction.split()[2] for instruction in self.instructions]
        names = [f"i{number}" for number in range(len(types))]
        root = f"ROOT out = ({', '.join(types)}) tuple({', '.join(names)})"
        lines = "\n".join([*self.parameters, *self.instructions, root])
        module = parse(f"HloModule micro\n\nENTRY main {{\n{lines}\n}}\n")
        partitioned = partition(self.plan.annotate(module), self.mesh.device_count).module
        sent = read_partitioned(partitioned, self.mesh.device_count, 0).comm_bytes_by_origin
        return [sent.get(name, 0.0) for name in names]


def array_type(dims: tuple[int, ...]) -> str:
    """The type of an array of floats of these dimensions."""
    assert math.prod(dims) > 0
    return f"f32[{','.join(map(str, dims))}]"
