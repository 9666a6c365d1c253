"""The bytes that Python has allocated (tracemalloc) for the module of a text: `python -m benchmarks.held FILE`.

Prints two numbers: after reading, and after the users are indexed. A process of its own, without jax.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from pathlib import Path

from hloom.formats.hlo import parse


def main(path: str) -> None:
    text = Path(path).read_text()
    parse("ENTRY e { ROOT x = f32[] parameter(0) }")
    tracemalloc.start()
    module = parse(text)
    gc.collect()
    print(tracemalloc.get_traced_memory()[0])
    module.index_users()
    gc.collect()
    print(tracemalloc.get_traced_memory()[0])


if __name__ == "__main__":
    main(sys.argv[1])
