"""The child of `verifier`: reads JSON lines of a text, answers what XLA's verifier says of it, or nothing."""

import json
import resource
import sys

from hloom.runtime.xla import compile_in_place_of

CARRIER = "HloModule carrier\n\nENTRY e {\n  ROOT x = f32[8] parameter(0)\n}\n"


def answer(text: str) -> str:
    """The verifier's complaint; what comes behind it (opcodes that the CPU has no code for) is none."""
    try:
        compile_in_place_of(CARRIER, text)
    except Exception as error:  # jaxlib raises several kinds
        message = str(error)
        return "" if message.startswith("UNIMPLEMENTED") else message
    return ""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    say("ready")
    for line in sys.stdin:
        say(json.dumps(answer(json.loads(line))))
