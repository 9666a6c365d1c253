"""The lowered programs, built once in a child process and kept under `.pytest_cache/`."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MOST_PROCESSES = 4
"""How many processes lower programs, where there are processors for them: each takes about a gigabyte."""
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    "JAX_ENABLE_X64": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}

CODE = "--xla_backend_optimization_level=0"
"""Leaves out LLVM's optimisations, of which HLO shows nothing."""


@cache
def corpus(stage: str) -> dict[str, str]:
    """Every lowered program's text by name; stage is "before" or "after" XLA's optimisations."""
    return {path.stem: path.read_bytes().decode() for path in sorted((folder() / stage).glob("*.hlo"))}


@cache
def folder() -> Path:
    """The folder that holds `before/` and `after/`, built now if it is not there yet."""
    kept = ROOT / ".pytest_cache"
    if not kept.exists():
        kept.mkdir(exist_ok=True)
        (kept / ".gitignore").write_text("*\n")
    finished = kept / f"corpus-{fingerprint()}"
    if finished.exists():
        return finished
    with open(kept / "corpus.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            build(finished)
    return finished


def fingerprint() -> str:
    digest = hashlib.sha256(f"jax {version('jax')} jaxlib {version('jaxlib')} {ENVIRONMENT}".encode())
    for path in (HERE / "lowering.py", HERE / "build.py", *sorted((HERE / "programs").glob("*.py"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def build(finished: Path) -> None:
    partial = finished.with_name(finished.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    parts = min(os.cpu_count() or 1, MOST_PROCESSES)
    command = [sys.executable, "-m", "tests.corpus.build", str(partial)]
    environment = os.environ | ENVIRONMENT | {"XLA_FLAGS": f"{ENVIRONMENT['XLA_FLAGS']} {CODE}"}
    children = [subprocess.Popen([*command, str(part), str(parts)], cwd=ROOT, env=environment) for part in range(parts)]
    statuses = [child.wait() for child in children]
    if any(statuses):
        raise RuntimeError("a child that lowers the corpus failed: see its error above")
    for stale in finished.parent.glob("corpus-*"):
        if stale != partial:
            shutil.rmtree(stale, ignore_errors=True)
    partial.rename(finished)
