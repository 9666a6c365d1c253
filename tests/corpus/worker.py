"""The child of `check`: reads JSON lines [name, text], answers [name, verdict, message, opcodes], and may die of a text.

Run as a file of its own, so that nothing but jaxlib's parser is loaded.
"""

import json
import resource
import sys
import threading

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


def answer_every_line() -> None:
    for line in sys.stdin:
        answer(*json.loads(line))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=answer_every_line)
    thread.start()
    thread.join()
