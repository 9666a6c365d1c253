"""The standard rules and passes, one subject per file, and how passes are named and combined.

To add a rule to `simplify`, decorate a function in the file of its subject in `rules`; to add a pass, write
`run(module) -> Report` in a separate file, give it to `register_pass`, and list its name in `pipeline.py`.

Each file names the files and functions of XLA that it follows, of openxla/xla in early 2026 (jaxlib 0.10.2);
`scripts/check_citations.py` looks them up in the installed jaxlib.
"""

from typing import TYPE_CHECKING

from hloom.text import imports_names_lazily

if TYPE_CHECKING or not imports_names_lazily(__name__):
    from hloom.passes.all_reduce_sinker import sink_all_reduces as sink_all_reduces
    from hloom.passes.attention import AttentionForm as AttentionForm
    from hloom.passes.attention import ScoreStep as ScoreStep
    from hloom.passes.attention import attention_at as attention_at
    from hloom.passes.canonicalize import canonicalize as canonicalize
    from hloom.passes.canonicalize import canonicalize_in_place as canonicalize_in_place
    from hloom.passes.canonicalize import is_loop_or_branch as is_loop_or_branch
    from hloom.passes.collective_simplifier import SIMPLIFY_COLLECTIVES as SIMPLIFY_COLLECTIVES
    from hloom.passes.collective_simplifier import simplify_all_reduces as simplify_all_reduces
    from hloom.passes.computation_order import control_predecessors as control_predecessors
    from hloom.passes.computation_order import own_copy as own_copy
    from hloom.passes.computation_order import running_graphs as running_graphs
    from hloom.passes.computation_order import sort_topologically as sort_topologically
    from hloom.passes.conditional_mover import move_users as move_users
    from hloom.passes.constant_propagation import propagate_constants as propagate_constants
    from hloom.passes.convert_mover import move_converts as move_converts
    from hloom.passes.cse import ValueNumbering as ValueNumbering
    from hloom.passes.cse import cse as cse
    from hloom.passes.cse import merge_key as merge_key
    from hloom.passes.dce import dce as dce
    from hloom.passes.dce import erase_unused as erase_unused
    from hloom.passes.dead_updates import eliminate_dead_updates as eliminate_dead_updates
    from hloom.passes.dot_merger import merge_dots as merge_dots
    from hloom.passes.hoist import hoist as hoist
    from hloom.passes.inline import MAX_NODES as MAX_NODES
    from hloom.passes.inline import inline as inline
    from hloom.passes.inline import inline_fusions as inline_fusions
    from hloom.passes.loop_concatenation import carry_concatenations as carry_concatenations
    from hloom.passes.loop_simplifier import SIMPLIFY_LOOPS as SIMPLIFY_LOOPS
    from hloom.passes.loop_states import DROP_ELEMENTS as DROP_ELEMENTS
    from hloom.passes.loop_states import widen_loop as widen_loop
    from hloom.passes.loop_states import wider_attributes as wider_attributes
    from hloom.passes.outline import outline as outline
    from hloom.passes.pipeline import PASSES as PASSES
    from hloom.passes.pipeline import FurtherPasses as FurtherPasses
    from hloom.passes.pipeline import Pass as Pass
    from hloom.passes.pipeline import PassLike as PassLike
    from hloom.passes.pipeline import PipelineReader as PipelineReader
    from hloom.passes.pipeline import Watch as Watch
    from hloom.passes.pipeline import apply as apply
    from hloom.passes.pipeline import apply_in_place as apply_in_place
    from hloom.passes.pipeline import fixpoint as fixpoint
    from hloom.passes.pipeline import leaf_passes as leaf_passes
    from hloom.passes.pipeline import load_further_passes as load_further_passes
    from hloom.passes.pipeline import provide_further_passes as provide_further_passes
    from hloom.passes.pipeline import read_options as read_options
    from hloom.passes.pipeline import register_pass as register_pass
    from hloom.passes.pipeline import resolve as resolve
    from hloom.passes.pipeline import rules_pass as rules_pass
    from hloom.passes.pipeline import sequence as sequence
    from hloom.passes.pipeline import until_settled as until_settled
    from hloom.passes.reduce_merger import merge_reduces as merge_reduces
    from hloom.passes.reshape_mover import sink_reshapes as sink_reshapes
    from hloom.passes.rules.explore_convolution import kernel_enlargement as kernel_enlargement
    from hloom.passes.simplify import ADD_UPDATES as ADD_UPDATES
    from hloom.passes.simplify import EXPLORATION as EXPLORATION
    from hloom.passes.simplify import INEXACT as INEXACT
    from hloom.passes.simplify import SIMPLIFY_BEFORE_DOTS as SIMPLIFY_BEFORE_DOTS
    from hloom.passes.simplify import SIMPLIFY_STRICTLY_BEFORE_DOTS as SIMPLIFY_STRICTLY_BEFORE_DOTS
    from hloom.passes.simplify import STRICT as STRICT
    from hloom.passes.slice_sinker import sink_slices as sink_slices
    from hloom.passes.tuple_simplifier import simplify_tuples as simplify_tuples
    from hloom.passes.unroll import unroll as unroll
