"""The programs of `programs/`: Python gives what their table says, and so does `hloom.function`.

Covers `api/function.py`, `api/arguments.py`, `functions/code.py`, `functions/subset.py`, `functions/aliases.py`,
`functions/builtin_functions/attributes.py`,
`functions/container_classes.py`, `functions/builtin_functions/containers.py`,
`functions/builtin_functions/math_module.py`, `functions/builtin_functions/methods.py`,
`functions/builtin_functions/operator_module.py`, `functions/calls.py`, `functions/classes.py`,
`functions/closure_conversion.py`, `functions/comprehensions.py`, `functions/control_flow.py`,
`functions/equality.py`, `functions/expressions.py`, `functions/gradients.py`, `functions/indexing.py`,
`functions/interpreter.py`, `functions/join_specs.py`, `functions/joins.py`, `functions/library.py`,
`functions/library_arguments.py`, `functions/library_protocols.py`, `functions/loops.py`, `functions/members.py`,
`functions/numbers.py`, `functions/operators.py`, `functions/patterns.py`, `functions/powers.py`,
`functions/prelude.py`, `functions/print_log.py`, `functions/program.py`, `functions/recursion.py`,
`functions/recursive_calls.py`, `functions/shared_calls.py`, `functions/specialisation.py`,
`functions/stack_machine.py`, `functions/state.py`, `functions/statements.py`, `functions/store.py`,
`functions/tail_calls.py`, `functions/values.py`, `functions/windows.py`, `runtime/library_calls.py`.
"""

from __future__ import annotations

import pytest

from tests.functions.check import Failure, check, check_python
from tests.functions.table import Program, programs
from tests.helpers.properties import sample

SHARE = 12
"""One program of so many is compiled in `make test`, all of them in `make test-long`."""
SLOW, SHARE_OF_SLOW = ("jax_functions", "jax_library"), 4
"""Families that call JAX for every operation: Python runs one of so many of their programs."""
FAMILIES = sorted({entry.family for entry in programs()})


@pytest.mark.parametrize("family", FAMILIES)
def test_python_gives_what_the_table_says(family: str):
    failures: list[str] = []
    members = {entry.name: entry for entry in programs() if entry.family == family}
    for entry in sample(members, SHARE_OF_SLOW if family in SLOW else 1).values():
        for case in entry.cases:
            try:
                check_python(entry, case)
            except Failure as failure:
                failures.append(f"{entry.name}: {failure}")
    assert failures == []


COMPILED = [
    pytest.param(entry, id=entry.name, marks=() if number % SHARE == 0 else pytest.mark.long)
    for number, entry in enumerate(programs())
]


@pytest.mark.parametrize("entry", COMPILED)
def test_a_program(entry: Program):
    check(entry)


def test_programs_have_names_of_their_own():
    names = [entry.name for entry in programs()]
    assert len(set(names)) == len(names)
