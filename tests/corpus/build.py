"""Lower every program into a folder: `python -m tests.corpus.build [FOLDER]`, or into the cache without FOLDER."""

import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    if not arguments:
        from .cache import folder

        sys.stdout.write(f"{folder()}\n")
        return
    write_every(Path(arguments[0]))


def write_every(target: Path) -> None:
    from .lowering import STAGES, lower_every

    for stage in STAGES:
        (target / stage).mkdir(parents=True, exist_ok=True)
    for name, stage, text in lower_every():
        (target / stage / f"{name}.hlo").write_bytes(text.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
