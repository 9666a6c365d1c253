"""Read, print, draw, verify, rewrite and run XLA HLO programs.

    module = hloom.load("step.hlo")
    print(hloom.inspect(module))
    print(hloom.print(module, "short"))
    smaller, report = hloom.opt(module, ["simplify", "cse"])

Every name here comes from the package that owns it, when it is first used: `import hloom` alone loads nothing. To offer
a further name, add it to `_PUBLIC_NAMES` and, for type checkers, to the imports above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hloom.analysis import CostReport as CostReport
    from hloom.analysis import MemoryReport as MemoryReport
    from hloom.analysis import Roofline as Roofline
    from hloom.analysis import Summary as Summary
    from hloom.analysis import Timeline as Timeline
    from hloom.analysis import cost as cost
    from hloom.analysis import inspect as inspect
    from hloom.analysis import roofline as roofline
    from hloom.analysis import timeline as timeline
    from hloom.api.auto_shard import auto_shard as auto_shard
    from hloom.api.compile import compile as compile
    from hloom.api.differentiable import differentiable as differentiable
    from hloom.api.function import Function as Function
    from hloom.api.function import function as function
    from hloom.api.function import grad as grad
    from hloom.api.function import hessian as hessian
    from hloom.api.function import jacobian as jacobian
    from hloom.api.function import jvp as jvp
    from hloom.api.function import print_value as print_value
    from hloom.api.function import value_and_grad as value_and_grad
    from hloom.api.function import vjp as vjp
    from hloom.api.jax_specs import partition_specs as partition_specs
    from hloom.api.jax_specs import result_partition_specs as result_partition_specs
    from hloom.api.jax_specs import shardy_stablehlo as shardy_stablehlo
    from hloom.api.jit import inside_jit as inside_jit
    from hloom.api.jit import jit as jit
    from hloom.api.load import load as load
    from hloom.api.opt import opt as opt
    from hloom.api.plan import PlanResult as PlanResult
    from hloom.api.plan import measure as measure
    from hloom.api.plan import plan as plan
    from hloom.compress.pruning import Pruning as Pruning
    from hloom.compress.pruning import StructuredPruning as StructuredPruning
    from hloom.compress.pruning import prune as prune
    from hloom.compress.pruning import prune_structured as prune_structured
    from hloom.compress.quantization import Quantization as Quantization
    from hloom.compress.quantization import quantize as quantize
    from hloom.distribute.fit import FitResult as FitResult
    from hloom.distribute.fit import fit as fit
    from hloom.distribute.fit import load_fit as load_fit
    from hloom.distribute.microbatch import microbatch as microbatch
    from hloom.distribute.pipeline import pipeline as pipeline
    from hloom.distribute.propagation import propagate as propagate
    from hloom.distribute.remat import remat as remat
    from hloom.evaluator import evaluate as evaluate
    from hloom.formats.hlo import DumpedModule as DumpedModule
    from hloom.formats.hlo import Limits as Limits
    from hloom.formats.hlo import PrintOptions as PrintOptions
    from hloom.formats.hlo import dump_modules as dump_modules
    from hloom.formats.hlo import parse as parse
    from hloom.formats.hlo import save as save
    from hloom.formats.hlo import to_text as _to_text
    from hloom.inspection.diff import ModuleDiff as ModuleDiff
    from hloom.inspection.diff import diff as diff
    from hloom.inspection.minimize import FaultNotShown as FaultNotShown
    from hloom.inspection.minimize import Minimization as Minimization
    from hloom.inspection.minimize import minimize as minimize
    from hloom.inspection.page import page as page
    from hloom.inspection.page import view as view
    from hloom.inspection.profile import PassTimeline as PassTimeline
    from hloom.inspection.profile import pass_timeline as pass_timeline
    from hloom.inspection.query import grep as grep
    from hloom.inspection.query import table as table
    from hloom.inspection.viz import draw as draw
    from hloom.inspection.viz import to_dot as to_dot
    from hloom.inspection.viz import to_graphml as to_graphml
    from hloom.inspection.viz import to_json as to_json
    from hloom.inspection.why_oom import OomReport as OomReport
    from hloom.inspection.why_oom import why_oom as why_oom
    from hloom.ir import Graph as Graph
    from hloom.ir import Level as Level
    from hloom.ir import Literal as Literal
    from hloom.ir import Module as Module
    from hloom.ir import Node as Node
    from hloom.ir import TensorType as TensorType
    from hloom.ir import Type as Type
    from hloom.ir import Verification as Verification
    from hloom.ir import difference as difference
    from hloom.ir import dtype as dtype
    from hloom.ir import equal as equal
    from hloom.ir import verify as verify
    from hloom.ops import OPS as OPS
    from hloom.passes.fusion import FusionReport as FusionReport
    from hloom.passes.fusion import fusions as fusions
    from hloom.passes.saturation import saturate as saturate
    from hloom.rewrite import ANY as ANY
    from hloom.rewrite import rule as rule
    from hloom.rewrite import rule_from as rule_from
    from hloom.runtime import RewriteError as RewriteError
    from hloom.runtime import RunResult as RunResult
    from hloom.runtime import compare as compare
    from hloom.runtime import from_stablehlo as from_stablehlo
    from hloom.runtime import run as run
    from hloom.targets.compiler import CompiledProgram as CompiledProgram
    from hloom.targets.memory import memory as memory
    from hloom.text import HloomError as HloomError
    from hloom.text import HloomWarning as HloomWarning
    from hloom.text import ParseError as ParseError
    from hloom.text import Unsupported as Unsupported

    print = _to_text

__version__ = "0.1.0"

_PUBLIC_NAMES: dict[str, tuple[str, ...]] = {
    "analysis": (
        "CostReport",
        "MemoryReport",
        "Roofline",
        "Summary",
        "Timeline",
        "cost",
        "inspect",
        "roofline",
        "timeline",
    ),
    "api.auto_shard": ("auto_shard",),
    "api.compile": ("compile",),
    "api.differentiable": ("differentiable",),
    "api.function": (
        "Function",
        "function",
        "grad",
        "hessian",
        "jacobian",
        "jvp",
        "print_value",
        "value_and_grad",
        "vjp",
    ),
    "api.jax_specs": ("partition_specs", "result_partition_specs", "shardy_stablehlo"),
    "api.jit": ("inside_jit", "jit"),
    "api.load": ("load",),
    "api.opt": ("opt",),
    "api.plan": ("PlanResult", "measure", "plan"),
    "inspection.diff": ("ModuleDiff", "diff"),
    "evaluator": ("evaluate",),
    "distribute.fit": ("FitResult", "fit", "load_fit"),
    "passes.fusion": ("FusionReport", "fusions"),
    "formats.hlo": ("DumpedModule", "Limits", "PrintOptions", "dump_modules", "parse", "save", "to_text"),
    "ir": (
        "Graph",
        "Level",
        "Literal",
        "Module",
        "Node",
        "TensorType",
        "Type",
        "Verification",
        "difference",
        "dtype",
        "equal",
        "verify",
    ),
    "distribute.microbatch": ("microbatch",),
    "inspection.minimize": ("FaultNotShown", "Minimization", "minimize"),
    "inspection.why_oom": ("OomReport", "why_oom"),
    "ops": ("OPS",),
    "inspection.page": ("page", "view"),
    "distribute.pipeline": ("pipeline",),
    "compress.pruning": ("Pruning", "StructuredPruning", "prune", "prune_structured"),
    "compress.quantization": ("Quantization", "quantize"),
    "inspection.query": ("grep", "table"),
    "distribute.propagation": ("propagate",),
    "distribute.remat": ("remat",),
    "rewrite": ("ANY", "rule", "rule_from"),
    "runtime": ("RewriteError", "RunResult", "compare", "from_stablehlo", "run"),
    "passes.saturation": ("saturate",),
    "text": ("HloomError", "HloomWarning", "ParseError", "Unsupported"),
    "inspection.profile": ("PassTimeline", "pass_timeline"),
    "inspection.viz": ("draw", "to_dot", "to_graphml", "to_json"),
    "targets.compiler": ("CompiledProgram",),
    "targets.memory": ("memory",),
}
"""The public names of each package, or file of `api`, that `hloom` offers as its own."""
_OTHER_NAMES = {"to_text": "print"}
_FORMER_NAMES = {"apply": "opt", "query": "grep", "summary": "inspect"}
"""Names that still work, with a warning, and what they are called now (docs/stability.md says for how long)."""
_OWNERS = {_OTHER_NAMES.get(name, name): (module, name) for module, names in _PUBLIC_NAMES.items() for name in names}


def _public(name: str) -> object:
    if name in _FORMER_NAMES:
        former, name = name, _FORMER_NAMES[name]
        import_module("warnings").warn(f"hloom.{former} is hloom.{name} now", DeprecationWarning, stacklevel=2)
    if name not in _OWNERS:
        raise AttributeError(_unknown(name), name=name)
    module, original = _OWNERS[name]
    return globals().setdefault(name, getattr(import_module(f"hloom.{module}"), original))


def _unknown(name: str) -> str:
    """What is said of a name that is none, with the nearest."""
    near = [] if name.startswith("__") else import_module("difflib").get_close_matches(name, _OWNERS, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"module 'hloom' has no attribute '{name}'{hint}"


def __dir__() -> list[str]:
    return ["__version__", *sorted(_OWNERS)]


if not TYPE_CHECKING:  # to type checkers the imports above are all there is, so that a mistyped name is an error
    __all__ = sorted(_OWNERS)
    __getattr__ = _public
