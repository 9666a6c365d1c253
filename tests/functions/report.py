"""How many programs of each family pass, and what the others give, a line each.

    python -m tests.functions.report [--python] [FAMILY or FAMILY:NAME ...]

With `--python` the table is compared with Python alone. The programs run in a process of their own, which is ended where
a case takes too long: an exception of a signal's handler would be raised wherever Python runs next, inside callbacks of
XLA too.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection

from tests.functions.check import Failure, check_hloom, check_python, compiled_function
from tests.functions.table import Case, Program, is_available, programs

SECONDS = 20
"""How long a case may take, compilation included: a report goes on where one does not end."""


def through_hloom(entry: Program) -> Callable[[Program, Case], None]:
    """The check of a program's cases, which share what was compiled; an error in compiling is a failure of the first."""
    made: list[Callable[..., object]] = []

    def check(entry: Program, case: Case) -> None:
        if not made:
            made.append(compiled_function(entry))
        check_hloom(entry, case, made[0])

    return check


def run_cases(names: Sequence[tuple[str, int]], with_python: bool, results: Connection) -> None:
    """Check programs, each from a case on; send a text, empty where it passes, for each case."""
    entries = {entry.name: entry for entry in programs()}
    for name, first in names:
        entry = entries[name]
        check = check_python if with_python else through_hloom(entry)
        for case in entry.cases[first:]:
            text = ""
            try:
                check(entry, case)
            except KeyboardInterrupt:
                raise
            except Failure as failure:
                text = str(failure)
            except BaseException as error:
                text = f"{case}: {type(error).__name__}: {error}"
            results.send_bytes(json.dumps(" ".join(text.split())[:400]).encode())


class Worker:
    """A process that checks programs, each from a case on."""

    def __init__(self, names: Sequence[tuple[str, int]], with_python: bool) -> None:
        context = get_context("spawn")
        self.results, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=run_cases, args=(names, with_python, sender), daemon=True)
        self.process.start()
        sender.close()
        self.seconds = 3 * SECONDS  # the process starts first

    def result(self) -> str:
        """What the next case gives; raises TimeoutError or EOFError, with a text, where the process cannot go on."""
        if not self.results.poll(self.seconds):
            raise TimeoutError(f"over {SECONDS} s")
        self.seconds = SECONDS
        try:
            return json.loads(self.results.recv_bytes())
        except EOFError:
            self.process.join()
            raise EOFError(f"the process ended with {self.process.exitcode}") from None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.results.close()


def outcomes(chosen: Sequence[Program], with_python: bool) -> Iterator[tuple[Program, list[str]]]:
    """What the cases of each program give that do not pass."""
    worker: Worker | None = None
    for position, entry in enumerate(chosen):
        texts: list[str] = []
        for number, case in enumerate(entry.cases):
            if worker is None:
                worker = Worker([(entry.name, number), *((rest.name, 0) for rest in chosen[position + 1 :])], with_python)
            try:
                text = worker.result()
            except (TimeoutError, EOFError) as problem:
                text = f"{case}: {problem}"
                worker.end()
                worker = None
            texts += [text] if text else []
        yield entry, texts
    if worker is not None:
        worker.end()


def main(arguments: list[str]) -> int:
    with_python = "--python" in arguments
    wanted = [argument for argument in arguments if not argument.startswith("--")]
    if not with_python and not is_available():
        sys.stdout.write("hloom has no `function` yet\n")
        return 1
    chosen = [entry for entry in programs() if not wanted or {entry.family, entry.name} & set(wanted)]
    passed, total, cases = Counter[str](), Counter[str](), Counter[str]()
    for entry, texts in outcomes(chosen, with_python):
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
