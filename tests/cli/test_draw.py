"""`hloom draw`: formats by suffix, parts of a module, and errors."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from hloom.formats.hlo import load
from hloom.inspection.viz import to_dot, to_graphml, to_json
from tests.cli.conftest import Call

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="pdf needs an installed Graphviz: no program 'dot'")


def test_standard_output(call: Call, step: Path):
    assert call("draw", step).stdout == to_dot(load(step))
    assert call("draw", step, "--json").stdout == to_json(load(step))


@pytest.mark.parametrize(("suffix", "writer"), [("dot", to_dot), ("json", to_json), ("graphml", to_graphml)])
def test_into_a_file(call: Call, step: Path, tmp_path: Path, suffix: str, writer):
    result = call("draw", step, "-o", tmp_path / f"x.{suffix}")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / f"x.{suffix}").read_text() == writer(load(step))
    assert sorted(os.listdir(tmp_path)) == ["step.hlo", f"x.{suffix}"]


@pytest.mark.parametrize(
    ("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), pytest.param("pdf", b"%PDF", marks=needs_dot)]
)
def test_pictures(call: Call, step: Path, tmp_path: Path, suffix: str, magic: bytes):
    assert call("draw", step, "-o", tmp_path / f"x.{suffix}").exit_code == 0
    assert (tmp_path / f"x.{suffix}").read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--computation", "sum"), ["a", "b", "add"]),
        (("--around", "total", "--hops", "0"), ["total"]),
        (("--around", "main/total", "--hops", "1"), ["dot", "zero", "total", "out"]),
        (("--around", "total", "--hops", "1", "--across-calls"), ["a", "b", "add", "dot", "zero", "total", "out"]),
    ],
)
def test_parts(call: Call, step: Path, options: tuple[str, ...], names: list[str]):
    record = json.loads(call("draw", step, "--json", *options).stdout)
    assert [node["name"] for node in record["nodes"]] == names


def test_a_node_that_is_not_there(call: Call, step: Path, tmp_path: Path):
    target = tmp_path / "x.dot"
    target.write_text("before")
    result = call("draw", step, "--around", "dto", "-o", target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: module step has no node 'dto'\n  near: dot\n"
    assert target.read_text() == "before"


def test_a_suffix_that_is_no_format(call: Call, step: Path, tmp_path: Path):
    result = call("draw", step, "-o", tmp_path / "x.gif")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "must end in one of the suffixes .dot .gv .json .graphml .svg .png .pdf" in result.stderr
    assert not (tmp_path / "x.gif").exists()
