"""What HPGO, the planner of DAPPLE, computes from a profile (github.com/LER0ever/HPGO, src/layerwise, at 06deb796).

Its formulas, faults included, so that its published figures can be compared with ours; each fault is named where it is.
Device numbers are 0 to 15; `machines` are the first devices behind each machine: [8, 16] is two machines of 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hloom.distribute.pipeline.profile import Profile

GIGABYTE = 1e9
ETHERNET_PAIR, ETHERNET_RING, NVLINK = 1 * GIGABYTE, 3 * GIGABYTE, 25 * GIGABYTE
MEMORY = 16 * GIGABYTE


@dataclass
class Model:
    """PipeDream's states of a profile (its antichains) with what is before each, scaled to a global batch."""

    profile: Profile
    profile_batch: int
    batch: int
    microbatch: int = 1
    optimizer_scale: int = 1
    activation_per_example: float | None = None

    @cached_property
    def states(self) -> list[tuple[float, float, float, float]]:
        """Seconds, activations and parameters up to each state, and what leaves it."""
        antichains = Antichains(self.profile)
        scale = self.batch / self.profile_batch
        states = []
        for antichain in antichains.ordered():
            nodes = [self.profile.nodes[number] for number in antichains.before(antichain)]
            leaving = sum(self.profile.nodes[number].activation_bytes for number in antichains.augmented(antichain))
            seconds = sum(node.forward_milliseconds + node.backward_milliseconds for node in nodes) / 1000
            activations = sum(node.activation_bytes for node in nodes)
            parameters = sum(node.parameter_bytes for node in nodes)
            states.append((seconds * scale, activations * scale, parameters, leaving * scale))
        return states

    def between(self, field: int, first: int, last: int) -> float:
        """Seconds (0), activations (1) or parameters (2) of the states first to last, both included."""
        return self.states[last][field] - (self.states[first - 1][field] if first else 0.0)

    @property
    def seconds(self) -> float:
        return self.states[-1][0]

    @property
    def parameters(self) -> float:
        return self.states[-1][2]


class Antichains:
    """Sets of nodes with all before them done, as PipeDream steps from one to the next (graph.py, antichain_dag)."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        count = len(profile.nodes)
        self.producers: list[list[int]] = [[] for _ in range(count)]
        self.consumers: list[list[int]] = [[] for _ in range(count)]
        for producer, consumer in profile.edges:
            self.producers[consumer].append(producer)
            self.consumers[producer].append(consumer)
        self.alive = set(range(count))
        for number in range(count):
            if not self.producers[number] and profile.nodes[number].description.startswith("Input"):
                self.alive.discard(number)
        for lists in (self.producers, self.consumers):
            lists[:] = [[other for other in lists[number] if other in self.alive] for number in range(count)]
        self.ancestors = self._closure(self.producers)
        self.descendants = self._closure(self.consumers)

    def _closure(self, neighbours: list[list[int]]) -> dict[int, set[int]]:
        closure: dict[int, set[int]] = {number: set() for number in self.alive}
        changed = True
        while changed:
            changed = False
            for number in self.alive:
                reached = set(neighbours[number]).union(*(closure[other] for other in neighbours[number]))
                changed |= reached != closure[number]
                closure[number] = reached
        return closure

    def augmented(self, antichain: tuple[int, ...]) -> list[int]:
        """The antichain and the nodes before it that something behind it still reads."""
        before = set().union(*(self.ancestors[number] for number in antichain))
        still_read: set[int] = set()
        for number in antichain:
            inside = self.ancestors[number]
            for ancestor in before if len(antichain) == 1 else inside:
                if any(consumer not in inside and consumer != number for consumer in self.consumers[ancestor]):
                    still_read.add(ancestor)
        return [*sorted(still_read), *antichain]

    def before(self, antichain: tuple[int, ...]) -> set[int]:
        """All nodes up to the antichain, itself included."""
        augmented = self.augmented(antichain)
        return set(augmented).union(*(self.ancestors[number] for number in augmented))

    def following(self, antichain: tuple[int, ...]) -> list[tuple[int, ...]]:
        augmented = self.augmented(antichain)
        following = []
        for number in augmented:
            for consumer in self.consumers[number]:
                if consumer in antichain or self.descendants[consumer].intersection(augmented):
                    continue
                replaced = [consumer if other == number else other for other in augmented]
                kept: list[int] = []
                for other in replaced:
                    if not self.descendants[other].intersection(replaced) and other not in kept:
                        kept.append(other)
                following.append(tuple(kept))
        return following

    def ordered(self) -> list[tuple[int, ...]]:
        """All antichains from the first source on, in PipeDream's topological order: depth first, by description."""
        first = next(number for number in sorted(self.alive) if not self.producers[number])
        start: tuple[int, ...] = (first,)
        names: dict[tuple[int, ...], tuple[int, ...]] = {start: start}
        edges: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        queue: list[tuple[int, ...]] = [start]
        for antichain in queue:
            key = tuple(sorted(antichain))
            if key in edges:
                continue
            edges[key] = []
            for following in self.following(antichain):
                edges[key].append(tuple(sorted(following)))
                names.setdefault(edges[key][-1], following)
                queue.append(following)

        def description(key: tuple[int, ...]) -> str:
            return self.profile.nodes[names[key][0]].description

        done: list[tuple[int, ...]] = []
        marked: set[tuple[int, ...]] = set()
        for root in sorted(names, key=description):
            if root in marked:
                continue
            stack = [(root, iter(sorted(edges[root], key=description)))]
            marked.add(root)
            while stack:
                key, rest = stack[-1]
                following = next((other for other in rest if other not in marked), None)
                if following is None:
                    done.append(key)
                    stack.pop()
                else:
                    marked.add(following)
                    stack.append((following, iter(sorted(edges[following], key=description))))
        return [names[key] for key in reversed(done)]


def machine_of(device: int, machines: list[int]) -> int:
    return next(number for number, end in enumerate(machines) if device < end)


def crosses(devices: set[int], machines: list[int]) -> bool:
    return len({machine_of(device, machines) for device in devices}) > 1


def all_reduce_seconds(devices: set[int], data_bytes: float, machines: list[int]) -> float:
    count = len(devices)
    if count == 1:
        return 0.0
    sent = data_bytes * 2 * (count - 1) / count
    return sent / ETHERNET_RING if crosses(devices, machines) else sent / NVLINK / (count // 2)


def transfer_seconds(sources: set[int], targets: set[int], data_bytes: float, machines: list[int]) -> float:
    if crosses(targets, machines):
        return data_bytes / (ETHERNET_RING if crosses(sources | targets, machines) else NVLINK)
    outside = [device for device in sources if crosses({device, *targets}, machines)]
    return data_bytes / len(sources) * len(outside) / ETHERNET_PAIR if outside else data_bytes / NVLINK


def max_batch(model: Model) -> int:
    """The largest batch of one device; its constant is the memory of a V100."""
    example = model.activation_per_example
    if example is None:
        example = model.states[-1][1] / model.batch
    return int((MEMORY - model.parameters * model.optimizer_scale) / example)


def accumulation_batches(model: Model, devices: int) -> tuple[int, int]:
    """What a device runs at once when it accumulates gradients: an equal part of its share, and as much as fits."""
    most, share = max_batch(model), model.batch // devices
    if most >= share:
        return share, share
    steps = -(-share // most)
    while steps < share // 2 + 1 and share % steps:
        steps += 1
    return share // steps, share // 2 if most * 2 >= share else most


def data_parallel_speedup(model: Model, devices: int, machines: list[int]) -> float:
    exchange = all_reduce_seconds(set(range(devices)), model.parameters, machines)
    return model.seconds / (model.seconds / devices + exchange)


def p3_speedup(model: Model, devices: int, machines: list[int]) -> float:
    """Data parallelism whose exchange of gradients overlaps with the backward, and with the next step's forward.

    Both are those of what a device runs at once when it accumulates gradients (dp_cur_ga_p3_speedup). Its fault: the
    forward's times are looked up in the order of the layers where the exchanges stand in the backward's.
    """
    count = len(model.states)
    part = accumulation_batches(model, devices)[0] / model.batch
    layers = [(part * model.between(0, i, i), model.between(2, i, i)) for i in range(count)]
    exchange = [all_reduce_seconds(set(range(devices)), layers[i][1], machines) for i in reversed(range(count))]
    backward = [layers[i][0] / 2 for i in reversed(range(count))]
    forward = [seconds / 2 for seconds, _ in layers]
    late, spare = exchange[-1], 0.0
    for i in reversed(range(count - 1)):
        slack = backward[i + 1] + forward[i + 1] - exchange[i]
        if slack >= 0 or -slack < spare:
            spare += slack
        else:
            late, spare = late - slack - spare, 0.0
    return model.seconds / (model.seconds / devices + late)


@dataclass
class TwoStages:
    """A plan of two stages: the first layer of the second, the devices of both, and an estimate of the speed-up.

    The devices are so many replicas of a pipeline, each with microbatches of its own.
    """

    cut: int
    first: set[int]
    second: set[int]
    replicas: int = 1
    speedup: float = 0.0

    def stages(self, model: Model, ends: int) -> list[tuple[int, int, set[int]]]:
        """First and last layer of each stage, and its devices.

        The fault of `ends`: the last layer of the first stage is said to be the first of the second (1, where it should
        be 0), so that both stages all-reduce that layer's parameters (analyse_plan_sync, compute_bipartition).
        """
        return [(0, self.cut - 1 + ends, self.first), (self.cut, len(model.states) - 1, self.second)]

    def microbatches(self, model: Model) -> int:
        return model.batch // self.replicas // model.microbatch


def best_of_two_stages(model: Model, devices: int, machines: list[int], *, ends: int = 1) -> TwoStages:
    """All cuts and splits of the devices (orchestrate_async.rs, compute_bipartition), and half of them to each stage."""
    plans = [half_and_half(model, devices, machines)]
    plans += [
        TwoStages(cut, first, set(range(devices)) - first)
        for cut in range(1, len(model.states))
        for width in range(1, devices)
        for first in first_stages(width, devices, machines)
    ]
    for plan in plans:
        plan.speedup = analytical_speedup(model, plan, machines, ends)
    return max(plans, key=lambda plan: plan.speedup)


def half_and_half(model: Model, devices: int, machines: list[int]) -> TwoStages:
    """The cut whose slowest stage or transfer is fastest, for a pipeline of two devices in replicas (plan_for)."""
    half = devices // 2
    plans = [
        TwoStages(cut, set(range(half)), set(range(half, devices)), half) for cut in range(1, len(model.states))
    ]
    return min(plans, key=lambda plan: slowest_seconds(model, plan, machines))


def first_stages(width: int, devices: int, machines: list[int]) -> list[set[int]]:
    """The devices of the first stage: machines filled one after the other, or one device of each in turn."""
    starts = [0, *machines[:-1]]
    in_turn = [start + step for step in range(devices) for start, end in zip(starts, machines, strict=True) if start + step < end]
    filled, scattered = set(range(width)), set(in_turn[:width])
    return [filled] if filled == scattered else [filled, scattered]


def slowest_seconds(model: Model, plan: TwoStages, machines: list[int]) -> float:
    """The slowest stage or transfer, of the whole batch; transfers count twice only where there are replicas."""
    crossing = model.states[plan.cut - 1][3] * (2 if plan.replicas > 1 else 1)
    return max(
        *(model.between(0, begin, end) / len(stage) for begin, end, stage in plan.stages(model, ends=0)),
        transfer_seconds(plan.first, plan.second, crossing, machines),
    )


def analytical_speedup(model: Model, plan: TwoStages, machines: list[int], ends: int = 1) -> float:
    """The speed-up by a closed formula (sync_pipeline.rs, sync_pipeline_speedup_analytical)."""
    microbatches = plan.microbatches(model)
    if not microbatches:
        return 0.0
    block = slowest_seconds(model, plan, machines) / microbatches
    length = block * (microbatches - 1) + model.seconds / plan.replicas / microbatches
    crossing = model.states[plan.cut - 1][3] / plan.replicas / microbatches
    length += transfer_seconds(plan.first, plan.second, crossing, machines)
    exchange = [
        all_reduce_seconds(devices, model.between(2, begin, end), machines) - number * block
        for number, (begin, end, devices) in enumerate(plan.stages(model, ends))
    ]
    return model.seconds / (length + max(0.0, *exchange))


def recursive_speedup(model: Model, plan: TwoStages, machines: list[int], *, ends: int = 1) -> float:
    """The speed-up by running all forwards and backwards one after the other (sync_pipeline_speedup_recursive).

    Transfers are stages of their own, with as many microbatches in flight. It has the fault of the ends too, and moves
    all replicas' microbatches at once.
    """
    microbatches, stages = plan.microbatches(model), plan.stages(model, ends)
    computing = [model.between(0, begin, end) / len(devices) / microbatches / 2 for begin, end, devices in stages]
    crossing = model.states[plan.cut - 1][3] / microbatches
    moving = transfer_seconds(plan.first, plan.second, crossing, machines)
    durations = [computing[0], moving, computing[1]]
    count = len(durations)
    ends_of: dict[tuple[str, int, int], float] = {}
    stack = [("B", microbatches - 1, x) for x in range(count)]
    while stack:
        direction, i, x = stack[-1]
        if direction == "F":
            needed = [("F", i - 1, x), ("F", i, x - 1), ("B", i - count + x, x)] if i else [("F", 0, x - 1)]
        else:
            needed = [("B", i, x + 1), ("F", i + count - x - 1, x)]
        needed = [(d, j, y) for d, j, y in needed if 0 <= j < microbatches and 0 <= y < count]
        missing = [key for key in needed if key not in ends_of]
        if missing:
            stack += missing
            continue
        stack.pop()
        ends_of[direction, i, x] = max((ends_of[key] for key in needed), default=0.0) + durations[x]
    length = 0.0
    for x in range(count):
        end = ends_of["B", microbatches - 1, x]
        if x % 2 == 0:
            begin, stage_end, devices = stages[x // 2]
            end += all_reduce_seconds(devices, model.between(2, begin, stage_end), machines)
        length = max(length, end)
    return model.seconds / length
