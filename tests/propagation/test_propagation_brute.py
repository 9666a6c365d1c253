"""Propagation against brute force: the answer is the largest consistent one, the parts compute the whole."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from hloom.hlo import parse
from hloom.ir import Apply, Constant, Module, Node, TensorType, node_axes
from hloom.propagation import enumerate_tilings, propagate
from hloom.propagation.propagation import Propagation
from hloom.propagation.required_collectives import runs_split
from hloom.propagation.sharding_rule import PROPAGATING, sharding_rule_of
from hloom.sharding import Mesh
from tests.propagation.programs import Program, random_program

MESH = Mesh.parse("x=2,y=2")
ShardedDim = tuple[str, int, int]
Cut = tuple[str, ShardedDim]
"""An axis, and where it splits: a value, a dimension, the parts before."""


def random_seeds(program: Program, seed: int) -> list[str]:
    """One place for x and one for y, in different dimensions; sometimes a second for x."""
    choose = random.Random(seed)
    places = [(name, place) for name in program.parameters for place in range(len(program.dims[name]))]
    count = min(len(places), choose.choice((2, 2, 3)))
    chosen = choose.sample(places, count)
    seeds = [(*place, axis) for place, axis in zip(chosen, ("x", "y", "x"), strict=False)]
    values = [(name, axis) for name, _, axis in seeds]
    kept = [each for number, each in enumerate(seeds) if values.index((each[0], each[2])) == number]
    return [f"{name}:{place}={axis}" for name, place, axis in kept]


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
            place, _, axis = rest.partition("=")
            self.seeds.add((axis, (name, int(place), 1)))
        self.universe = [(node.name, place, major) for node in self.nodes for place, size in enumerate(dims_of(node))
                         for major in (1, 2, 4, 8) if major < size]  # fmt: skip

    def _rule_of(self, node: Apply):
        found = node_axes(node)
        assert found is not None
        return sharding_rule_of(found, [dims_of(each) for each in (*node.inputs, node)])

    def _free(self) -> set[tuple[str, int]]:
        free: set[tuple[str, int]] = set()
        for node in self.nodes:
            for place in range(len(dims_of(node))):
                if isinstance(node, Constant) or (isinstance(node, Apply) and self._is_born(node, place, free)):
                    free.add((node.name, place))
        return free

    def _is_born(self, node: Apply, place: int, free: set[tuple[str, int]]) -> bool:
        found = node_axes(node)
        assert found is not None
        if not found.factors or any(factor.kind.value != "parallel" for factor in found.factors):
            return False
        return all(
            (node.inputs[number].name, dimension) in free
            for factor in found.results[0][place]
            for side, number, dimension in found.dimensions_of(factor)
            if side == "operand"
        )

    def points(self, cut: Cut) -> list[tuple[str, int, int]]:
        """The parts of instructions' factors that a cut splits, where it passes; by instruction."""
        _, (name, place, major) = cut
        found = []
        for node, rule in self.relations.items():
            ends = [(slot, each.name) for slot, each in enumerate((*node.inputs, node))]
            for slot, own in ends:
                if own != name or ((name, place) in self.free and cut not in self.seeds and slot < rule.results):
                    continue
                for factor, front in rule.dim_factors[slot][place].factors:
                    size = rule.factors[factor].size
                    if major in [front * each for each in (1, 2, 4, 8) if each < size]:
                        whole = len(rule.dim_factors[slot][place].factors) == 1
                        propagates_from = size % (major // front * self.size) == 0 or whole
                        if rule.factors[factor].kind in PROPAGATING and propagates_from:
                            found.append((node.name, factor, major // front))
        return found

    def along(self, axis: str, point: tuple[str, int, int]) -> set[Cut]:
        """The cuts that a factor's part stands for."""
        name, factor, within = point
        node = next(each for each in self.relations if each.name == name)
        ends = (*node.inputs, node)
        return {
            (axis, (ends[e.slot].name, e.dimension, e.front * within)) for e in self.relations[node].factor_dims[factor]
        }

    def neighbours(self, cut: Cut, closed: set) -> set[Cut]:
        """The cuts that one cut leads to."""
        return {
            each for point in self.points(cut) if (cut[0], point) not in closed for each in self.along(cut[0], point)
        }

    def reach(self, blocked: set[Cut], closed: set, order: random.Random) -> set[Cut]:
        """All that the seeds lead to, in any order."""
        found, pending = set(self.seeds), [seed for seed in self.seeds if seed not in blocked]
        while pending:
            cut = pending.pop(order.randrange(len(pending)))
            for each in self.neighbours(cut, closed) - found - blocked:
                found.add(each)
                pending.append(each)
        return found

    def unsupported(self, cuts: set[Cut]) -> set[Cut]:
        """Cuts behind parts that nothing splits."""
        found = set()
        for axis, (name, place, major) in cuts - self.seeds:
            majors = {cut[1][2] for cut in cuts if cut[1][:2] == (name, place)}
            if not all(each in majors for each in (1, 2, 4, 8) if each < major):
                found.add((axis, (name, place, major)))
        return found

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


def cuts_of(found: Propagation, names: set[str]) -> set[Cut]:
    """The answer as cuts."""
    cuts = set()
    for node, specs in found.specs:
        if node.name in names and node.graph is found.module.entry:
            for place, axes in enumerate(specs[0].dims):
                major = 1
                for axis in axes:
                    cuts.add((axis, (node.name, place, major)))
                    major *= 2
    return cuts


@pytest.mark.parametrize("seed", range(150))
def test_the_answer_is_what_the_documentation_says(seed: int):
    program = random_program(seed, 6)
    seeds = random_seeds(program, seed)
    module = parse(program.text)
    slow = Slow(module, seeds)
    found = cuts_of(propagate(module, seeds, MESH), set(program.dims))
    for order in range(3):
        expected = {cut for cut in slow.answer(random.Random(order)) if cut[1][0] in program.dims}
        assert found == expected, program.text


@pytest.mark.parametrize("seed", range(150))
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
                more = {each for cut in grown for each in slow.neighbours(cut, closed)} & cuts - wrong
                if more <= grown:
                    break
                grown |= more
            if set(chosen) <= grown and not slow.unsupported(cuts):
                largest |= cuts
    found = cuts_of(propagate(module, seeds, MESH), {name for _, (name, _, _) in everything} | set(program.dims))
    assert largest <= found | {cut for cut in largest if cut[1][0] == "zero"}
    if len(slow.reach(set(), set(), order) - slow.seeds) <= 12:
        assert found == largest


def test_the_random_programs_meet_everything():
    """Conflicts, partial sums, parts behind others, places left out for want of them, exchanges."""
    met = {"conflicts": 0, "partials": 0, "alone": 0, "collectives": 0, "behind": 0, "both": 0}
    for seed in range(150):
        program = random_program(seed, 6)
        found = propagate(parse(program.text), random_seeds(program, seed), MESH)
        for name in ("conflicts", "partials", "alone", "collectives"):
            met[name] += bool(getattr(found, name))
        cuts = cuts_of(found, set(program.dims))
        met["behind"] += any(major > 1 for _, (_, _, major) in cuts)
        met["both"] += len({axis for axis, _ in cuts}) > 1
    assert min(met.values()) > 3, met


@pytest.mark.parametrize("seed", range(60))
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


@pytest.mark.parametrize("seed", range(150))
def test_the_parts_compute_the_whole(seed: int):
    """Each device runs each instruction on its parts; partial results are added; what is gathered is listed."""
    program = random_program(seed, 6)
    found = propagate(parse(program.text), random_seeds(program, seed), MESH)
    values = program.values(seed)
    dataflow = found._dataflow
    for number, equation in enumerate(dataflow.equations):
        if equation.node.name in program.computes:
            _check_instruction(found, number, program, values)


def _check_instruction(found: Propagation, number: int, program: Program, values: dict[str, np.ndarray]) -> None:
    dataflow = found._dataflow
    equation = dataflow.equations[number]
    rule, name = equation.rule, equation.node.name
    names = [dataflow.leaves[leaf].node.name for leaf in equation.leaves]
    split: dict[int, list[tuple[int, str]]] = {}
    for sharding in found._shardings:
        held: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for slot, leaf in enumerate(equation.leaves):
            for owner, place, major in sharding.reached:
                at = rule.factor_at(slot, place, major) if owner == leaf else None
                if at and rule.propagates_from(slot, place, *at, sharding.size) and (number, *at) not in sharding.blocked_factors:
                    held.setdefault(at, set()).add((slot, place))
        for (factor, within), places in held.items():
            if runs_split(rule, factor, places):
                split.setdefault(factor, []).append((within, sharding.axis))
    runs = [
        [sorted((front * within, axis) for factor, front in side.factors for within, axis in split.get(factor, ()))
         for side in dim_factors]
        for dim_factors in rule.dim_factors
    ]  # fmt: skip
    sums = [axis for factor, each in split.items() if rule.leaves_partial_sums(factor) for _, axis in each]
    assert sorted(sums) == sorted(a for p in found.partials if p.node is equation.node for a in p.axes)
    _check_operands(found, equation, names, runs)
    count = len(program.operands[name])
    for x, y in itertools.product(range(2), repeat=2):
        here = {"x": x, "y": y}
        whole = cut(values[name], runs[-1], here)
        total = np.zeros_like(whole)
        for each in itertools.product(range(2), repeat=len(sums)):
            there = here | dict(zip(sums, each, strict=True))
            parts = [cut(values[names[slot]], runs[slot], there) for slot in range(count)]
            total = total + program.computes[name](parts, whole.shape)
        np.testing.assert_array_equal(total, whole)


def _check_operands(found: Propagation, equation, names: list[str], runs: list) -> None:
    """An operand that is split where the instruction is not must be exchanged; so a collective says it is."""
    for slot in range(equation.rule.results):
        leaf = equation.leaves[slot]
        spec = found._split.get(leaf)
        for place, axes in enumerate(spec.dims if spec else ()):
            used = {axis for _, axis in runs[slot][place]}
            for axis in set(axes) - used:
                if not found._dataflow.is_free(leaf, place):
                    assert any(each.value == names[slot] and each.axes == (axis,) for each in found.collectives)


def cut(value: np.ndarray, runs: list[list[tuple[int, str]]], here: dict[str, int]) -> np.ndarray:
    """The part of an array that a device holds."""
    for place, each in enumerate(runs):
        for _, axis in each:
            length = value.shape[place] // 2
            value = np.take(value, range(here[axis] * length, (here[axis] + 1) * length), place)
    return value


FEW = [seed for seed in range(160) if sum(map(len, random_program(seed, 3).dims.values())) <= 12]
"""Programs with so few places that all sets of them can be tried."""


@pytest.mark.parametrize("seed", FEW)
def test_all_complete_tilings_are_listed(seed: int):
    """Of all sets of places, those that are closed under the axis maps and free of contradictions, the largest."""
    program = random_program(seed, 3)
    module = parse(program.text)
    slow = Slow(module, [])
    places = [each for each in slow.universe if each[2] == 1 and each[:2] not in slow.free and each[0] in program.dims]
    closed = []
    for count in range(len(places) + 1):
        for chosen in itertools.combinations(places, count):
            cuts = {("x", place) for place in chosen}
            reached = {e for cut in cuts for e in slow.neighbours(cut, set()) if e[1][:2] not in slow.free}
            wrong, bad = slow.contested(cuts, set())
            if reached <= cuts and not wrong and not _real(slow, bad):
                closed.append(frozenset(cuts))
    largest = {each for each in closed if not any(each < other for other in closed)}
    found = enumerate_tilings(module, "x", 2)
    listed = {
        frozenset(each for each in cuts_of(propagate(module, tiling.seeds, found.mesh), set(program.dims))
                  if each[1][:2] not in slow.free)
        for tiling in found.tilings
    }  # fmt: skip
    assert listed == largest, program.text
    assert len(found.tilings) == len(largest)


def _real(slow: Slow, closed: set) -> bool:
    """Whether of an instruction's factors that contradict each other two are of dimensions that come from somewhere."""
    real = {p for _, p in closed if not all(cut[1][:2] in slow.free for cut in slow.along("x", p))}
    return any(sum(1 for point in real if point[0] == name) > 1 for name, _, _ in real)
