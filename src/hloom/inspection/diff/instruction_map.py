"""Matches the instructions of one module with those of another.

As in GumTree (Falleri et al., Fine-grained and accurate source code differencing, ASE 2014), of which XLA's hlo_diff is
a form (xla/hlo/tools/hlo_diff/hlo_gumgraph_diff.cc, FindMappings): equal expressions first, then what their neighbours
determine, then what is similar among the rest. Fingerprints of operands begin at instructions that are matched already,
and so name a value; fingerprints of users do the same from the results down. All steps are linear but the search for
similar instructions, which looks at few neighbours of matched ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hloom.inspection.diff.alignment import align
from hloom.inspection.diff.duplicates import first_of_equals
from hloom.inspection.diff.insertions import Side, better_pairs
from hloom.inspection.diff.labels import Exactness, Labels
from hloom.inspection.diff.similarity import similar_pairs
from hloom.inspection.diff.value_graph import Edges, ValueGraph

UNMATCHED = -1
MOST_ROUNDS = 4
"""The maximum number of times the steps of one level are repeated while they find more."""
MOST_USERS = 256
"""Instructions of more users say nothing of any one of them."""
RADII = (3, 1)
"""How far the neighbourhoods reach that are compared where whole expressions differ."""


class InstructionMap:
    """Pairs of instructions of two modules, found step by step; `forward` and `backward` hold the other's number.

    `_context` holds for matched instructions a number that both of a pair have, for others 0.
    """

    def __init__(self, left: ValueGraph, right: ValueGraph) -> None:
        self.graphs = left, right
        self.forward: list[int] = [UNMATCHED] * len(left.nodes)
        self.backward: list[int] = [UNMATCHED] * len(right.nodes)
        self._context = [0] * len(left.nodes), [0] * len(right.nodes)
        self._labels = Labels()
        self._hints = self._labels.hints(left), self._labels.hints(right)
        labels = self._labels.of(left), self._labels.of(right)
        self._by_level = {level: (labels[0][level], labels[1][level]) for level in Exactness}
        self._fresh: list[tuple[int, int]] = []
        self._edges = left.values(), right.values()
        self._label = self._by_level[Exactness.EXACT]

    def find(self) -> None:
        """Match all that can be: first what computes values, then what passes them on."""
        self._match_entries()
        self._align_results()
        self._match_equal_expressions()
        self._match_edges()
        if not self._is_complete():
            self._edges = self.graphs[0].instructions(), self.graphs[1].instructions()
            self._match_edges()
            self._match_hints()
        if UNMATCHED in self.forward or UNMATCHED in self.backward:
            values = self.graphs[0].values(), self.graphs[1].values()
            self._settle_insertions(values)
            self._settle_duplicates(values)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """The pairs, in the order of the left module."""
        return ((left, right) for left, right in enumerate(self.forward) if right != UNMATCHED)

    def _is_complete(self) -> bool:
        return UNMATCHED not in self.forward or UNMATCHED not in self.backward

    def _match(self, left: int, right: int) -> None:
        self.forward[left] = right
        self.backward[right] = left
        self._context[0][left] = self._context[1][right] = -left - 1
        self._fresh.append((left, right))

    def _match_entries(self) -> None:
        """Pair the parameters and the roots of the entries: by name where names are telling, else in order."""
        keys: list[list[tuple[int, int]]] = []
        numbers: list[list[int]] = []
        for side, graph in enumerate(self.graphs):
            entry = graph.module.entry
            own = [graph.number[parameter] for parameter in entry.parameters]
            numbers.append(own)
            labels = self._by_level[Exactness.TYPED][side]
            keys.append([(labels[number], self._hints[side][number]) for number in own])
        unique = [set(side) for side in keys]
        if all(len(names) == len(side) for names, side in zip(unique, keys, strict=True)):
            index_of = {key: index for index, key in enumerate(keys[1])}
            pairs = [(index, index_of[key]) for index, key in enumerate(keys[0]) if key in index_of]
        else:
            pairs = align(*keys)
        for left, right in pairs:
            self._match(numbers[0][left], numbers[1][right])
        rest = [[n for n in side if not self._has(s, n)] for s, side in enumerate(numbers)]
        types = [[self._by_level[Exactness.TYPED][s][n] for n in side] for s, side in enumerate(rest)]
        for left, right in align(*types):
            self._match(rest[0][left], rest[1][right])
        rest = [[n for n in side if not self._has(s, n)] for s, side in enumerate(numbers)]
        if len(numbers[0]) == len(numbers[1]):
            for left, right in zip(*rest, strict=True):
                self._match(left, right)
        roots = [graph.target[graph.number[graph.module.entry.root]] for graph in self.graphs]
        labels = self._by_level[Exactness.OPCODE]
        if labels[0][roots[0]] == labels[1][roots[1]] and not self._has(0, roots[0]) and not self._has(1, roots[1]):
            self._match(roots[0], roots[1])

    def _has(self, side: int, number: int) -> bool:
        return (self.forward, self.backward)[side][number] != UNMATCHED

    def _align_results(self) -> None:
        """Where one entry has more results than the other, number those by type and op_name that are of both."""
        roots = [graph.number[graph.module.entry.root] for graph in self.graphs]
        results = [edges.operands[root] for edges, root in zip(self._edges, roots, strict=True)]
        if len(results[0]) == len(results[1]) or self.forward[roots[0]] != roots[1]:
            return
        labels = self._by_level[Exactness.TYPED]
        keys = [[(labels[s][number], self._hints[s][number]) for number in own] for s, own in enumerate(results)]
        aligned = align(*keys)
        for side, root in enumerate(roots):
            numbers = {pair[side]: number for number, pair in enumerate(aligned)}
            other = (1 + side) * (1 << 32)
            for operand in set(results[side]):
                users = self._edges[side].users[operand]
                users[:] = [(user, numbers.get(i, other + i) if user == root else i) for user, i in users]

    def _match_equal_expressions(self) -> None:
        """Pair equal expressions of the parameters, then equal uses that lead to the root, of one op_name.

        Neither is carried on to neighbours: where a layer was put between two equal ones, the neighbour of a pair may
        be of another layer.
        """
        self._fresh.clear()
        hints = self._hints
        for prints_of in (self._operand_prints, self._user_prints):
            if self._is_complete():
                break
            prints = [{n: hash((key, hints[s][n])) for n, key in prints_of(s).items()} for s in (0, 1)]
            self._match_classes(*prints, unless_supported=True, propagates=False)
        self._fresh.clear()

    def _match_edges(self) -> None:
        for level in Exactness:
            self._label = self._by_level[level]
            self._refresh()
            for _ in range(MOST_ROUNDS):
                before = len(self.forward) - self.forward.count(UNMATCHED)
                if self._is_complete():
                    return
                self._match_round(level)
                if len(self.forward) - self.forward.count(UNMATCHED) == before:
                    break
        for _ in range(MOST_ROUNDS):
            matched = similar_pairs(self.graphs, self._edges, (self.forward, self.backward), self._hints)
            for left, right in matched:
                if not self._has(0, left) and not self._has(1, right):
                    self._match(left, right)
            if not matched:
                return
            for level in Exactness:
                self._label = self._by_level[level]
                self._refresh()

    def _match_round(self, level: Exactness) -> None:
        """Expressions of matched values, uses that lead to matched results, both together, and neighbourhoods."""
        is_exact = level is Exactness.EXACT
        up = self._operand_prints(0), self._operand_prints(1)
        self._match_classes(*up, unless_supported=is_exact)
        down = self._user_prints(0), self._user_prints(1)
        self._match_classes(*down, unless_supported=is_exact)
        up = self._operand_prints(0), self._operand_prints(1)
        down = self._user_prints(0), self._user_prints(1)
        both = [{n: hash((up[s][n], down[s][n])) for n in up[s]} for s in (0, 1)]
        self._match_classes(*self._hinted(both), unless_supported=is_exact, in_order=is_exact)
        self._match_classes(*both, unless_supported=is_exact, in_order=is_exact)
        for radius in RADII:
            near = [self._neighbourhoods(s, radius) for s in (0, 1)]
            self._match_classes(*near, unless_supported=False)
        near = [self._neighbourhoods(s, 1) for s in (0, 1)]
        self._match_classes(*self._hinted(near), unless_supported=False, in_order=is_exact)

    def _hinted(self, prints: Sequence[Mapping[int, int]]) -> list[dict[int, int]]:
        """Fingerprints together with op_names, of the instructions that have one."""
        return [
            {number: hash((key, hints[number])) for number, key in own.items() if hints[number]}
            for own, hints in zip(prints, self._hints, strict=True)
        ]

    def _unmatched(self, side: int) -> list[int]:
        partner = (self.forward, self.backward)[side]
        edges = self._edges[side]
        edges.order = [number for number in edges.order if partner[number] == UNMATCHED]
        return edges.order

    def _candidates(self, side: int) -> tuple[list[int], list[int]]:
        """The unmatched that something unmatched of the other side looks like, and their fingerprints so far.

        The fingerprint of an unmatched instruction, not a candidate, is its label: as no other module's instruction
        has it, nothing whose fingerprint is made of it has an equal.
        """
        labels = self._label
        prints = self._context[side].copy()
        order = self._unmatched(side)
        for number in order:
            prints[number] = labels[side][number]
        others = {labels[1 - side][number] for number in self._unmatched(1 - side)}
        return [number for number in order if labels[side][number] in others], prints

    def _operand_prints(self, side: int) -> dict[int, int]:
        """Fingerprints of the candidates: what they compute from matched values."""
        operands, labels = self._edges[side].operands, self._label[side]
        order, prints = self._candidates(side)
        for number in order:
            prints[number] = hash((labels[number], *[prints[operand] for operand in operands[number]]))
        return {number: prints[number] for number in order}

    def _user_prints(self, side: int) -> dict[int, int]:
        """Fingerprints of the candidates: for what of matched results they are used."""
        users, labels = self._edges[side].users, self._label[side]
        order, prints = self._candidates(side)
        for number in reversed(order):
            used = sum([hash((index, prints[user])) for user, index in users[number]])
            prints[number] = hash((labels[number], used))
        return {number: prints[number] for number in order}

    def _neighbourhoods(self, side: int, radius: int) -> dict[int, int]:
        """Fingerprints of the candidates with their operands and users, theirs, and so on."""
        edges, labels = self._edges[side], self._label[side]
        order, prints = self._candidates(side)
        for _ in range(radius):
            fresh: list[int] = []
            for number in order:
                users = edges.users[number]
                used = sum([hash((index, prints[user])) for user, index in users]) if len(users) <= MOST_USERS else 0
                fresh.append(hash((labels[number], *[prints[n] for n in edges.operands[number]], used)))
            for number, value in zip(order, fresh, strict=True):
                prints[number] = value
        return {number: prints[number] for number in order}

    def _match_classes(
        self,
        left_prints: Mapping[int, int],
        right_prints: Mapping[int, int],
        *,
        unless_supported: bool,
        in_order: bool = False,
        propagates: bool = True,
    ) -> None:
        """Pair instructions of equal fingerprints that only one has on either side, users before their operands.

        With `in_order`, also those that as many have on both sides. Unless `unless_supported`, a neighbour or the
        op_name must agree. With `propagates`, what neighbours a pair follows at once.
        """
        classes: dict[int, list[int]] = {}
        for number, key in right_prints.items():
            if self.backward[number] == UNMATCHED:
                classes.setdefault(key, []).append(number)
        ours: dict[int, list[int]] = {}
        for number, key in reversed(list(left_prints.items())):
            if key in classes and self.forward[number] == UNMATCHED:
                ours.setdefault(key, []).append(number)
        for key, members in ours.items():
            others = classes[key]
            if len(members) != len(others) or (len(members) > 1 and not in_order):
                continue
            for left, right in zip(reversed(members), others, strict=True):
                if self._has(0, left) or self._has(1, right):
                    continue
                if unless_supported or self._is_supported(left, right):
                    self._match(left, right)
                    if propagates:
                        self._propagate()

    def _is_supported(self, left: int, right: int) -> bool:
        hints = self._hints[0][left], self._hints[1][right]
        if hints[0] and hints[0] == hints[1]:
            return True
        operands = zip(self._edges[0].operands[left], self._edges[1].operands[right], strict=False)
        if any(self.forward[a] == b for a, b in operands):
            return True
        users = self._edges[0].users[left], self._edges[1].users[right]
        if max(map(len, users)) > MOST_USERS:
            return False
        theirs = set(users[1])
        return any((self.forward[user], index) in theirs for user, index in users[0])

    def _refresh(self) -> None:
        """Let pairs with unmatched neighbours be looked at again."""
        edges = self._edges[0]
        around: dict[int, None] = {}
        for number in self._candidates(0)[0]:
            around.update(dict.fromkeys(edges.operands[number]))
            around.update(dict.fromkeys(user for user, _ in edges.users[number]))
        self._fresh += [(left, self.forward[left]) for left in around if self.forward[left] != UNMATCHED]
        self._propagate()

    def _propagate(self) -> None:
        """Pair the operands of paired instructions, and the users that only one instruction can be."""
        while self._fresh:
            left, right = self._fresh.pop()
            self._pair_operands(left, right)
            self._pair_parameters(left, right)
            self._pair_users(left, right)

    def _pair_operands(self, left: int, right: int) -> None:
        ours, theirs = self._edges[0].operands[left], self._edges[1].operands[right]
        labels = self._label
        if len(ours) == len(theirs):
            pairs = list(zip(ours, theirs, strict=True))
        else:
            keys = [self._operand_key(0, n) for n in ours], [self._operand_key(1, n) for n in theirs]
            pairs = [(ours[i], theirs[j]) for i, j in align(*keys)]
        for one, other in pairs:
            if (
                self.forward[one] == UNMATCHED
                and self.backward[other] == UNMATCHED
                and labels[0][one] == labels[1][other]
            ):
                self._match(one, other)

    def _operand_key(self, side: int, number: int) -> tuple[int, ...]:
        """What operands of variadic instructions are aligned by: the pair that they are in, or what they are."""
        partner = self.forward[number] if side == 0 else number
        if self._has(side, number):
            return (-1, partner)
        return self._label[side][number], self._hints[side][number]

    def _pair_parameters(self, left: int, right: int) -> None:
        """Pair the parameters of computations that paired instructions call: loops, branches, reducers."""
        one, other = self.graphs[0].nodes[left], self.graphs[1].nodes[right]
        if not one.attributes.refers or not other.attributes.refers:
            return
        for ours, theirs in zip(one.called_graphs, other.called_graphs, strict=False):
            if len(ours.parameters) != len(theirs.parameters):
                continue
            for mine, its in zip(ours.parameters, theirs.parameters, strict=True):
                a, b = self.graphs[0].number[mine], self.graphs[1].number[its]
                is_free = self.forward[a] == UNMATCHED and self.backward[b] == UNMATCHED
                if is_free and self._label[0][a] == self._label[1][b]:
                    self._match(a, b)

    def _pair_users(self, left: int, right: int) -> None:
        users = self._edges[0].users[left], self._edges[1].users[right]
        if not users[0] or not users[1] or max(map(len, users)) > MOST_USERS:
            return
        waiting = self._waiting(0, users[0]), self._waiting(1, users[1])
        for key, one in waiting[0].items():
            other = waiting[1].get(key, UNMATCHED)
            if one != UNMATCHED and other != UNMATCHED:
                self._match(one, other)

    def _waiting(self, side: int, users: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """The unmatched users by label and operand index; UNMATCHED where several have both."""
        partner, labels = (self.forward, self.backward)[side], self._label[side]
        unique: dict[tuple[int, int], int] = {}
        for user, index in users:
            if partner[user] == UNMATCHED:
                key = labels[user], index
                unique[key] = UNMATCHED if key in unique else user
        return {key: user for key, user in unique.items() if user == UNMATCHED or partner[user] == UNMATCHED}

    def _match_hints(self) -> None:
        """Pair what has the same op_name, opcode and type, and nothing else has."""
        labels = self._by_level[Exactness.TYPED]
        keys = self._hinted([{number: labels[side][number] for number in self._unmatched(side)} for side in (0, 1)])
        self._match_classes(*keys, unless_supported=False)

    def _settle_insertions(self, edges: tuple[Edges, Edges]) -> None:
        """Match with the other of two equal stretches where that is better, then what follows from it."""
        moved: list[tuple[int, int]] = []
        for side in (0, 1):
            for pairs in better_pairs(*(self._side(s, edges[s]) for s in (side, 1 - side))):
                moved += [(one, instead) if side == 0 else (instead, one) for one, instead in pairs]
                self._move(pairs, side)
        if moved:
            self._edges = self.graphs[0].instructions(), self.graphs[1].instructions()
            for level in Exactness:
                self._label = self._by_level[level]
                self._refresh()

    def _settle_duplicates(self, edges: tuple[Edges, Edges]) -> None:
        """Match the first of equal instructions with what is left of them."""
        for side in (0, 1):
            if UNMATCHED in (self.forward, self.backward)[side]:
                kept, other = (self._side(s, edges[s]) for s in (side, 1 - side))
                for pair in first_of_equals(kept, other, self.graphs[side].own_graphs(), other.edges.order):
                    self._move([pair], side)

    def _side(self, side: int, edges: Edges) -> Side:
        graph = self.graphs[side]
        pinned = frozenset(graph.number[parameter] for parameter in graph.module.entry.parameters)
        partner = (self.forward, self.backward)[side]
        return Side(edges, self._by_level[Exactness.EXACT][side], self._hints[side], partner, pinned)

    def _move(self, pairs: Iterable[tuple[int, int]], side: int) -> None:
        """Match instructions of one side with others, and take all of them from the partners that they have."""
        for one, instead in pairs:
            pair = (one, instead) if side == 0 else (instead, one)
            for own, partners, others in ((0, self.forward, self.backward), (1, self.backward, self.forward)):
                partner = partners[pair[own]]
                if partner != UNMATCHED:
                    others[partner] = UNMATCHED
                    self._context[1 - own][partner] = 0
            self._match(*pair)


def match(left: ValueGraph, right: ValueGraph) -> InstructionMap:
    """Match the instructions of two modules."""
    matching = InstructionMap(left, right)
    matching.find()
    return matching
