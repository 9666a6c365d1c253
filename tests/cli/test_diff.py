"""`hloom diff`: exit statuses, tables, JSON, bad input."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import STEP, Call


def test_a_module_with_itself(call: Call, step: Path):
    result = call("diff", step, step)
    assert (result.exit_code, result.stdout) == (0, "no differences: 10 instructions match\n")


def test_differences_as_tables_and_json(call: Call, step: Path, tmp_path: Path):
    other = tmp_path / "other.hlo"
    other.write_text(STEP.replace("%zero = f32[] constant(0)", "%zero = f32[] constant(1)").replace("%dot", "%product"))
    result = call("diff", step, other)
    assert result.exit_code == 1
    assert "1 changed" in result.stdout and "value" in result.stdout and "flops" in result.stdout
    result = call("diff", step, other, "--json", "-o", "-")
    value = json.loads(result.stdout)
    assert value["counts"] == {"added": 0, "removed": 0, "changed": 1, "moved": 0, "header": 0}
    assert value["changed"][0]["differences"] == [{"what": "value", "before": "0", "after": "1"}]


def test_an_optimised_module(call: Call, step: Path, tmp_path: Path):
    other = tmp_path / "other.hlo"
    call("opt", step, "-p", "simplify,cse,dce", "-o", other)
    assert call("diff", step, other, "--no-costs", "--limit", 0).exit_code in (0, 1)


def test_names_and_order_count_where_it_is_exact(call: Call, step: Path, tmp_path: Path):
    other = tmp_path / "other.hlo"
    other.write_text(STEP.replace("%dot", "%product"))
    assert call("diff", step, other).exit_code == 0
    result = call("diff", step, other, "--exact", "--json")
    assert result.exit_code == 1
    differences = [d for change in json.loads(result.stdout)["changed"] for d in change["differences"]]
    assert [d["what"] for d in differences] == ["name"]


def test_a_module_of_a_dump_directory_is_chosen(call: Call, step: Path, tmp_path: Path):
    dump = tmp_path / "dump"
    dump.mkdir()
    for number, name in enumerate(("jit_f", "jit_g")):
        (dump / f"module_{number:04}.{name}.before_optimizations.txt").write_text(STEP)
    result = call("diff", dump, step)
    assert result.exit_code == 2
    assert "jit_g" in result.stderr
    assert call("diff", dump, step, "--module", "jit_g").exit_code == 0
    assert call("diff", dump, dump, "--module", "jit_f").exit_code == 0
    assert call("diff", dump, step, "--module", "jit_h").exit_code == 2


def test_costs_come_first_and_what_is_alike_is_one_row(call: Call, tmp_path: Path):
    lines = [f"a{n} = f32[8] sine(x)\n  b{n} = f32[8] add(a{n}, x)" for n in range(9)]
    text = "ENTRY main {\n  x = f32[8] parameter(0)\n  PARTS\n  ROOT y = f32[8] negate(b8)\n}\n"
    (tmp_path / "old.hlo").write_text(text.replace("PARTS", "\n  ".join(lines)))
    (tmp_path / "new.hlo").write_text(text.replace("PARTS", "b8 = f32[8] cosine(x)"))
    shown = call("diff", tmp_path / "old.hlo", tmp_path / "new.hlo").stdout
    titles = ("costs (", "change by scope", "instructions\n", "removed\n", "changed\n")
    assert [shown.index(title) for title in titles] == sorted(shown.index(title) for title in titles)
    removed = shown[shown.index("removed\n") : shown.index("changed\n")]
    assert [line.split()[1:4] for line in removed.splitlines() if "f32" in line] == [
        ["9", "main", "sine"], ["8", "main", "add"],
    ]  # fmt: skip
    assert "comm_bytes   0" not in shown, "what is nothing before and after has no row"


def test_bad_input_is_trouble(call: Call, step: Path, broken: Path, tmp_path: Path):
    empty = tmp_path / "empty.hlo"
    empty.write_text("")
    for file in (broken, empty, tmp_path / "absent.hlo"):
        result = call("diff", step, file)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
    assert call("diff", step).exit_code == 2
    assert call("diff", step, step, "--device", "abacus").exit_code == 2
