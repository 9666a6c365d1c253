"""The programs of `memory_programs`, compiled once by XLA in a child process and kept under `.pytest_cache/`."""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
QUICK = (
    "attention_gradient",
    "conditional",
    "convolution_step_donated",
    "decode_with_cache",
    "elementwise_chain",
    "fft",
    "many_outputs",
    "mlp_adam_donated",
    "mlp_step",
    "scan_stacks_outputs",
    "scatter_add_donated",
    "sort_with_values",
    "update_slice",
    "while_large_carry",
    "while_unknown_length",
)
"""The programs that every run of the tests compiles."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """One program's texts, its HloProto with XLA's buffer assignment, and XLA's bytes of each kind."""

    name: str
    before: str
    after: str
    proto: Path
    sizes: dict[str, int]

    @property
    def peak(self) -> int:
        """Arguments + outputs - aliases + temporaries, as XLA allocates them."""
        return self.sizes["arguments"] + self.sizes["outputs"] - self.sizes["aliases"] + self.sizes["temporaries"]


@cache
def compiled(name: str) -> Compiled:
    """One program; the quick ones are all compiled when the first is asked for, and so are the others."""
    folder = _folder()
    if not (folder / f"{name}.json").exists():
        _compile(folder, QUICK if name in QUICK else ())
    return Compiled(
        name,
        (folder / f"{name}.before.hlo").read_text(),
        (folder / f"{name}.after.hlo").read_text(),
        folder / f"{name}.hlo.pb",
        json.loads((folder / f"{name}.json").read_text()),
    )


def every_name() -> list[str]:
    """The names of all programs, which are all compiled."""
    folder = _folder()
    if not (folder / "complete").exists():
        _compile(folder, ())
        (folder / "complete").touch()
    return sorted(path.stem for path in folder.glob("*.json"))


def _folder() -> Path:
    digest = hashlib.sha256(f"jax {version('jax')} jaxlib {version('jaxlib')}".encode())
    for name in ("memory_programs.py", "memory_worker.py"):
        digest.update((HERE / name).read_bytes())
    folder = ROOT / ".pytest_cache" / f"memory-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _compile(folder: Path, names: tuple[str, ...]) -> None:
    """Compile programs into the folder, one process at a time; a program's json is written last."""
    with open(folder.with_name("memory.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if names and all((folder / f"{name}.json").exists() for name in names):
            return
        environment = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "0",
            "XLA_FLAGS": "",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        }
        command = [sys.executable, "-m", "tests.analysis.memory_worker", str(folder), *names]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
