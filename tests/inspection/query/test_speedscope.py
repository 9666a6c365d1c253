"""Flame graphs for speedscope: what its file format asks for, and weights that add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import hloom
from hloom.cli import main
from hloom.inspection.query import speedscope
from tests.analysis.test_op_names import NESTED
from tests.cli.conftest import STEP
from tests.inspection.query.test_query import MODULE


@pytest.mark.parametrize("by", ["scope", "layer", "source", "opcode", "computation"])
def test_weights_add_up_to_the_module(by: str):
    report = hloom.cost(MODULE)
    file = speedscope(report, by)
    frames = file["shared"]["frames"]
    totals = (report.total.flops, report.total.bytes_accessed)
    for profile, unit, total in zip(file["profiles"], ("none", "bytes"), totals, strict=True):
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", unit, 0)
        assert profile["endValue"] == sum(profile["weights"]) == total
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < len(frames) for sample in profile["samples"] for frame in sample)


def test_levels_are_those_of_the_scope_to_a_depth():
    file = speedscope(hloom.cost(MODULE), "scope", 2)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    flops = file["profiles"][0]
    (dot,) = [
        weight
        for sample, weight in zip(flops["samples"], flops["weights"], strict=True)
        if [names[frame] for frame in sample] == ["forward", "layer_0", "dot"]
    ]
    assert dot == 2 * 64 * 256 * 128


@pytest.mark.parametrize("by", ["scope", "layer", "source", "computation"])
@pytest.mark.parametrize("depth", [1, 2])
def test_the_groups_of_the_table_are_those_of_the_flame_graph(by: str, depth: int):
    module = hloom.parse(NESTED)
    report = hloom.cost(module)
    file = speedscope(report, by, depth)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    profile = file["profiles"][1]
    sums: dict[str, int] = {}
    for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
        group = "/".join(names[frame] for frame in sample[:-1])
        sums[group] = sums.get(group, 0) + weight
    rows = {row[by]: row["bytes_accessed"] for row in report.by(by, depth=depth) if row["bytes_accessed"]}
    assert sums == rows


def test_source_lines_have_files():
    frames = speedscope(hloom.cost(MODULE), "source")["shared"]["frames"]
    assert {"name": "/src/model.py:12", "file": "/src/model.py", "line": 12} in frames


def test_an_unknown_grouping():
    with pytest.raises(ValueError, match="by 'colour'"):
        speedscope(hloom.cost(MODULE), "colour")


def test_the_command_writes_one(tmp_path: Path):
    (tmp_path / "step.hlo").write_text(STEP)
    output = tmp_path / "cost.speedscope.json"
    arguments = ["cost", str(tmp_path / "step.hlo"), "--by", "scope", "-o", str(output)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert json.loads(output.read_text())["name"] == "step"
