"""Rewriting: rules, the driver that applies them, and what it reports.

To add a native rule, make a `Family` in the room `passes` and decorate a function; to add a power to declared
patterns, edit `pattern.py` (what it is), `declare.py` (how it is written), `steps.py` (how it is matched), `making.py`
(what stands in its place), `serial.py` and `loading.py` (how it is saved) and `instances.py` (how it is tested).
"""

from hloom.rewrite.builder import Builder as Builder
from hloom.rewrite.codecs import register_codec as register_codec
from hloom.rewrite.codecs import register_dataclass as register_dataclass
from hloom.rewrite.codecs import register_enum as register_enum
from hloom.rewrite.declare import Handle as Handle
from hloom.rewrite.declare import Replacement as Replacement
from hloom.rewrite.declare import Session as Session
from hloom.rewrite.declare import holding as holding
from hloom.rewrite.declare import one_of as one_of
from hloom.rewrite.declare import rule as rule
from hloom.rewrite.driver import apply_at as apply_at
from hloom.rewrite.driver import explain as explain
from hloom.rewrite.driver import rewrite as rewrite
from hloom.rewrite.expressions import Expression as Expression
from hloom.rewrite.index import RuleIndex as RuleIndex
from hloom.rewrite.looking import array_value as array_value
from hloom.rewrite.looking import is_splat as is_splat
from hloom.rewrite.looking import literal_value as literal_value
from hloom.rewrite.looking import scalar_integer as scalar_integer
from hloom.rewrite.looking import splat_of as splat_of
from hloom.rewrite.looking import tensor_type as tensor_type
from hloom.rewrite.looking import used_once as used_once
from hloom.rewrite.pairs import rule_from as rule_from
from hloom.rewrite.pattern import ANY as ANY
from hloom.rewrite.pattern import Pattern as Pattern
from hloom.rewrite.replay import replay as replay
from hloom.rewrite.report import Report as Report
from hloom.rewrite.report import RuleReport as RuleReport
from hloom.rewrite.report import Step as Step
from hloom.rewrite.rule import Family as Family
from hloom.rewrite.rule import Origin as Origin
from hloom.rewrite.rule import Rule as Rule
from hloom.rewrite.rule import RuleError as RuleError
from hloom.rewrite.rule import register as register
from hloom.rewrite.rule import registered as registered
from hloom.rewrite.serial import load_rules as load_rules
from hloom.rewrite.serial import rule_from_json as rule_from_json
from hloom.rewrite.serial import same_rule as same_rule
from hloom.rewrite.serial import save_rules as save_rules
from hloom.rewrite.serial import to_json as to_json
