"""Pipelines: stages of layers on groups of devices, and the order in which they run microbatches.

To add a schedule, edit `schedules.py`. To change how a step is cut, edit `layers.py`.
"""

import sys
from types import ModuleType
from typing import Any

from hloom.pipeline.dispatch import dispatch_order as dispatch_order
from hloom.pipeline.executor import PipelineExecutor as PipelineExecutor
from hloom.pipeline.executor import StepRecord as StepRecord
from hloom.pipeline.layers import Layer as Layer
from hloom.pipeline.layers import layers as layers
from hloom.pipeline.pipeline import Pipeline as Pipeline
from hloom.pipeline.pipeline import pipeline as pipeline
from hloom.pipeline.plan import Action as Action
from hloom.pipeline.plan import ActionKind as ActionKind
from hloom.pipeline.plan import InvalidPlan as InvalidPlan
from hloom.pipeline.plan import PipelinePlan as PipelinePlan
from hloom.pipeline.plan import Schedule as Schedule
from hloom.pipeline.plan import Stage as Stage
from hloom.pipeline.program import PipelineProgram as PipelineProgram
from hloom.pipeline.program import StageOutput as StageOutput
from hloom.pipeline.program import StageProgram as StageProgram
from hloom.pipeline.program import StageValue as StageValue
from hloom.pipeline.program import ValueScope as ValueScope
from hloom.pipeline.schedules import order as order
from hloom.pipeline.stage_programs import pipeline_program as pipeline_program


class _CallablePackage(ModuleType):
    """The package as a function: the package and what users call, `hloom.pipeline(step, plan)`, have one name."""

    def __call__(self, source: Any, plan: PipelinePlan, **options: Any) -> Any:
        return pipeline(source, plan, **options)


sys.modules[__name__].__class__ = _CallablePackage
