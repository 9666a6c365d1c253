"""The buffers that XLA's GPU compiler would assign to an uncompiled program.

The passes run in the order of `GpuCompiler::RunHloPasses` (xla/service/gpu/gpu_compiler.cc), as far as they affect what
is stored. Those that XLA's compilers share are taken from the model of its CPU compiler.
"""

from __future__ import annotations

from functools import partial

from hloom.analysis import GPU, Device, Donations, Liveness, is_control_flow, liveness
from hloom.ir import Graph, Module
from hloom.passes import ADD_UPDATES, SIMPLIFY_STRICTLY_BEFORE_DOTS, apply_in_place, dce, hoist, inline
from hloom.targets.cpu import (
    NOT_HOISTED,
    KernelScheduler,
    assign_layouts,
    clear_layouts,
    expand_select_and_scatter,
    flatten_call_graph,
    insert_copies,
    normalize_floats,
    simplify,
    simplify_gathers,
)
from hloom.targets.gpu.convolution_layout import convolution_layout
from hloom.targets.gpu.convolution_padding import pad_convolutions
from hloom.targets.gpu.dot_fusion import DotKernels, fuse_dots
from hloom.targets.gpu.float_support import is_supported, read_unrounded
from hloom.targets.gpu.kernel_order import order_kernels
from hloom.targets.gpu.priority_fusion import fuse_by_priority
from hloom.targets.gpu.sort_expander import expand_sorts
from hloom.targets.gpu.split_k import split_contractions


def simulate_buffers(module: Module, device: Device, given: Donations | None = None) -> Liveness:
    """The buffers of one GPU's program; `given` are donations in addition to its own. The module is changed: pass a
    copy.
    """
    inline(module)
    ADD_UPDATES.run(module)
    for graph in module.graphs:
        clear_layouts(graph)
    apply_in_place(module, ["dot-strength-reduction", "merge-dots"])
    simplify(module, lambda node: True)
    if hoist(module, NOT_HOISTED, needs_unchanged=True).changes:
        apply_in_place(module, ["cse", SIMPLIFY_STRICTLY_BEFORE_DOTS])
    for graph in list(module.graphs):  # splitting adds the computations of sums
        expand_select_and_scatter(graph)
        simplify_gathers(graph)
        expand_sorts(graph)
        pad_convolutions(graph)
        assign_layouts(graph, partial(convolution_layout, device=device))
        split_contractions(graph, device)
    dce(module)
    flatten_call_graph(module)
    module.index_users()
    dots = {graph: fuse_dots(graph) for graph in module.graphs}
    for graph, kernels in dots.items():
        if graph is module.entry or any(map(is_control_flow, graph.callers)):
            _normalize(graph, kernels, device)
    dce(module)  # what only copies in the kernels of dots read, and roundings that nothing reads
    fused = {graph: fuse_by_priority(graph, dots[graph], device) for graph in module.graphs}
    insert_copies(module, fused)
    return liveness(module, given=given, scheduler=KernelScheduler(module, fused, order_kernels), model=GPU)


def _normalize(graph: Graph, kernels: DotKernels, device: Device) -> None:
    """Compute in wider floats what the device does not compute in narrow ones, but for what is in kernels of dots."""
    normalize_floats(graph, lambda node: node in kernels or is_supported(node, device))
    read_unrounded(graph, kernels)
