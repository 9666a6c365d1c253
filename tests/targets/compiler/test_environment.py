"""Where compilers are found, and what is said where they are not."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from hloom.targets.compiler import MissingCompiler, environment, find_environment
from hloom.targets.compiler.environment import child_environment
from tests.targets.compiler.fake_compiler import FakeCompiler


def test_a_variable_names_the_interpreter(compiler: FakeCompiler):
    found = find_environment("tpu")
    assert (found.python, found.found_by) == (str(compiler.python), "HLOOM_TPU_PYTHON")
    assert found.versions == {"python": "3.11.7", "jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.42"}
    assert find_environment("cuda").versions["jax-cuda12-plugin"] == "0.10.2"


def test_an_interpreter_without_the_compiler(compiler: FakeCompiler):
    compiler.plays("success", {"python": "3.11.7", "jax": "0.10.2", "jaxlib": "0.10.2"})
    with pytest.raises(
        MissingCompiler, match=r"does not have jax-cuda12-plugin or jax-cuda13-plugin\n.*-m pip install"
    ):
        find_environment("cuda")
    assert find_environment("cpu").versions["jax"] == "0.10.2"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("#!/bin/sh\necho hello\n", "does not answer as a Python interpreter does"),
        ("#!/bin/sh\necho '[1]'\n", "does not answer as a Python interpreter does"),
        ("#!/bin/sh\nprintf '{\"a\":%09000d' 0 | tr 0 '['\n", "does not answer as a Python interpreter does"),
        ("#!/nowhere/at/all\n", "cannot start .*: no such file"),
    ],
)
def test_a_program_that_is_no_interpreter(contents: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "python"
    path.write_text(contents)
    path.chmod(0o755)
    monkeypatch.setenv("HLOOM_TPU_PYTHON", str(path))
    with pytest.raises(MissingCompiler, match=message):
        find_environment("tpu")


def test_a_path_that_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HLOOM_GPU_PYTHON", str(tmp_path / "none"))
    with pytest.raises(MissingCompiler, match="is not an executable file\n  give the path of an interpreter"):
        find_environment("cuda")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("")
    monkeypatch.setenv("HLOOM_GPU_PYTHON", str(tmp_path))
    with pytest.raises(MissingCompiler, match=r"is a folder\n  give .*/bin/python"):
        find_environment("cuda")


def test_an_interpreter_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    monkeypatch.setenv("HLOOM_TPU_PYTHON", str(path))
    monkeypatch.setattr(environment, "PROBE_SECONDS", 0.2)
    with pytest.raises(MissingCompiler, match="did not answer"):
        find_environment("tpu")


def test_this_interpreter_serves_where_the_packages_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HLOOM_TPU_PYTHON", raising=False)
    monkeypatch.setattr(environment, "version", lambda name: "1.0")
    assert find_environment("tpu").python == sys.executable

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(environment, "version", missing)
    with pytest.raises(
        MissingCompiler, match="the compiler for v2 to v7x is not installed here: jax and jaxlib and libtpu missing"
    ):
        find_environment("tpu")
    with pytest.raises(MissingCompiler, match="the compiler for v5e:2x2 is not installed here"):
        find_environment("tpu", "v5e:2x2")


def test_settings_of_this_process_do_not_reach_the_compiler(monkeypatch: pytest.MonkeyPatch):
    for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_ENABLE_X64", "PYTHONPATH", "TPU_NAME"):
        monkeypatch.setenv(name, "inherited")
    made = child_environment("tpu", 4, "--xla_dump_to=x", "folder")
    assert "inherited" not in made.values()
    assert made["XLA_FLAGS"] == "--xla_dump_to=x"
    assert made["ALLOW_MULTIPLE_LIBTPU_LOAD"] == "1"
    assert "device_count=4" in child_environment("cpu", 4, "", "folder")["XLA_FLAGS"]
    assert child_environment("cuda", 4, "", "folder")["CUDA_VISIBLE_DEVICES"] == ""


def test_a_relative_path_holds_in_the_folder_of_a_compilation(compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(compiler.python.parent)
    monkeypatch.setenv("HLOOM_TPU_PYTHON", compiler.python.name)
    assert find_environment("tpu").python == str(compiler.python)


def test_an_interpreter_may_warn_before_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho warning >&2\necho '{\"jax\": \"1\", \"jaxlib\": \"1\", \"libtpu\": \"1\"}'\n")
    path.chmod(0o755)
    monkeypatch.setenv("HLOOM_TPU_PYTHON", str(path))
    assert find_environment("tpu").versions["libtpu"] == "1"
