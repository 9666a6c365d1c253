"""No damaged input makes hloom fail in another way than by its own errors, or take much more memory than its size.

`make test` tries four hundred inputs, `make test-long` a million, none over 5 s of a processor, each thousand in a
process of its own: what kills the process is named by the number of the last input.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.damage.campaign import SECONDS

ROOT = Path(__file__).resolve().parents[2]
PORTION = 1000
PORTIONS = 1000
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are Linux's")


def tried(first: int, count: int, seconds: float = 0.0) -> str:
    """What a process of its own says of so many inputs, each of which may take so many seconds; 0: any."""
    command = [sys.executable, "-m", "tests.damage", str(first), str(count), str(seconds)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    is_complete = result.stdout.endswith(f"tried {count}\n")
    return result.stdout if is_complete else f"{result.stdout}{result.stderr[-5000:]}status {result.returncode}"


def test_four_hundred_damaged_inputs():
    assert tried(0, 400) == "tried 400\n"


@pytest.mark.long
@pytest.mark.parametrize("portion", range(PORTIONS))
def test_a_million_damaged_inputs(portion: int):
    assert tried(portion * PORTION, PORTION, SECONDS) == f"tried {PORTION}\n"
