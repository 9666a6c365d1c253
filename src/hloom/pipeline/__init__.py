"""Pipelines: stages of layers on groups of devices, and the order in which they run microbatches.

To add a schedule, edit `schedules.py`.
"""

from hloom.pipeline.plan import Action as Action
from hloom.pipeline.plan import ActionKind as ActionKind
from hloom.pipeline.plan import InvalidPlan as InvalidPlan
from hloom.pipeline.plan import PipelinePlan as PipelinePlan
from hloom.pipeline.plan import Schedule as Schedule
from hloom.pipeline.plan import Stage as Stage
from hloom.pipeline.schedules import order as order
