"""The programs of `programs/`: Python gives what their table says, and so does `hloom.function`.

Covers `api/function.py`, `api/arguments.py`, `frontend/code.py`, `frontend/subset.py`, `functional/aliases.py`,
`functional/builtin_functions/attributes.py`, `functional/builtin_functions/collections_module.py`,
`functional/container_classes.py`, `functional/builtin_functions/containers.py`,
`functional/builtin_functions/math_module.py`, `functional/builtin_functions/methods.py`,
`functional/builtin_functions/operator_module.py`, `functional/calls.py`, `functional/classes.py`,
`functional/closure_conversion.py`, `functional/comprehensions.py`, `functional/control_flow.py`,
`functional/equality.py`, `functional/expressions.py`, `functional/gradients.py`, `functional/indexing.py`,
`functional/interpreter.py`, `functional/join_specs.py`, `functional/joins.py`, `functional/library.py`,
`functional/library_arguments.py`, `functional/library_protocols.py`, `functional/loops.py`, `functional/members.py`,
`functional/numbers.py`, `functional/operators.py`, `functional/patterns.py`, `functional/powers.py`,
`functional/prelude.py`, `functional/print_log.py`, `functional/program.py`, `functional/recursion.py`,
`functional/recursive_calls.py`, `functional/shared_calls.py`, `functional/specialisation.py`,
`functional/stack_machine.py`, `functional/state.py`, `functional/statements.py`, `functional/store.py`,
`functional/tail_calls.py`, `functional/values.py`, `functional/windows.py`, `runtime/library_calls.py`.
"""

from __future__ import annotations

import pytest

from tests.functional.check import Failure, check, check_python
from tests.functional.table import Program, programs
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
