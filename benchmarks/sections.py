"""All figures, by section, in the table's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.analysis import analysis, analysis_of_a_million
from benchmarks.autodiff import autodiff
from benchmarks.bubble import bubbles
from benchmarks.caps import caps
from benchmarks.clusters import clusters
from benchmarks.diff import differences
from benchmarks.driver import attempts, driver
from benchmarks.figures import Figure
from benchmarks.first import first
from benchmarks.fit import fits
from benchmarks.functions import functions
from benchmarks.graphs import drawings, editing, protos
from benchmarks.kernels import kernels
from benchmarks.memory import memory
from benchmarks.microbatch import microbatches
from benchmarks.minimize import minimization
from benchmarks.mlir import mlir
from benchmarks.oom import out_of_memory
from benchmarks.page import pages
from benchmarks.passes import passes
from benchmarks.pipeline import pipelines
from benchmarks.planning import planning
from benchmarks.printing import printing
from benchmarks.profile import traces
from benchmarks.programs import Plan
from benchmarks.propagation import propagation
from benchmarks.prune import pruning
from benchmarks.quantize import quantization
from benchmarks.ranks import ranks
from benchmarks.reading import reading, reading_a_million, reading_against_xdsl, reading_repetitions
from benchmarks.remat import remat
from benchmarks.saturation import saturation
from benchmarks.sharding import sharding
from benchmarks.startup import startup
from benchmarks.timeline import timelines

SECTIONS: dict[str, Callable[[Plan], Iterator[Figure]]] = {
    "reading": reading,
    "first": first,
    "million": reading_a_million,
    "repetitions": reading_repetitions,
    "xdsl": reading_against_xdsl,
    "mlir": mlir,
    "printing": printing,
    "memory": memory,
    "protos": protos,
    "drawings": drawings,
    "page": pages,
    "editing": editing,
    "analysis": analysis,
    "million-analysis": analysis_of_a_million,
    "diff": differences,
    "minimize": minimization,
    "timeline": timelines,
    "driver": driver,
    "attempts": attempts,
    "passes": passes,
    "saturation": saturation,
    "clusters": clusters,
    "kernels": kernels,
    "quantize": quantization,
    "prune": pruning,
    "microbatch": microbatches,
    "remat": remat,
    "oom": out_of_memory,
    "profile": traces,
    "pipeline": pipelines,
    "bubble": bubbles,
    "fit": fits,
    "sharding": sharding,
    "propagation": propagation,
    "planning": planning,
    "caps": caps,
    "ranks": ranks,
    "startup": startup,
    "autodiff": autodiff,
    "functions": functions,
}
