"""The child of `xla`: reads JSON lines of a text, answers what XLA's parser made of it, and may die of one.

A fork of it reads the texts, so that jaxlib is loaded once: where a text kills the fork, the next one goes on.
"""

import json
import os
import resource
import sys

from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]


def whole(options: _hlo.HloPrintOptions) -> _hlo.HloPrintOptions:
    """The same options, no constant left out."""
    options.print_large_constants = True
    return options


def with_metadata() -> _hlo.HloPrintOptions:
    options = whole(_hlo.HloPrintOptions())
    options.print_metadata = True
    return options


CANONICAL = whole(_hlo.HloPrintOptions.canonical())
FULL = with_metadata()


def answer(text: str) -> dict[str, str]:
    try:
        module = _hlo.hlo_module_from_text(text)
    except Exception as error:  # jaxlib raises several kinds, C++'s own among them
        return {"verdict": "refused", "message": str(error)}
    return {"verdict": "accepted", "canonical": module.to_string(CANONICAL), "full": module.to_string(FULL)}


def say(reply: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Answer every line; each comes after the answer to the one before, so that none is lost with a fork."""
    while True:
        process = os.fork()
        if process == 0:
            for line in sys.stdin:
                say(answer(json.loads(line)))
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status == 0:
            return
        say({"verdict": "aborted", "message": f"signal {-os.waitstatus_to_exitcode(status)}"})


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
