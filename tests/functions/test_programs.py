"""The programs of `programs/`: Python gives what their table says, and so does `hloom.function`."""

from __future__ import annotations

import pytest

from tests.functions.check import check, check_python
from tests.functions.table import Program, is_available, programs

PROGRAMS = [pytest.param(entry, id=entry.name) for entry in programs()]


@pytest.mark.parametrize("entry", PROGRAMS)
def test_python_gives_what_the_table_says(entry: Program):
    for case in entry.cases:
        check_python(entry, case)


@pytest.mark.skipif(not is_available(), reason="hloom has no `function` yet")
@pytest.mark.parametrize("entry", PROGRAMS)
def test_a_program(entry: Program):
    check(entry)


def test_programs_have_names_of_their_own():
    names = [entry.name for entry in programs()]
    assert len(set(names)) == len(names)
