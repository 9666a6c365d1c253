"""The pass `cluster`: groups instructions into kernels, by the estimated time of the kernels.

For each component of fusible instructions, `frontier_search.py` decides what is stored and `kernel_merger.py` which of
the resulting kernels are merged. Neither takes a step that increases the time of `kernel_model.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.analysis import MATHEMATICAL, ComputeTime, CostReport, Device, DisjointSets, as_device, cost
from hloom.ir import Graph, Module
from hloom.passes import register_pass, running_graphs, sort_topologically, until_settled
from hloom.passes.fusion.frontier_search import FrontierSearch, MaterializedValues, kernels_of
from hloom.passes.fusion.fusion_writer import LEAST_MEMBERS, FusionWriter
from hloom.passes.fusion.kernel_merger import KernelMerger
from hloom.passes.fusion.kernel_model import READ, Kernel, KernelCost, KernelModel
from hloom.passes.fusion.target import FusionTarget, fusion_target
from hloom.rewrite import Report
from hloom.text import HloomError, time_text


@dataclass(frozen=True, slots=True)
class Clustering:
    """The kernels of one computation, in the order of execution, and the seconds that they take without fusion."""

    model: KernelModel
    kernels: tuple[tuple[Kernel, KernelCost], ...]
    unfused: float
    is_exact: bool

    @property
    def seconds(self) -> float:
        """The time of all kernels; instructions outside kernels are not counted."""
        return sum(kernel_cost.seconds for _, kernel_cost in self.kernels)


@until_settled
def cluster(
    module: Module, target: Device | str = "cpu", least: int | str = LEAST_MEMBERS, horizontal: int | str = 1
) -> Report:
    """Fuse instructions for as long as that saves time on a device, given itself or by name.

    A fusion has at least `least` instructions, not counting reshapes and bitcasts; with 1 each kernel is a fusion, as
    in XLA's own CPU pipeline. With `horizontal=0`, kernels are only merged if that moves fewer bytes, and never to save
    a launch alone. Computations of loops, branches and calls are clustered too; existing fusions stay. Instructions
    with effects, control dependences, a sharding or a backend config are left out of kernels. Raises HloomError for an
    unknown device, for an invalid number, and for a module without an entry.
    """
    if not isinstance(least, int) or least < 1:
        raise HloomError(f"least is a number of instructions, not '{least}'", hint="as in -p 'cluster(least=1)'")
    if horizontal not in (0, 1):
        raise HloomError(f"horizontal is 0 or 1, not '{horizontal}'", hint="as in -p 'cluster(horizontal=0)'")
    on = as_device(target)
    report = Report("cluster")
    if module.has_closures:
        raise HloomError("cluster takes HLO: a graph uses values of another", hint="run closure conversion first")
    module.index_users()
    graphs = list(running_graphs(module))
    for graph in graphs:
        _sort(graph)
    costs = cost(module)
    before = after = 0.0
    exact = True
    for graph, times in runs_of(costs, graphs):
        clustering = clustered(graph, costs, fusion_target(on), horizontal=bool(horizontal))
        report.changes += FusionWriter(module, clustering.model, least).write(
            [kernel for kernel, _ in clustering.kernels]
        )
        before, after = before + clustering.unfused * times, after + clustering.seconds * times
        exact &= clustering.is_exact
    if report.changes:
        saved = f"{time_text(before)} without, {time_text(after)} with them"
        report.notes.append(
            f"{report.changes:,} fusions; what kernels may hold takes {saved} on {on.name} by the model"
        )
        report.notes.append("what is stored is " + ("the best choice" if exact else "the best of those looked at"))
    return report


def runs_of(costs: CostReport, graphs: Sequence[Graph]) -> list[tuple[Graph, int]]:
    """Computations with how often they run in a run of the module; those that never do are left out."""
    times: dict[Graph, int] = {}
    for graph, _, runs, _ in costs.contexts():
        times[graph] = times.get(graph, 0) + runs.bytes_accessed
    return [(graph, times[graph]) for graph in graphs if graph in times]


def clustered(graph: Graph, costs: CostReport, target: FusionTarget, *, horizontal: bool = True) -> Clustering:
    """The kernels of a computation that take least time, as far as is searched."""
    computing = ComputeTime(target.device, costs.analysis(MATHEMATICAL))
    model = KernelModel(graph, target, computing, costs.call_graph)
    search = FrontierSearch(model)
    alone = _alone(model)
    unfused = sum(kernel_cost.seconds for kernel_cost in alone.values())
    chosen: dict[int, tuple[Kernel, KernelCost]] = {}
    exact = True
    for component in _components(model):
        values = search.stored_values(component)
        kernels = _costed(model, values)
        exact &= values.is_exact
        singles = sum(alone[number].seconds for number in component if not model.is_leaf[number])
        if sum(kernel_cost.seconds for _, kernel_cost in kernels) > singles:
            kernels = [(Kernel((number,), (number,)), alone[number]) for number in component]
        chosen.update({kernel.roots[0]: (kernel, kernel_cost) for kernel, kernel_cost in kernels})
    for number, kernel_cost in alone.items():
        if model.is_leaf[number] and model.is_stored[number]:
            chosen.setdefault(number, (Kernel((number,), (number,)), kernel_cost))
    kernels = KernelMerger(model, [chosen[root] for root in sorted(chosen)], horizontal=horizontal).merge()
    return Clustering(model, tuple(kernels), unfused, exact)


def _sort(graph: Graph) -> None:
    """Put operands before their users, where a text does not."""
    seen = set()
    for node in graph.nodes:
        if any(
            operand.graph is graph and operand not in seen for operand in node.operands if operand.opcode != "missing"
        ):
            sort_topologically(graph)
            return
        seen.add(node)


def _alone(model: KernelModel) -> dict[int, KernelCost]:
    """The cost of each fusible instruction as a kernel by itself."""
    costs: dict[int, KernelCost] = {}
    for number, is_fusible in enumerate(model.is_fusible):
        if is_fusible:
            kernel_cost = model.cost(Kernel((number,), (number,)))
            assert kernel_cost is not None, "an instruction alone is a kernel"
            costs[number] = kernel_cost
    return costs


def _components(model: KernelModel) -> list[list[int]]:
    """Instructions that may be in one kernel, directly or not; leaves are in all components that read them."""
    fusible = DisjointSets[int]()
    leaves: dict[int, dict[int, None]] = {}
    for number, edges in enumerate(model.edges):
        for edge in edges:
            operand = edge.operand
            if edge.mode == READ or not model.is_fusible[operand]:
                continue
            if model.is_leaf[operand]:
                leaves.setdefault(number, {})[operand] = None
            else:
                fusible.join(number, operand)
    members: dict[int, set[int]] = {}
    for number, is_fusible in enumerate(model.is_fusible):
        if is_fusible and not model.is_leaf[number]:
            members.setdefault(fusible.root(number), set()).update((number, *leaves.get(number, ())))
    return [sorted(component) for component in members.values()]


def _costed(model: KernelModel, values: MaterializedValues) -> list[tuple[Kernel, KernelCost]]:
    """The kernels that follow from what is stored; those beyond a limit are split in two repeatedly."""
    kept = set(values.roots)
    pending = kernels_of(model, values)
    costed: list[tuple[Kernel, KernelCost]] = []
    while pending:
        kernel = pending.pop()
        kernel_cost = model.cost(kernel)
        if kernel_cost is not None:
            costed.append((kernel, kernel_cost))
            continue
        inner = [number for number in kernel.members if number not in kernel.roots and not model.is_leaf[number]]
        cut = inner[len(inner) // 2] if inner else kernel.members[0]
        kept.add(cut)
        values.computed.discard(cut)
        pending += [Kernel((root,), model.members(root, kept, values.computed)) for root in (kernel.roots[0], cut)]
    return costed


register_pass(
    "cluster", "kernels chosen by their time on a device, as fusions", cluster, ("target", "least", "horizontal")
)
