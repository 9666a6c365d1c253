"""Lower programs of installed packages to HLO: for each `FILE_PROGRAM.hlo`, and `.optimized.hlo` as XLA optimises it.

    python scripts/make_package_dumps.py DIRECTORY               of every package that is installed
    python scripts/make_package_dumps.py DIRECTORY NAME...       of these packages or programs alone

What is not installed is named and skipped. The programs stand in scripts/package_programs; scripts/check_dumps.py runs
every subcommand on their dumps.

    pip install flax dm-haiku equinox optax diffrax numpyro keras mujoco-mjx rlax mctx jraph blackjax
    pip install tensorflow-cpu          in an environment of its own
    pip install torch==2.9.0 torch_xla==2.9.0          likewise; torch_xla 2.9 is built for torch 2.9
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from time import process_time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Flags with which XLA's own passes run as ever, and LLVM's are left out."""
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FAST}"

FILES = (
    "jax", "flax", "haiku", "equinox", "optax", "diffrax", "numpyro", "keras", "mujoco", "search", "tensorflow",
    "torch_xla",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    directory, *names = arguments
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    written = failed = 0
    for file in FILES:
        try:
            module = importlib.import_module(f"package_programs.{file}_programs")
        except ImportError as error:
            print(f"skipped  {file}: {error}")
            continue
        for name, program in module.PROGRAMS.items():
            title = f"{file}_{name}"
            if names and not {file, name, title} & set(names):
                continue
            started = process_time()
            try:
                for stage, text in module.texts(program()):
                    (folder / f"{title}{stage}.hlo").write_text(text)
                    written += 1
            except Exception:  # whatever a package raises: the others are still written
                failed += 1
                print(f"FAILED   {title}: {traceback.format_exc(limit=-3)}", flush=True)
            else:
                print(f"wrote    {title} in {process_time() - started:.1f} s", flush=True)
    print(f"{written} dumps, {failed} programs failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
