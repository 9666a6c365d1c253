"""Pipelines: stages of layers on groups of devices, schedules of microbatches, and the search for the best pipeline.

To add a schedule, edit `schedules.py`. To change how a step is cut, edit `layers.py`; what a stage costs,
`stage_costs.py`; which stages are searched, `search.py`.
"""

from hloom.pipeline.chain import Chain as Chain
from hloom.pipeline.chain import InvalidChain as InvalidChain
from hloom.pipeline.chain import LayerCost as LayerCost
from hloom.pipeline.chain import merge_layers as merge_layers
from hloom.pipeline.chain import min_max_partition as min_max_partition
from hloom.pipeline.dispatch import dispatch_order as dispatch_order
from hloom.pipeline.executor import PipelineExecutor as PipelineExecutor
from hloom.pipeline.executor import StepRecord as StepRecord
from hloom.pipeline.layers import Layer as Layer
from hloom.pipeline.layers import layers as layers
from hloom.pipeline.machine import InvalidMachine as InvalidMachine
from hloom.pipeline.machine import Machine as Machine
from hloom.pipeline.measurement import StepMeasurement as StepMeasurement
from hloom.pipeline.pipeline import Pipeline as Pipeline
from hloom.pipeline.pipeline import pipeline as pipeline
from hloom.pipeline.plan import Action as Action
from hloom.pipeline.plan import ActionKind as ActionKind
from hloom.pipeline.plan import InvalidPlan as InvalidPlan
from hloom.pipeline.plan import PipelinePlan as PipelinePlan
from hloom.pipeline.plan import Schedule as Schedule
from hloom.pipeline.plan import Stage as Stage
from hloom.pipeline.plan_json import as_plan as as_plan
from hloom.pipeline.plan_json import load_plan as load_plan
from hloom.pipeline.plan_json import plan_from_json as plan_from_json
from hloom.pipeline.planner import DoesNotFit as DoesNotFit
from hloom.pipeline.planner import PlannedPipeline as PlannedPipeline
from hloom.pipeline.planner import evaluate_plan as evaluate_plan
from hloom.pipeline.planner import plan_merged_pipeline as plan_merged_pipeline
from hloom.pipeline.planner import plan_pipeline as plan_pipeline
from hloom.pipeline.profile import Profile as Profile
from hloom.pipeline.profile import parse_profile as parse_profile
from hloom.pipeline.profile import read_profile as read_profile
from hloom.pipeline.program import PipelineProgram as PipelineProgram
from hloom.pipeline.program import StageOutput as StageOutput
from hloom.pipeline.program import StageProgram as StageProgram
from hloom.pipeline.program import StageValue as StageValue
from hloom.pipeline.program import ValueScope as ValueScope
from hloom.pipeline.schedules import ScheduleTooLarge as ScheduleTooLarge
from hloom.pipeline.schedules import order as order
from hloom.pipeline.search import SearchTooLarge as SearchTooLarge
from hloom.pipeline.search import best_stages as best_stages
from hloom.pipeline.simulation import Simulation as Simulation
from hloom.pipeline.simulation import simulate as simulate
from hloom.pipeline.stage_costs import ChainTooLong as ChainTooLong
from hloom.pipeline.stage_costs import IndivisibleBatch as IndivisibleBatch
from hloom.pipeline.stage_costs import Pace as Pace
from hloom.pipeline.stage_costs import StageCosts as StageCosts
from hloom.pipeline.stage_costs import StageTimes as StageTimes
from hloom.pipeline.stage_costs import step_bound as step_bound
from hloom.pipeline.stage_costs import step_estimate as step_estimate
from hloom.pipeline.stage_programs import pipeline_program as pipeline_program
from hloom.pipeline.stage_sharding import StageSharding as StageSharding
from hloom.pipeline.stage_sharding import shard_stage as shard_stage
from hloom.pipeline.stage_sharding import shard_stages as shard_stages
from hloom.pipeline.step import check_effects as check_effects
from hloom.pipeline.step_chain import step_chain as step_chain
from hloom.text import make_callable

make_callable(__name__, pipeline)
