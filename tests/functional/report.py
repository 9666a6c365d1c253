"""How many programs of each family pass, and what the others give, a line each.

    python -m tests.functional.report [--python] [FAMILY or FAMILY:NAME ...]

With `--python` the table is compared with Python alone.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.functional.check import Failure, check_hloom, check_python, compiled_function
from tests.functional.table import Case, Program, is_available, programs

SECONDS = 20
"""How long a case may take, compilation included: a report goes on where one does not end."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the main thread after some seconds."""

    def stop(_signal: int, _frame: Any) -> None:
        raise TimeoutError(f"over {seconds} s")

    handler = signal.signal(signal.SIGALRM, stop)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)


def failures(entry: Program, check: Callable[[Program, Case], None]) -> list[str]:
    texts: list[str] = []
    for case in entry.cases:
        try:
            with time_limit(SECONDS):
                check(entry, case)
        except KeyboardInterrupt:
            raise
        except Failure as failure:
            texts.append(str(failure))
        except BaseException as error:
            texts.append(f"{case}: {type(error).__name__}: {error}")
    return [" ".join(text.split())[:400] for text in texts]


def through_hloom(entry: Program) -> Callable[[Program, Case], None]:
    """The check of a program's cases, which share what was compiled; an error in compiling is a failure of the first."""
    made: list[Callable[..., object]] = []

    def check(entry: Program, case: Case) -> None:
        if not made:
            made.append(compiled_function(entry))
        check_hloom(entry, case, made[0])

    return check


def main(arguments: list[str]) -> int:
    with_python = "--python" in arguments
    wanted = [argument for argument in arguments if not argument.startswith("--")]
    if not with_python and not is_available():
        sys.stdout.write("hloom has no `function` yet\n")
        return 1
    chosen = [entry for entry in programs() if not wanted or {entry.family, entry.name} & set(wanted)]
    passed, total, cases = Counter[str](), Counter[str](), Counter[str]()
    for entry in chosen:
        texts = failures(entry, check_python if with_python else through_hloom(entry))
        total[entry.family] += 1
        cases[entry.family] += len(entry.cases)
        passed[entry.family] += not texts
        for text in texts:
            sys.stdout.write(f"FAIL {entry.name}{text}\n")
        sys.stdout.flush()
    for family in total:
        sys.stdout.write(f"{family}: {passed[family]} of {total[family]} pass ({cases[family]} cases)\n")
    sys.stdout.write(f"all: {passed.total()} of {total.total()} pass ({cases.total()} cases)\n")
    return int(passed != total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
