"""Assertions for tests of programs: cost bounds, no collectives, equal results, correct rules.

    def test_step():
        module = hloom.parse(jax.jit(step).lower(*arguments).as_text("hlo"))
        assert_flops(module, at_most=3e9)
        assert_no_collective(module, "all-gather")

Each raises AssertionError that names the instructions and source lines responsible. To add an assertion, write it in
the file of its subject, or in a new one.
"""

from hloom.testing.costs import assert_bytes_accessed as assert_bytes_accessed
from hloom.testing.costs import assert_flops as assert_flops
from hloom.testing.costs import assert_no_collective as assert_no_collective
from hloom.testing.costs import assert_peak_memory as assert_peak_memory
from hloom.testing.derivatives import DerivativeCheck as DerivativeCheck
from hloom.testing.derivatives import check_derivatives as check_derivatives
from hloom.testing.equivalence import assert_equivalent as assert_equivalent
from hloom.testing.rules import Equivalence as Equivalence
from hloom.testing.rules import NotEquivalent as NotEquivalent
from hloom.testing.rules import check_rule as check_rule
