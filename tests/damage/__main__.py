"""Try damaged inputs: `python -m tests.damage FIRST COUNT [SECONDS]`, or `--show NUMBER`.

A line for each that went wrong; with SECONDS, that it took longer is wrong too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.damage.campaign import attempt, limited, problems_of
from tests.damage.inputs import damaged


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--show"]:
        shown = damaged(int(arguments[1]))
        print("hloom", *map(repr, shown.arguments))  # noqa: T201
        written = shown.files if shown.piped is None else {"stdin": shown.piped}
        for name, data in written.items():
            Path(name).write_bytes(data)
        print(f"wrote {', '.join(written)}")  # noqa: T201
        return 0
    first, count = map(int, arguments[:2])
    seconds = float(arguments[2]) if arguments[2:] else 0.0
    limited()
    attempt(damaged(first), seconds)  # what is imported and allocated once
    wrong = 0
    for problem in problems_of(range(first, first + count), seconds):
        print(problem, flush=True)  # noqa: T201
        wrong += 1
    print(f"tried {count}", flush=True)  # noqa: T201
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
