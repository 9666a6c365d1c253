"""`hloom propagate` as a program: tables, JSON, tilings, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call


def test_the_page_says_who_is_split_and_what_that_costs(call: Call, step: Path):
    output = call("propagate", step, "--mesh", "data=2,model=4", "--set", "x:0=data", "--set", "w:0=model").output
    for words in (
        "set x:0=data, w:0=model",
        "[data,model]",
        "f32[2,2]",
        "all-reduce",
        "a sum over split parts (add), jit(f)/dot",
        "sent by each device per run",
    ):
        assert words in output


def test_conflicts_are_named_with_their_way(call: Call, step: Path):
    output = call("propagate", step, "--mesh", "a=2", "--set", "x:0=a", "--set", "w:1=a").output
    assert "conflict at dot: axis a twice: dimension 0 of x from x:0=a through x -> dot" in " ".join(output.split())


def test_json_holds_all_of_it(call: Call, step: Path):
    record = json.loads(call("propagate", step, "--mesh", "m=4", "--set", "x:1=m", "--json").stdout)
    assert {item["value"]: item["spec"] for item in record["values"]} == {"x": "[-,m]", "w": "[m,-]"}
    assert record["collectives"][0]["opcode"] == "all-reduce"
    assert record["partials"] == [
        {"instruction": "dot", "computation": "main", "element": 0, "axes": ["m"], "reducer": "add"}
    ]


def test_tilings_are_listed(call: Call, step: Path):
    arguments = ("propagate", step, "--mesh", "m=2", "--enumerate")
    assert "3 components, 3 tilings" in call(*arguments).output
    every = json.loads(call(*arguments, "--json").stdout)["tilings"]
    kept = json.loads(call(*arguments, "--prune", "--json").stdout)["tilings"]
    assert {tuple(item["seeds"]) for item in every} == {("x:0=m",), ("x:1=m",), ("w:1=m",)}
    assert 0 < len(kept) < len(every)


def test_what_is_refused(call: Call, step: Path):
    assert "choose what to split with --set" in call("propagate", step, "--mesh", "m=2").output
    both = call("propagate", step, "--mesh", "m=2", "--set", "x:0=m", "--enumerate")
    assert both.exit_code == 2
    assert "--prune needs" in call("propagate", step, "--mesh", "m=2", "--set", "x:0=m", "--prune").output
    assert "a mesh of one axis" in call("propagate", step, "--mesh", "m=2,n=2", "--enumerate").output
    assert "name the mesh axes with --mesh" in call("propagate", step, "--set", "x:0=m").output
    wrong = call("propagate", step, "--mesh", "m=2", "--set", "q:0=m")
    assert wrong.exit_code == 2
    assert "has no node 'q'" in wrong.output
