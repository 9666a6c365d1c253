"""The sdist and the wheel: built from a copy of this checkout, complete, and of use without jax."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import hloom

ROOT = Path(__file__).resolve().parent.parent
MOST_WHEEL_BYTES = 6 << 20
"""The maximum size of the wheel; it has 4.4 MB, 1.6 of them the graph viewer of pages."""
BUILD = "from setuptools import build_meta as backend; print(backend.{call}({folder!r}))"
NOT_COPIED = (
    ".git",
    ".venv",
    "out",
    "build",
    "dist",
    "*.egg-info",
    "__pycache__",
    ".targets",
    ".*_cache",
    ".hypothesis",
)


@dataclass(frozen=True, slots=True)
class BuiltFiles:
    """The two files, and the wheel unpacked."""

    sdist: Path
    wheel: Path
    installed: Path

    @property
    def metadata(self) -> Message:
        (path,) = self.installed.glob("hloom-*.dist-info/METADATA")
        return Parser().parsestr(path.read_text(encoding="utf-8"))


def built(call: str, source: Path, folder: Path) -> Path:
    """The file that the build backend makes of a source tree."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(call=call, folder=str(folder))],
        cwd=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return folder / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def built_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltFiles]:
    """The wheel is built from the sdist, as pip does where it finds no wheel."""
    folder = tmp_path_factory.mktemp("distribution")
    shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*NOT_COPIED))
    sdist = built("build_sdist", folder / "checkout", folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    wheel = built("build_wheel", source, folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    yield BuiltFiles(sdist, wheel, folder / "installed")
    shutil.rmtree(folder)


def files_of(folder: Path) -> set[str]:
    """Paths of the files in a folder that belong to a source tree."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(built_files: BuiltFiles):
    assert files_of(built_files.installed / "hloom") == files_of(ROOT / "src" / "hloom")
    assert "py.typed" in files_of(built_files.installed / "hloom")
    assert {path.name.partition("-")[0] for path in built_files.installed.iterdir()} == {"hloom"}
    assert built_files.wheel.stat().st_size < MOST_WHEEL_BYTES
    assert built_files.wheel.name == f"hloom-{hloom.__version__}-py3-none-any.whl"


def test_the_sdist_can_be_tested_and_documented(built_files: BuiltFiles):
    with tarfile.open(built_files.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    kept = ("docs", "tests", "scripts", "benchmarks")
    wanted = {f"{folder}/{name}" for folder in kept for name in files_of(ROOT / folder)}
    wanted |= {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "mkdocs.yml", "pyproject.toml"}
    assert sorted(wanted - names) == []


def test_the_metadata_say_what_it_is_and_under_which_licences(built_files: BuiltFiles):
    metadata = built_files.metadata
    assert metadata["Name"] == "hloom"
    assert metadata["Version"] == hloom.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    licences = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.LICENSE")}
    assert set(metadata.get_all("License-File", [])) == {"LICENSE"} | licences
    always = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert not [line for line in always if line.startswith("jax")]


def dependencies_of(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The installed packages that one needs without any extra, with those that they need, by name."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        needed = canonicalize_name(requirement.name)
        if needed not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[needed] = distribution(needed)
            dependencies_of(needed, found)
    return found


@pytest.fixture(scope="module")
def interpreter(built_files: BuiltFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the wheel and what it needs, linked from the environment of the tests, and no jax."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for package in dependencies_of("hloom", {}).values():
        for top in {path.parts[0] for path in package.files or () if path.parts[0] not in ("..", "__pycache__")}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(str(package.locate_file(top))))
    shutil.copytree(built_files.installed, packages, dirs_exist_ok=True)
    return folder / "bin" / "python"


def without_settings() -> dict[str, str]:
    """The environment's variables, without those of hloom and of Python."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HLOOM_", "PYTHON"))}


def test_every_subcommand_works_without_jax_or_says_that_it_needs_it(interpreter: Path, tmp_path: Path):
    command = [str(interpreter), "-P", str(ROOT / "scripts" / "try_subcommands.py"), str(tmp_path)]
    done = subprocess.run(command, env=without_settings(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_where_nothing_can_be_kept_and_nobody_is_at_home(interpreter: Path, tmp_path: Path):
    """A container's user often has no home folder; the program's folder may be all that can be written to."""
    (tmp_path / "step.hlo").write_text("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
    variables = without_settings() | {"HOME": "/nowhere", "XDG_CACHE_HOME": "/nowhere/cache"}
    for words in ("inspect step.hlo", "opt step.hlo -p simplify -o out.hlo", "doctor"):
        command = [str(interpreter), "-P", "-m", "hloom", *words.split()]
        done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
