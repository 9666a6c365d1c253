"""Rewriting: rules, the driver that applies them, and what it reports.

To add a native rule, make a `Family` in the package `passes` and decorate a function; to add a power to declared
patterns, edit `pattern.py` (what it is), `declaration.py` (how it is written), `match_steps.py` (how it is matched),
`replacement.py` (how the replacement is built), `serialization.py` and `deserialization.py` (how it is saved) and
`instances.py` (how it is tested).
"""

from hloom.rewrite.builder import Builder as Builder
from hloom.rewrite.codecs import register_codec as register_codec
from hloom.rewrite.codecs import register_dataclass as register_dataclass
from hloom.rewrite.codecs import register_enum as register_enum
from hloom.rewrite.declaration import Handle as Handle
from hloom.rewrite.declaration import PatternBuilder as PatternBuilder
from hloom.rewrite.declaration import ReplacementBuilder as ReplacementBuilder
from hloom.rewrite.declaration import call_function as call_function
from hloom.rewrite.declaration import depth_of as depth_of
from hloom.rewrite.declaration import holding as holding
from hloom.rewrite.declaration import one_of as one_of
from hloom.rewrite.declaration import rule as rule
from hloom.rewrite.domain import check_domain as check_domain
from hloom.rewrite.driver import apply_at as apply_at
from hloom.rewrite.driver import explain as explain
from hloom.rewrite.driver import replay as replay
from hloom.rewrite.driver import rewrite as rewrite
from hloom.rewrite.expression_compiler import number as number
from hloom.rewrite.expressions import Expression as Expression
from hloom.rewrite.expressions import call as call
from hloom.rewrite.expressions import choose as choose
from hloom.rewrite.expressions import text_of as text_of
from hloom.rewrite.function_calls import FunctionLowering as FunctionLowering
from hloom.rewrite.function_calls import build_call as build_call
from hloom.rewrite.function_calls import call_name as call_name
from hloom.rewrite.function_calls import provide_lowering as provide_lowering
from hloom.rewrite.index import Candidate as Candidate
from hloom.rewrite.index import RuleIndex as RuleIndex
from hloom.rewrite.instances import anywhere as anywhere
from hloom.rewrite.instances import instance as instance
from hloom.rewrite.instances import instances as instances
from hloom.rewrite.matchers import array_value as array_value
from hloom.rewrite.matchers import is_splat as is_splat
from hloom.rewrite.matchers import literal_value as literal_value
from hloom.rewrite.matchers import scalar_integer as scalar_integer
from hloom.rewrite.matchers import splat_of as splat_of
from hloom.rewrite.matchers import tensor_type as tensor_type
from hloom.rewrite.matchers import used_once as used_once
from hloom.rewrite.pattern import ANY as ANY
from hloom.rewrite.pattern import Absent as Absent
from hloom.rewrite.pattern import Anything as Anything
from hloom.rewrite.pattern import AttributeTerm as AttributeTerm
from hloom.rewrite.pattern import Bind as Bind
from hloom.rewrite.pattern import Computes as Computes
from hloom.rewrite.pattern import Condition as Condition
from hloom.rewrite.pattern import Holds as Holds
from hloom.rewrite.pattern import Make as Make
from hloom.rewrite.pattern import MakeConstant as MakeConstant
from hloom.rewrite.pattern import MakeNative as MakeNative
from hloom.rewrite.pattern import MakeOperation as MakeOperation
from hloom.rewrite.pattern import OneOf as OneOf
from hloom.rewrite.pattern import OperationTerm as OperationTerm
from hloom.rewrite.pattern import Pattern as Pattern
from hloom.rewrite.pattern import Reference as Reference
from hloom.rewrite.pattern import Same as Same
from hloom.rewrite.pattern import Term as Term
from hloom.rewrite.pattern import ValueTerm as ValueTerm
from hloom.rewrite.registry import Origin as Origin
from hloom.rewrite.registry import RuleError as RuleError
from hloom.rewrite.registry import origin_of as origin_of
from hloom.rewrite.registry import register as register
from hloom.rewrite.registry import registered as registered
from hloom.rewrite.report import Report as Report
from hloom.rewrite.report import RuleReport as RuleReport
from hloom.rewrite.report import Step as Step
from hloom.rewrite.report import merged as merged
from hloom.rewrite.rule import Family as Family
from hloom.rewrite.rule import Rule as Rule
from hloom.rewrite.rule_compiler import replacement_of as replacement_of
from hloom.rewrite.serialization import load_rules as load_rules
from hloom.rewrite.serialization import rule_from_json as rule_from_json
from hloom.rewrite.serialization import same_rule as same_rule
from hloom.rewrite.serialization import save_rules as save_rules
from hloom.rewrite.serialization import to_json as to_json
from hloom.rewrite.traced_rule import rule_from as rule_from
from hloom.rewrite.verifier import check_made as check_made
from hloom.rewrite.verifier import check_operation as check_operation
from hloom.rewrite.verifier import check_pattern as check_pattern
