"""The memory of a module's run: with its own schedule, or one computed by hloom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import chain

from hloom.analysis import (
    GPU,
    MALFORMED,
    TARGET,
    Device,
    Donations,
    Liveness,
    MemoryReport,
    device,
    liveness,
    liveness_by_space,
    memory_model,
    memory_report,
    model_of_target,
)
from hloom.analysis import SCHEDULES as ORDERS
from hloom.ir import Module, ModuleLike, Node, TensorType, Trait, as_module, verify
from hloom.ops import with_trait
from hloom.passes import SIMPLIFY_BEFORE_DOTS, apply_in_place
from hloom.targets.compiler import GPUS, RATES, parse_target
from hloom.targets.cpu import simulate_buffers
from hloom.targets.gpu import simulate_buffers as simulate_gpu_buffers
from hloom.text import HloomError

OWN = "own"
"""The schedule of a module that XLA has scheduled."""
COMPILED = "cpu"
"""The schedule of a module as XLA's CPU compiler would compile it."""
FOR_GPU = "gpu"
"""The schedule of a module as XLA's GPU compiler would compile it."""
SCHEDULES = (COMPILED, FOR_GPU, *ORDERS)
DEFAULT_GPU = "h100"
"""The GPU of a module that is for one and does not say which."""
SAME_VALUE = with_trait(Trait.KEEPS_ORDER) | {"convert", "copy", "get-tuple-element", "transpose"}
"""Steps of the compiler's own that hold the value of their operand."""
UNKNOWN_OF_TPU = (
    "before optimisation a TPU's memory is not known: its compiler decides which values stand in VMEM, "
    "how they are tiled and what is fused"
)
SIMPLIFICATIONS = ("inline", SIMPLIFY_BEFORE_DOTS)
MOST_COMPILED = 200_000
"""Modules of more instructions get the list schedule unless asked for: to compile them takes minutes."""


def memory(module: ModuleLike, *, schedule: str | None = None, target: str | None = None) -> MemoryReport:
    """Work out how much memory a run of a module takes.

    A scheduled module (`is_scheduled=true`) runs in its own order, and the report is nearly XLA's own figure. Any other
    is compiled by a model of XLA's CPU compiler, "cpu", or of its GPU compiler, "gpu" (docs/accuracy.md says how
    nearly); or its instructions run in the order asked for, "list" or "text", which says less of XLA and is quicker. A
    fragment, which lacks what it refers to, and a module of more than MOST_COMPILED instructions, run in the order
    "list". The report says which it was.

    `target` is what the module is for, as `hloom compile` names it: "h100x8", "v6e:2x2", "cpu". Without it, the module
    is for what it was compiled for, or what its text says.
    Raises ValueError for another name of a schedule, and HloomError for another target or a malformed module.
    """
    module = as_module(module)
    if target is not None:
        module = module.clone()
        module.attachments[TARGET] = parse_target(target).name
    if schedule is not None and schedule not in SCHEDULES:
        raise ValueError(f"no schedule is called '{schedule}': they are {', '.join(SCHEDULES)}")
    with _malformed_is_said(module):
        chosen = schedule or (_compiled_schedule(module) if _is_compiled(module) else None)
        if chosen in (COMPILED, FOR_GPU):
            report = _compiled_report(module, chosen, _simulator(module, chosen))
            return report if chosen == FOR_GPU else replace(report, note=_unknown(module))
        name = schedule or (OWN if module.is_scheduled else "list")
        live, *others = liveness_by_space(module, schedule).values()
        report = memory_report(module, name, live, lambda given: liveness(module, schedule, given), elsewhere=others)
        return report if module.is_scheduled else replace(report, note=_unknown(module))


def peak_of(module: ModuleLike) -> int:
    """The peak of `memory(module)`, in bytes: without what is in memory then, which takes most of the time."""
    module = as_module(module)
    with _malformed_is_said(module):
        if not _is_compiled(module):
            return next(iter(liveness_by_space(module, None).values())).peak
        program = module.clone()
        apply_in_place(program, SIMPLIFICATIONS)
        return _simulator(module, _compiled_schedule(module))(program).peak


def _compiled_schedule(module: Module) -> str:
    """The compiler whose model is asked."""
    return FOR_GPU if memory_model(module) is GPU else COMPILED


def _simulator(module: Module, schedule: str) -> Callable[..., Liveness]:
    """The model of a compiler, which takes a module and inputs given away."""
    if schedule == FOR_GPU:
        return partial(simulate_gpu_buffers, device=_gpu(module))
    return partial(simulate_buffers, keeps_barriers=False)


@contextmanager
def _malformed_is_said(module: Module) -> Iterator[None]:
    """Raise HloomError for a module that cannot be followed."""
    try:
        yield
    except MALFORMED as problem:
        verify(module)  # says what is wrong, and where
        raise HloomError(f"{module.name} cannot be followed: {problem}") from problem


def _unknown(module: Module) -> str:
    """What the memory of a module before optimisation cannot tell of its target."""
    target = module.attachments.get(TARGET)
    models = [memory_model(module), *([] if target is None else [model_of_target(target)])]
    return UNKNOWN_OF_TPU if any(model.is_tpu for model in models) else ""


def _is_compiled(module: Module) -> bool:
    if module.is_scheduled or module.has_closures or module.unresolved:
        return False
    return module.node_count <= MOST_COMPILED


def _gpu(module: Module) -> Device:
    """The GPU that a module is for."""
    chip = parse_target(module.attachments.get(TARGET) or DEFAULT_GPU).chip
    return device(RATES[chip if chip in GPUS else DEFAULT_GPU])


def _compiled_report(module: Module, schedule: str, simulate: Callable[..., Liveness]) -> MemoryReport:
    program = module.clone()
    origins = _Origins(module, program)
    apply_in_place(program, SIMPLIFICATIONS)

    def compiled(given: Donations | None = None) -> tuple[Liveness, Callable[[Node], Node | None]]:
        model = program.clone()
        pairs = [pair for graph, copy in zip(program.graphs, model.graphs, strict=True)
                 for pair in zip(copy.nodes, graph.nodes, strict=True)]  # fmt: skip
        copies = dict(pairs)
        origin = cache(lambda node: origins.of(node, copies))  # asked again for each buffer that a step serves
        return simulate(model, given=given), origin

    live, origin = compiled()
    return memory_report(module, schedule, live, lambda given: compiled(given)[0], origin)


class _Origins:
    """Which instruction of the user's module a step of the compiled program stands for.

    The compiled program numbers what it inlines and simplifies anew, so its names mean other instructions in the file.
    """

    def __init__(self, module: Module, copy: Module) -> None:
        self._kept: dict[Node, Node] = {}
        self._by_likeness: dict[tuple[object, ...], dict[str, list[Node]]] = {}
        self._by_origin: dict[tuple[object, ...], dict[str, list[Node]]] = {}
        for graph, copied in zip(module.graphs, copy.graphs, strict=True):
            self._kept.update(zip(copied.nodes, graph.nodes, strict=True))
            for node in graph.nodes:
                stem = _stem(node)
                self._by_likeness.setdefault(_likeness(node), {}).setdefault(stem, []).append(node)
                self._by_origin.setdefault(_form_of_any_rank(node), {}).setdefault(stem, []).append(node)

    def of(self, node: Node, copies: Mapping[Node, Node]) -> Node | None:
        """The user's instruction; None for a step of the compiler's own, and where several are equally like it."""
        passed = 0
        while node not in copies and node.opcode in SAME_VALUE and passed <= len(copies):
            node, passed = node.operands[0], passed + 1
        made = copies.get(node)
        if made is None:
            return None
        if made in self._kept:
            return self._kept[made]
        candidates = self._by_likeness.get(_likeness(made), {})
        if not candidates and made.raw_metadata is not None:  # simplified to fewer dimensions
            candidates = self._by_origin.get(_form_of_any_rank(made), {})
        named = candidates.get(_stem(made)) or list(chain.from_iterable(candidates.values()))
        return named[0] if len(named) == 1 or (named and made.raw_metadata is not None) else None


def _likeness(node: Node) -> tuple[object, ...]:
    """What an instruction keeps where it is inlined."""
    return node.opcode, node.type, node.raw_metadata


def _form_of_any_rank(node: Node) -> tuple[object, ...]:
    """What an instruction keeps where dimensions of size 1 are left out, or its result is transposed."""
    dims = node.type.dims if isinstance(node.type, TensorType) else None
    sizes = None if dims is None else tuple(sorted(size for size in dims if size != 1))
    return node.opcode, sizes, node.type.dtype if isinstance(node.type, TensorType) else None, node.raw_metadata


def _stem(node: Node) -> str:
    stem, _, number = node.name.rpartition(".")
    return stem if stem and number.isdecimal() else node.name
