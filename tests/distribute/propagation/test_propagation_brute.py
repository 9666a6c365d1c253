"""Propagation against brute force: the answer is the largest consistent one, the parts compute the whole.

Covers `enumeration.py`.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from hloom.distribute.propagation import enumerate_tilings, propagate
from hloom.distribute.propagation.propagation import Propagation
from hloom.distribute.propagation.required_collectives import runs_split
from hloom.distribute.propagation.sharding_rule import PROPAGATING, sharding_rule_of
from hloom.formats.hlo import parse
from hloom.ir import Apply, Constant, Module, Node, TensorType, node_axes
from hloom.sharding import Mesh
from tests.distribute.propagation.programs import Program, random_program
from tests.helpers.properties import parameters

MESH = Mesh.parse("x=2,y=2")
ShardedDim = tuple[str, int, int]
Cut = tuple[str, ShardedDim]
"""An axis, and where it splits: a value, a dimension, the parts before."""


def random_seeds(program: Program, seed: int) -> list[str]:
    """One place for x and one for y, in different dimensions; sometimes a second for x."""
    choose = random.Random(seed)
    places = [(name, dim) for name in program.parameters for dim in range(len(program.dims[name]))]
    count = min(len(places), choose.choice((2, 2, 3)))
    chosen = choose.sample(places, count)
    seeds = [(*position, axis) for position, axis in zip(chosen, ("x", "y", "x"), strict=False)]
    values = [(name, axis) for name, _, axis in seeds]
    kept = [seed for number, seed in enumerate(seeds) if values.index((seed[0], seed[2])) == number]
    return [f"{name}:{dim}={axis}" for name, dim, axis in kept]


# A second, slow reading of docs/sharding.md


class Slow:
    """What the documentation says, in sets and loops, from the axis maps alone."""

    def __init__(self, module: Module, seeds: list[str], size: int = 2) -> None:
        self.nodes = [node for node in module.entry.nodes if node.opcode != "tuple"]
        self.size = size
        self.relations = {node: self._rule_of(node) for node in self.nodes if isinstance(node, Apply)}
        self.free = self._free()
        self.seeds = set()
        for text in seeds:
            name, _, rest = text.partition(":")
            dim, _, axis = rest.partition("=")
            self.seeds.add((axis, (name, int(dim), 1)))
        self.universe = [(node.name, dim, major) for node in self.nodes for dim, size in enumerate(dims_of(node))
                         for major in (1, 2, 4, 8) if major < size]  # fmt: skip

    def _rule_of(self, node: Apply):
        axis_map = node_axes(node)
        assert axis_map is not None
        return sharding_rule_of(axis_map, [dims_of(value) for value in (*node.operands, node)])

    def _free(self) -> set[tuple[str, int]]:
        free: set[tuple[str, int]] = set()
        for node in self.nodes:
            for dim in range(len(dims_of(node))):
                if isinstance(node, Constant) or (isinstance(node, Apply) and self._is_born(node, dim, free)):
                    free.add((node.name, dim))
        return free

    def _is_born(self, node: Apply, dim: int, free: set[tuple[str, int]]) -> bool:
        axis_map = node_axes(node)
        assert axis_map is not None
        if not axis_map.factors or any(factor.kind.value != "parallel" for factor in axis_map.factors):
            return False
        return all(
            (operand.name, number) in free
            for factor in axis_map.results[0][dim]
            for operand, dimensions in zip(node.operands, axis_map.operands, strict=False)
            for number, factors in enumerate(dimensions)
            if factor in factors
        )

    def points(self, cut: Cut) -> list[tuple[str, int, int]]:
        """The parts of instructions' factors that a cut splits, where it passes; by instruction."""
        _, (name, dim, major) = cut
        points = []
        for node, rule in self.relations.items():
            ends = [(slot, value.name) for slot, value in enumerate((*node.operands, node))]
            for slot, own in ends:
                if own != name or ((name, dim) in self.free and cut not in self.seeds and slot < rule.results):
                    continue
                for factor, front in rule.dim_factors[slot][dim].factors:
                    size = rule.factors[factor].size
                    if major in [front * parts for parts in (1, 2, 4, 8) if parts < size]:
                        whole = len(rule.dim_factors[slot][dim].factors) == 1
                        propagates_from = size % (major // front * self.size) == 0 or whole
                        if rule.factors[factor].kind in PROPAGATING and propagates_from:
                            points.append((node.name, factor, major // front))
        return points

    def along(self, axis: str, point: tuple[str, int, int]) -> set[Cut]:
        """The cuts that a factor's part stands for."""
        name, factor, within = point
        node = next(candidate for candidate in self.relations if candidate.name == name)
        ends = (*node.operands, node)
        return {
            (axis, (ends[e.slot].name, e.dimension, e.front * within)) for e in self.relations[node].factor_dims[factor]
        }

    def neighbours(self, cut: Cut, closed: set) -> set[Cut]:
        """The cuts that one cut leads to."""
        return {
            neighbour for point in self.points(cut) if (cut[0], point) not in closed for neighbour in self.along(cut[0], point)
        }

    def reach(self, blocked: set[Cut], closed: set, order: random.Random) -> set[Cut]:
        """All that the seeds lead to, in any order."""
        reached, pending = set(self.seeds), [seed for seed in self.seeds if seed not in blocked]
        while pending:
            cut = pending.pop(order.randrange(len(pending)))
            for neighbour in self.neighbours(cut, closed) - reached - blocked:
                reached.add(neighbour)
                pending.append(neighbour)
        return reached

    def unsupported(self, cuts: set[Cut]) -> set[Cut]:
        """Cuts behind parts that nothing splits."""
        unsupported = set()
        for axis, (name, dim, major) in cuts - self.seeds:
            majors = {cut[1][2] for cut in cuts if cut[1][:2] == (name, dim)}
            if not all(parts in majors for parts in (1, 2, 4, 8) if parts < major):
                unsupported.add((axis, (name, dim, major)))
        return unsupported

    def settled(self, blocked: set[Cut], closed: set, order: random.Random) -> tuple[set[Cut], set[Cut]]:
        """What is reached once unsupported cuts are gone, one at a time, and all walls."""
        blocked = set(blocked)
        while True:
            cuts = self.reach(blocked, closed, order)
            wrong = sorted(self.unsupported(cuts))
            if not wrong:
                return cuts, blocked
            blocked.add(order.choice(wrong))

    def contested(self, cuts: set[Cut], blocked: set[Cut]) -> tuple[set[Cut], set]:
        """Cuts of values and of factors that contradict each other."""
        wrong, closed = set(), set()
        for one, other in itertools.combinations(sorted(cuts), 2):
            if one[1][0] == other[1][0] and (one[0] == other[0] or one[1] == other[1]):
                wrong |= {one, other}
        points = {(cut[0], point) for cut in cuts if cut not in blocked for point in self.points(cut)}
        for one, other in itertools.combinations(sorted(points), 2):
            if one[1][0] == other[1][0] and (one[0] == other[0] or one[1] == other[1]):
                closed |= {one, other}
        return wrong, closed

    def answer(self, order: random.Random) -> set[Cut]:
        """The whole of it."""
        cuts, blocked = self.settled(set(), set(), order)
        wrong, closed = self.contested(cuts, blocked)
        return self.settled(blocked | wrong, closed, order)[0]


def dims_of(node: Node) -> tuple[int, ...]:
    assert isinstance(node.type, TensorType)
    return node.type.dims


def cuts_of(propagation: Propagation, names: set[str]) -> set[Cut]:
    """The answer as cuts."""
    cuts = set()
    for node, specs in propagation.specs:
        if node.name in names and node.graph is propagation.module.entry:
            for dim, axes in enumerate(specs[0].dims):
                major = 1
                for axis in axes:
                    cuts.add((axis, (node.name, dim, major)))
                    major *= 2
    return cuts


@pytest.mark.parametrize("seed", parameters(range(150), 6))
def test_the_answer_is_what_the_documentation_says(seed: int):
    program = random_program(seed, 6)
    seeds = random_seeds(program, seed)
    module = parse(program.text)
    slow = Slow(module, seeds)
    cuts_found = cuts_of(propagate(module, seeds, MESH), set(program.dims))
    for order in range(3):
        expected = {cut for cut in slow.answer(random.Random(order)) if cut[1][0] in program.dims}
        assert cuts_found == expected, program.text


@pytest.mark.parametrize("seed", parameters(range(150), 6))
def test_no_consistent_answer_is_larger(seed: int):
    """Of all sets of cuts, those that hang together with the seeds and are not contested have one largest member."""
    program = random_program(seed, 3)
    seeds = random_seeds(program, seed)
    module = parse(program.text)
    slow = Slow(module, seeds)
    order = random.Random(0)
    everything, _ = slow.settled(set(), set(), order)
    wrong, closed = slow.contested(everything, slow.settled(set(), set(), order)[1])
    options = sorted(slow.reach(set(), set(), order) - slow.seeds)[:12]
    largest: set[Cut] = set(slow.seeds)
    for count in range(len(options) + 1):
        for chosen in itertools.combinations(options, count):
            cuts = slow.seeds | set(chosen)
            grown = slow.seeds - wrong
            while True:
                more = {neighbour for cut in grown for neighbour in slow.neighbours(cut, closed)} & cuts - wrong
                if more <= grown:
                    break
                grown |= more
            if set(chosen) <= grown and not slow.unsupported(cuts):
                largest |= cuts
    cuts_found = cuts_of(propagate(module, seeds, MESH), {name for _, (name, _, _) in everything} | set(program.dims))
    assert largest <= cuts_found | {cut for cut in largest if cut[1][0] == "zero"}
    if len(slow.reach(set(), set(), order) - slow.seeds) <= 12:
        assert cuts_found == largest


def test_the_random_programs_meet_everything():
    """Conflicts, partial sums, parts behind others, places left out for want of them, exchanges."""
    met = {"conflicts": 0, "partials": 0, "alone": 0, "collectives": 0, "behind": 0, "both": 0}
    for seed in range(150):
        program = random_program(seed, 6)
        propagation = propagate(parse(program.text), random_seeds(program, seed), MESH)
        for name in ("conflicts", "partials", "alone", "collectives"):
            met[name] += bool(getattr(propagation, name))
        cuts = cuts_of(propagation, set(program.dims))
        met["behind"] += any(major > 1 for _, (_, _, major) in cuts)
        met["both"] += len({axis for axis, _ in cuts}) > 1
    assert min(met.values()) > 3, met


@pytest.mark.parametrize("seed", parameters(range(60), 6))
def test_the_order_of_demands_does_not_matter(seed: int):
    program = random_program(seed, 8)
    seeds = random_seeds(program, seed)
    module = parse(program.text)
    answers = {
        frozenset(cuts_of(propagate(module, list(order), mesh), set(program.dims)))
        for order in itertools.permutations(seeds)
        for mesh in (MESH, Mesh.parse("y=2,x=2"))
    }
    assert len(answers) == 1


@pytest.mark.parametrize("seed", parameters(range(150), 6))
def test_the_parts_compute_the_whole(seed: int):
    """Each device runs each instruction on its parts; partial results are added; what is gathered is listed."""
    program = random_program(seed, 6)
    propagation = propagate(parse(program.text), random_seeds(program, seed), MESH)
    values = program.values(seed)
    dataflow = propagation._dataflow
    for number, equation in enumerate(dataflow.equations):
        if equation.node.name in program.computes:
            _check_instruction(propagation, number, program, values)


def _check_instruction(propagation: Propagation, number: int, program: Program, values: dict[str, np.ndarray]) -> None:
    dataflow = propagation._dataflow
    equation = dataflow.equations[number]
    rule, name = equation.rule, equation.node.name
    names = [dataflow.leaves[leaf].node.name for leaf in equation.leaves]
    split: dict[int, list[tuple[int, str]]] = {}
    for sharding in propagation._shardings:
        held: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for slot, leaf in enumerate(equation.leaves):
            for owner, dim, major in sharding.reached:
                at = rule.factor_at(slot, dim, major) if owner == leaf else None
                if at and rule.propagates_from(slot, dim, *at, sharding.size) and (number, *at) not in sharding.blocked_factors:
                    held.setdefault(at, set()).add((slot, dim))
        for (factor, within), places in held.items():
            if runs_split(rule, factor, places):
                split.setdefault(factor, []).append((within, sharding.axis))
    runs = [
        [sorted((front * within, axis) for factor, front in side.factors for within, axis in split.get(factor, ()))
         for side in dim_factors]
        for dim_factors in rule.dim_factors
    ]  # fmt: skip
    sums = [axis for factor, splits in split.items() if rule.leaves_partial_sums(factor) for _, axis in splits]
    assert sorted(sums) == sorted(a for p in propagation.partials if p.node is equation.node for a in p.axes)
    _check_operands(propagation, equation, names, runs)
    count = len(program.operands[name])
    for x, y in itertools.product(range(2), repeat=2):
        here = {"x": x, "y": y}
        whole = cut(values[name], runs[-1], here)
        total = np.zeros_like(whole)
        for coordinates in itertools.product(range(2), repeat=len(sums)):
            there = here | dict(zip(sums, coordinates, strict=True))
            parts = [cut(values[names[slot]], runs[slot], there) for slot in range(count)]
            total = total + program.computes[name](parts, whole.shape)
        np.testing.assert_array_equal(total, whole)


def _check_operands(propagation: Propagation, equation, names: list[str], runs: list) -> None:
    """An operand that is split where the instruction is not must be exchanged; so a collective says it is."""
    for slot in range(equation.rule.results):
        leaf = equation.leaves[slot]
        spec = propagation._split.get(leaf)
        for dim, axes in enumerate(spec.dims if spec else ()):
            used = {axis for _, axis in runs[slot][dim]}
            for axis in set(axes) - used:
                if not propagation._dataflow.is_free(leaf, dim):
                    assert any(collective.value == names[slot] and collective.axes == (axis,) for collective in propagation.collectives)


def cut(value: np.ndarray, runs: list[list[tuple[int, str]]], here: dict[str, int]) -> np.ndarray:
    """The part of an array that a device holds."""
    for dim, dim_runs in enumerate(runs):
        for _, axis in dim_runs:
            length = value.shape[dim] // 2
            value = np.take(value, range(here[axis] * length, (here[axis] + 1) * length), dim)
    return value


FEW = [seed for seed in range(160) if sum(map(len, random_program(seed, 3).dims.values())) <= 12]
"""Programs with so few places that all sets of them can be tried."""


@pytest.mark.parametrize("seed", parameters(FEW, 6))
def test_all_complete_tilings_are_listed(seed: int):
    """Of all sets of places, those that are closed under the axis maps and free of contradictions, the largest."""
    program = random_program(seed, 3)
    module = parse(program.text)
    slow = Slow(module, [])
    places = [sharded_dim for sharded_dim in slow.universe if sharded_dim[2] == 1 and sharded_dim[:2] not in slow.free and sharded_dim[0] in program.dims]
    closed = []
    for count in range(len(places) + 1):
        for chosen in itertools.combinations(places, count):
            cuts = {("x", position) for position in chosen}
            reached = {e for cut in cuts for e in slow.neighbours(cut, set()) if e[1][:2] not in slow.free}
            wrong, bad = slow.contested(cuts, set())
            if reached <= cuts and not wrong and not _real(slow, bad):
                closed.append(frozenset(cuts))
    largest = {cuts for cuts in closed if not any(cuts < other for other in closed)}
    enumeration = enumerate_tilings(module, "x", 2)
    listed = {
        frozenset(seed for seed in cuts_of(propagate(module, tiling.seeds, enumeration.mesh), set(program.dims))
                  if seed[1][:2] not in slow.free)
        for tiling in enumeration.tilings
    }  # fmt: skip
    assert listed == largest, program.text
    assert len(enumeration.tilings) == len(largest)


def _real(slow: Slow, closed: set) -> bool:
    """Whether of an instruction's factors that contradict each other two are of dimensions that come from somewhere."""
    real = {p for _, p in closed if not all(cut[1][:2] in slow.free for cut in slow.along("x", p))}
    return any(sum(1 for point in real if point[0] == name) > 1 for name, _, _ in real)
