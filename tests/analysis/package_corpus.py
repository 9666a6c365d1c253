"""The programs of `package_programs`, compiled once by XLA in a child process and kept under `.pytest_cache/`."""

import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.analysis.memory_corpus import Compiled

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
HELD_OUT = "held_out"
PACKAGES: dict[str, tuple[str, ...]] = {
    "loops": (),
    "networks": ("flax", "optax"),
    "numerics": ("diffrax", "equinox", "haiku", "jaxopt", "mujoco.mjx", "numpyro", "optax"),
    "samplers": ("diffrax", "equinox", "numpyro"),
    "pretrained": ("diffusers", "optax", "transformers"),
    HELD_OUT: ("diffrax", "equinox", "flax", "haiku", "mujoco.mjx", "numpyro", "optax"),
}
"""By file the packages that its programs import."""


def missing(file: str) -> list[str]:
    """The packages that a file's programs import and that are not there, unless they are compiled already."""
    return [] if (_folder(file) / "complete").exists() else [name for name in PACKAGES[file] if not _is_there(name)]


@cache
def programs_of(file: str) -> tuple[Compiled, ...]:
    """The programs of a file, by name."""
    folder = _folder(file)
    with open(folder.with_name(f"{file}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _compile(folder, file)
    return tuple(_read(folder, path.stem) for path in sorted(folder.glob("*.json")))


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False


def _folder(file: str) -> Path:
    digest = hashlib.sha256(f"jax {version('jax')} jaxlib {version('jaxlib')}".encode())
    for path in (HERE / "package_worker.py", *(HERE / "package_programs" / f"{name}.py" for name in ("registry", file))):
        digest.update(path.read_bytes())
    folder = ROOT / ".pytest_cache" / f"packages-{file}-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _compile(folder: Path, file: str) -> None:
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "0",
        "XLA_FLAGS": "",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }
    command = [sys.executable, "-m", "tests.analysis.package_worker", str(folder), file]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def _read(folder: Path, name: str) -> Compiled:
    return Compiled(
        name,
        (folder / f"{name}.before.hlo").read_text(),
        (folder / f"{name}.after.hlo").read_text(),
        folder / f"{name}.hlo.pb",
        json.loads((folder / f"{name}.json").read_text()),
    )
