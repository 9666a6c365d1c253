"""Have Paddle 2.6.2 serialise the passes of tests/dialects/paddle, for the tests that hold our bytes against its own.

    python scripts/make_paddle_passes.py PYTHON     the interpreter of an environment with paddlepaddle 2.6.2
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests" / "dialects" / "paddle"


def main() -> None:
    folder = TESTS / "passes"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.pb"):
        old.unlink()
    subprocess.run([sys.argv[1], TESTS / "client.py", "serialise", folder], check=True)


if __name__ == "__main__":
    main()
