"""The child of `check`: reads JSON lines [name, text], answers [name, verdict, message, opcodes].

Some texts abort the parser's process, so a fork of this one reads them; where it dies, another one goes on with the
rest. Run as a file of its own, so that nothing but jaxlib's parser is loaded.
"""

import json
import os
import resource
import sys
import threading
from tempfile import TemporaryFile

from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

STACK_BYTES = 8 << 20


def answer(name: str, text: str) -> None:
    try:
        module = _hlo.hlo_module_from_text(text)
    except Exception as error:  # jaxlib raises several kinds, C++'s own among them
        say(name, "refused", str(error), [])
        return
    instructions = (instruction for computation in module.computations() for instruction in computation.instructions())
    opcodes = {instruction.opcode.name for instruction in instructions}
    say(name, "accepted", "", sorted(opcodes))


def say(*parts: object) -> None:
    sys.stdout.write(json.dumps(parts) + "\n")
    sys.stdout.flush()


def answer_every_line(lines: list[str]) -> None:
    for line in lines:
        answer(*json.loads(line))


def answer_in_a_fork(lines: list[str]) -> int:
    """How many lines were answered, the last of them for a fork that died of it."""
    with TemporaryFile() as errors:
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            os.dup2(writer, sys.stdout.fileno())
            os.dup2(errors.fileno(), sys.stderr.fileno())
            thread = threading.Thread(target=answer_every_line, args=(lines,))
            thread.start()
            thread.join()
            os._exit(0)
        os.close(writer)
        with open(reader) as answers:
            replies = answers.readlines()
        _, status = os.waitpid(process, 0)
        sys.stdout.writelines(replies)
        if status == 0:
            return len(lines)
        errors.seek(0)
        words = errors.read().decode("utf-8", "replace")
    say(json.loads(lines[len(replies)])[0], "aborted", reason_of_death(words, -os.waitstatus_to_exitcode(status)), [])
    return len(replies) + 1


def reason_of_death(words: str, signal: int) -> str:
    """The failed check that absl logged, or the signal's number where there was none."""
    fatal = [line for line in words.splitlines() if line.startswith("F")]
    return fatal[0].partition("] ")[2] if fatal else f"signal {signal}"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.stack_size(STACK_BYTES)
    waiting = sys.stdin.readlines()
    while waiting:
        del waiting[: answer_in_a_fork(waiting)]
