"""Lower every program into a folder: `python -m tests.corpus.build [FOLDER]`, or into the cache without FOLDER.

`python -m tests.corpus.build FOLDER 0 2` lowers the first of two halves, so that two processes share the work.
"""

import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    if not arguments:
        from .cache import folder

        sys.stdout.write(f"{folder()}\n")
        return
    part, parts = map(int, arguments[1:] or (0, 1))
    write_every(Path(arguments[0]), part, parts)


def write_every(target: Path, part: int = 0, parts: int = 1) -> None:
    from .lowering import STAGES, lower_every

    for stage in STAGES:
        (target / stage).mkdir(parents=True, exist_ok=True)
    for name, stage, text in lower_every(part, parts):
        (target / stage / f"{name}.hlo").write_bytes(text.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
