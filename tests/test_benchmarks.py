"""The benchmarks run and say what they should, on programs too small to time."""

import gc
import json
from collections.abc import Iterator

import pytest

pytest.importorskip("jaxlib")

from benchmarks import peers
from benchmarks.clock import Job, Times, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth, times_as_fast, times_the_time
from benchmarks.programs import Plan, Program, all_different, all_equal, repeated, training_step
from benchmarks.ranks import spearman
from benchmarks.sections import SECTIONS
from benchmarks.table import to_json, to_table
from hloom.hlo import parse
from hloom.ir import equal
from scripts.lower_gpt2 import Config

TINY = Config(layers=1, width=8, heads=2, vocabulary=16, sequence=4, batch=2)
LARGER = Config(layers=2, width=8, heads=2, vocabulary=16, sequence=4, batch=2)
PLAN = Plan(small=TINY, large=LARGER, copies=3, rows=20, seconds=0, chain=30, long_chain=90, layers=(1, 2))

NEEDS = {"xdsl": ["xdsl"], "mlir": ["xdsl"], "rewriting": ["xdsl", "torch"]}

FAST, SLOW = Times(1.0, 2.0), Times(2.0, 6.0)
PROGRAM = Program("p", "", 100)


MINUTES = {"bubble", "caps", "fit", "ranks"}
