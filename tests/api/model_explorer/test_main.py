"""The extensions as Model Explorer's ExtensionManager loads and runs them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
STEP = """HloModule step

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,2] parameter(1)
  dot = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/layer/dot"}
  ROOT out = f32[4,2] tanh(dot), metadata={op_name="jit(f)/layer/tanh"}
}
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("model_explorer") is None, reason="Model Explorer is not installed"
)


@pytest.fixture
def step(tmp_path: Path) -> Path:
    path = tmp_path / "step.hlo"
    path.write_text(STEP)
    return path


def managed(path: Path, extension: str, command: str, *graph: str) -> dict[str, Any]:
    program = Path(__file__).parent / "extension_manager.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, str(program), str(path), extension, command, *graph],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_adapter_gives_graphs(step: Path):
    result = managed(step, "hloom", "convert")
    (adapter,) = (known for known in result["metadata"] if known["type"] == "adapter")
    assert "hlo" in adapter["fileExts"]
    (graph,) = result["answer"]["graphs"]
    assert graph["id"] == "main"
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert nodes["main/dot"]["namespace"] == nodes["main/out"]["namespace"] == "layer"
    assert [edge["sourceNodeId"] for edge in nodes["main/dot"]["incomingEdges"]] == ["main/x", "main/w"]


def test_node_data_colour_the_graphs_that_the_adapter_gives(step: Path):
    result = managed(step, "hloom_flops", "run", "main")
    data = result["answer"]["result"]
    assert {node: result["value"] for node, result in data["results"].items()} == {"main/dot": 2 * 4 * 2 * 8}
    assert data["gradient"]
    assert len(result["metadata"]) > 5


def test_what_no_instruction_has_is_said(step: Path):
    assert managed(step, "hloom_sharding", "run", "main")["answer"]["error"] == "main: no instruction has 'sharding'"


def test_a_file_that_does_not_read_is_said_with_its_place(tmp_path: Path):
    path = tmp_path / "broken.hlo"
    path.write_text("ENTRY e {\n  ROOT x = f32[2] negate(\n}\n")
    assert f"{path}:3:1: expected an operand" in managed(path, "hloom", "convert")["answer"]["raised"]
