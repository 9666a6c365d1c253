"""`hloom opt`: pipelines, own passes, rule files, reports, misses, steps, verification, MLIR, and errors.

Covers `pass_pipeline.py`, `pass_report.py`, `steps.py`, `misses.py`, `user_passes.py`, `languages.py`,
`equivalence.py`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hloom.formats.hlo import load, parse
from hloom.ir import equal
from hloom.rewrite import rule, save_rules
from tests.cli.conftest import ROOT, STEP, Call

MODULE = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  c = f32[4] sine(b)
  d = f32[4] sine(x)
  ROOT r = f32[4] add(c, d)
}
"""
WITHOUT_NEGATIONS = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  c = f32[4] sine(x)
  d = f32[4] sine(x)
  ROOT r = f32[4] add(c, d)
}
"""
SMALLEST = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  c = f32[4] sine(x)
  ROOT r = f32[4] add(c, c)
}
"""
OWN = '''"""Rules and passes of a user's own."""

from hloom.passes import Pass, fixpoint
from hloom.rewrite import Family, Report

NEGATIONS = Family("own-negations")


@NEGATIONS.rewrites("negate")
def own_double_negation(build, node):
    """negate(negate(x)) -> x

    Exact.
    """
    inner = node.operands[0]
    if inner.opcode != "negate":
        return build.decline(f"its operand is {inner.opcode}, not negate")
    return inner.operands[0]


WRONG = Family("own-wrong")


@WRONG.rewrites("sine", because="knows better")
def own_sine_to_cosine(build, node):
    """sine(x) -> cosine(x): other numbers"""
    if node.operands[0].opcode == "multiply":
        return None
    return build.op("cosine", node.operands[0])


def _name_after(module, *, seed=0):
    module.name = f"seeded_{seed}"
    return Report("own-seeded", changes=1)


seeded = Pass("own-seeded", _name_after, "put the seed into the name", ("seed",))
failing = Pass("own-failing", lambda module: module["nowhere at all"] + 1 / 0, "fail")
raising = Pass("own-raising", lambda module: 1 / 0, "raise")
breaking = Pass("own-breaking", lambda module: _swap(module), "break the types")
together = fixpoint("own-together", [NEGATIONS, "cse"], "both")


def _swap(module):
    from hloom.ir import TensorType, dtype

    module.entry.set_type(module.entry.root, TensorType(dtype("f32"), (5,)))
    return Report("own-breaking", changes=1)
'''
BEFORE_MLIR = """module {
  func.func @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "some.op"(%arg0) {value = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(MODULE)
    return path


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all tests: a name of a native rule belongs to one place in a process."""
    path = tmp_path_factory.mktemp("own") / "own_passes.py"
    path.write_text(OWN)
    return path


def assert_is(text: str, expected: str) -> None:
    assert equal(parse(text), parse(expected)), text


# Pipelines


def test_without_passes_nothing_would_change(call: Call, module: Path, tmp_path: Path):
    result = call("opt", module)
    assert (result.exit_code, result.stdout) == (2, "") and "name passes with -p" in result.stderr
    written = call("opt", module, "-o", tmp_path / "same.hlo")
    assert (written.exit_code, written.stderr) == (0, "note: no passes given (-p), so the module is written unchanged\n")
    assert_is((tmp_path / "same.hlo").read_text(), MODULE)


@pytest.mark.parametrize(
    "passes", ["own-negations,cse", "own-double-negation , cse", "own-together", "fixpoint(own_passes_only,cse)"]
)
def test_pipelines(call: Call, module: Path, own: Path, passes: str):
    passes = passes.replace("own_passes_only", "own-negations")
    result = call("opt", module, "--load", own, "-p", passes)
    assert (result.exit_code, result.stderr) == (0, "")
    assert_is(result.stdout, SMALLEST)


def test_p_may_be_given_again(call: Call, module: Path, own: Path):
    assert_is(call("opt", module, "--load", own, "-p", "own-negations", "-p", "cse").stdout, SMALLEST)


def test_all_rules_of_a_file_go_by_its_name(call: Call, module: Path, own: Path):
    result = call("opt", module, "--load", own, "-p", "own_passes")
    assert "cosine" in result.stdout and "negate" not in result.stdout


def test_rule_files(call: Call, module: Path, tmp_path: Path):
    @rule
    def saved_double_negation(p):
        """negate(negate(x)) -> x"""
        x = p.value("x")
        outer = p.op("negate", p.op("negate", x))
        with p.rewrite() as r:
            r.replace({outer: x})

    save_rules([saved_double_negation], tmp_path / "rules.json")
    result = call("opt", module, "-p", f"fixpoint({tmp_path / 'rules.json'},cse)")
    assert (result.exit_code, result.stderr) == (0, "")
    assert_is(result.stdout, SMALLEST)
    listed = call("opt", "--list-rules", tmp_path / "rules.json")
    assert "saved-double-negation" in listed.stdout and "negate(negate(x)) -> x" in listed.stdout


def test_a_seed_goes_to_passes_that_take_one(call: Call, module: Path, own: Path):
    assert "HloModule seeded_0" in call("opt", module, "--load", own, "-p", "own-seeded").stdout
    for passes in ("own-seeded", "cse,fixpoint(cse,dce),own-seeded"):
        assert "HloModule seeded_7" in call("opt", module, "--load", own, "-p", passes, "--seed", "7").stdout


# Files


@pytest.mark.parametrize("name", ["out.hlo", "out.pb", "out.hlo.gz"])
def test_into_a_file(call: Call, module: Path, own: Path, tmp_path: Path, name: str):
    result = call("opt", module, "--load", own, "-p", "own-together", "-o", tmp_path / name)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert [node.opcode for node in load(tmp_path / name).entry.nodes] == ["parameter", "sine", "add"]


def test_the_standard_input(call: Call):
    assert_is(call("opt", "-", "-p", "cse", input=MODULE).stdout, MODULE)
    assert call("opt", "-", "-p", "dce", input=BEFORE_MLIR).stdout == BEFORE_MLIR


@pytest.mark.parametrize("name", ["f.mlir", "f.txt"])
def test_mlir_is_read_and_printed(call: Call, tmp_path: Path, name: str):
    (tmp_path / name).write_text(f"// a comment\n{BEFORE_MLIR}")
    result = call("opt", tmp_path / name, "-p", "dce,cse", "--print-after-all")
    assert (result.exit_code, result.stdout) == (0, BEFORE_MLIR)
    assert result.stderr == "dce changed nothing\ncse changed nothing\n"
    result = call("opt", tmp_path / name, "-o", tmp_path / "f.pb")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "MLIR is written as plain text; it cannot be written to 'f.pb'" in result.stderr


def test_errors_in_mlir_have_their_place(call: Call, tmp_path: Path):
    (tmp_path / "f.mlir").write_text("module {\n  func.func @f( {\n}\n")
    result = call("opt", tmp_path / "f.mlir")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {tmp_path / 'f.mlir'}:2:")


def test_the_oneflow_example(call: Call):
    examples = ROOT / "tests" / "dialects" / "oneflow"
    before, after = (examples / f"oneflow_bias_add_dropout.{case}.mlir" for case in ("before", "after"))
    result = call("opt", before, "-p", "fuse-bias-add-dropout", "--seed", "4920936260932536")
    assert (result.exit_code, result.stdout) == (0, after.read_text())


# Verification


def test_verify(call: Call, module: Path, own: Path, tmp_path: Path):
    result = call("opt", module, "--load", own, "-p", "own-together", "--verify", "--seed", "3")
    assert (result.exit_code, result.stderr) == (
        0,
        "verified on random inputs of seed 3: 1 of 1 outputs agree, to the last bit\n",
    )
    target = tmp_path / "out.hlo"
    result = call("opt", module, "--load", own, "-p", "own-wrong", "--verify", "-o", target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("1 of 1 outputs differ on random inputs of seed 0\n  output 0: f32[4]: ")
    assert "\nworst difference: output 0: f32[4]: " in result.stderr
    assert not target.exists()
    assert call("opt", module, "--load", own, "-p", "own-wrong", "--verify", "--rtol", "10").exit_code == 0


def test_verify_where_parameters_go_or_come(call: Call, tmp_path: Path):
    """Inputs go by the names of parameters: those that are left take what they took before, and no others."""
    text = "ENTRY e {\n a = f32[2] parameter(0)\n b = f32[4] parameter(1)\n ROOT c = f32[4] negate(b)\n}"
    (tmp_path / "m.hlo").write_text(text)
    result = call("opt", tmp_path / "m.hlo", "-p", "dce(parameters=1)", "--verify")
    assert (result.exit_code, "1 of 1 outputs agree, to the last bit" in result.stderr) == (0, True)
    assert "parameter(1)" not in result.stdout
    (tmp_path / "own.py").write_text(
        "from hloom.passes import register_pass\nfrom hloom.rewrite import Report\n"
        "def more(module):\n    module.entry.add_parameter(module.entry.root.type, 'more')\n"
        "    return Report('more', changes=1)\n"
        "register_pass('more', 'add a parameter', more)\n"
    )
    result = call("opt", tmp_path / "m.hlo", "--load", tmp_path / "own.py", "-p", "more", "--verify")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the passes gave the entry the parameter more: f32[4]" in result.stderr


def test_a_registered_pass_that_returns_no_report(call: Call, module: Path, tmp_path: Path):
    (tmp_path / "own.py").write_text("from hloom.passes import register_pass\nregister_pass('idle', '', id)\n")
    result = call("opt", module, "--load", tmp_path / "own.py", "-p", "idle")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the pass idle returned int, not a Report" in result.stderr


def test_verify_each(call: Call, module: Path, own: Path):
    result = call("opt", module, "--load", own, "-p", "cse,own-breaking,dce", "--verify-each")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "after pass own-breaking: " in result.stderr
    assert call("opt", module, "--load", own, "-p", "cse,dce", "--verify-each").exit_code == 0


# Accounts


def test_report(call: Call, module: Path, own: Path):
    result = call("opt", module, "--load", own, "-p", "fixpoint(own-negations,cse)", "--report")
    assert_is(result.stdout, SMALLEST)
    lines = [line.split() for line in result.stderr.splitlines()]
    assert ["own-negations", "2", "1", "1", "2"] in [line[:5] for line in lines]
    assert ["own-double-negation", "2", "1"] in [line[:3] for line in lines]
    assert "1 x its operand is parameter, not negate" in result.stderr


def test_json(call: Call, module: Path, own: Path, tmp_path: Path):
    options = ("--load", own, "-p", "own-negations,cse", "--verify", "--trace-misses", "c", "--json")
    record = json.loads(call("opt", module, *options).stdout)
    assert record["module"] == "m" and record["changed"] is True
    assert record["steps"] == [{"rule": "own-double-negation", "computation": "main", "name": "b"}]
    assert record["report"]["passes"][0]["rules"][0]["rejected"] == {"its operand is parameter, not negate": 1}
    assert record["verify"] == {"agrees": True, "seed": 0, "outputs": 1, "differences": [], "worst": None}
    assert [miss["node"] for miss in record["misses"]] == ["main.c"]
    assert_is(record["text"], SMALLEST)
    record = json.loads(call("opt", module, *options, "-o", tmp_path / "out.hlo").stdout)
    assert "text" not in record
    assert equal(load(tmp_path / "out.hlo"), parse(SMALLEST))


def test_misses(call: Call, module: Path, own: Path):
    result = call("opt", module, "--load", own, "-p", "own-wrong", "--trace-misses", "main.a")
    assert result.stderr == "main.a (negate), as the passes left it:\n  rules for other opcodes: 1\n"
    options = ("--load", own, "-p", "own_passes", "--trace-misses", "a", "--trace-misses", "b")
    assert call("opt", module, *options).stderr.splitlines() == [
        "main.a (negate), as it was read; it has been removed:",
        "  own-double-negation  its operand is parameter, not negate",
        "  rules for other opcodes: 1",
        "main.b (negate), as it was read; own-double-negation replaced it:",
        "  own-double-negation  fires here",
        "  rules for other opcodes: 1",
    ]


def test_native_rules_that_do_not_say_why(call: Call, own: Path, tmp_path: Path):
    path = tmp_path / "m.hlo"
    path.write_text(MODULE.replace("negate(a)", "multiply(a, a)"))
    lines = call("opt", path, "--load", own, "-p", "own-wrong", "--trace-misses", "c").stderr.splitlines()
    line = f'it does not match: {own}:27: if node.operands[0].opcode == "multiply":'
    assert lines == ["main.c (sine), as the passes left it:", f"  own-sine-to-cosine  {line}"]


def test_misses_at_no_node_or_several(call: Call, module: Path, tmp_path: Path):
    result = call("opt", module, "-p", "fold", "--trace-misses", "main.dd")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: no instruction is called 'main.dd'\n  near: d\n"
    (tmp_path / "two.hlo").write_text(STEP.replace("%dot", "%add"))
    result = call("opt", tmp_path / "two.hlo", "-p", "fold", "--trace-misses", "add")
    assert result.stderr == "error: several instructions are called 'add': sum.add, main.add\n  write COMPUTATION.INSTRUCTION\n"


def test_diffs(call: Call, module: Path, own: Path):
    result = call("opt", module, "--load", own, "-p", "fixpoint(own-negations,cse)", "--print-after-all")
    assert_is(result.stdout, SMALLEST)
    lines = result.stderr.splitlines()
    assert [line for line in lines if line[:3] in ("---", "+++")] == [
        "--- before own-negations",
        "+++ after own-negations",
        "--- before cse",
        "+++ after cse",
    ]
    assert {"-  b = f32[4] negate(a)", "+  c = f32[4] sine(x)", "+  ROOT r = f32[4] add(c, c)"} <= set(lines)
    assert lines[-2:] == ["own-negations changed nothing", "cse changed nothing"]
    changed = call("opt", module, "--load", own, "-p", "fixpoint(own-negations,cse)", "--print-changed")
    assert changed.stderr.splitlines() == lines[:-2]


def test_steps(call: Call, module: Path, own: Path):
    options = ("--load", own, "-p", "own-negations,cse,own-wrong")
    result = call("opt", module, *options, "--steps")
    assert result.stderr.splitlines() == [
        "     1  own-double-negation at main.b",
        "        cse: 1 erased",
        "     2  own-sine-to-cosine at main.c",
    ]
    whole = result.stdout
    for last, expected in ((0, MODULE), (1, WITHOUT_NEGATIONS), (2, whole)):
        assert_is(call("opt", module, *options, "--until", last).stdout, expected)
    result = call("opt", module, *options, "--until", "3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: there is no step 3: the passes took 2\n  --steps lists them\n"


def test_steps_within_a_fixpoint_and_verified(call: Call, module: Path, own: Path):
    options = ("--load", own, "-p", "fixpoint(own-wrong,cse,own-negations)", "--verify")
    assert call("opt", module, *options, "--until", "0").exit_code == 0
    assert call("opt", module, *options, "--until", "1").exit_code == 1
    assert call("opt", module, *options, "--until", "2").exit_code == 1


# Lists


def test_list(call: Call, own: Path):
    result = call("opt", "--list", "--load", own)
    assert result.exit_code == 0
    for line in ("cse ", "own-seeded ", "own-double-negation "):
        assert any(output_line.strip().startswith(line) for output_line in result.stdout.splitlines())
    record = json.loads(call("opt", "--list", "--load", own, "--json").stdout)
    assert {"pass": "own-seeded", "summary": "put the seed into the name", "options": ["seed"]} in record["passes"]


def test_list_rules(call: Call, own: Path):
    result = call("opt", "--load", own, "--list-rules", "own-together,own-wrong")
    assert result.exit_code == 0
    line = next(output_line for output_line in result.stdout.splitlines() if "own-double-negation" in output_line)
    assert line.split("  ")[0].strip() == "own-double-negation"
    assert "own-negations" in line and "negate(negate(x)) -> x" in line
    (first, *_) = json.loads(call("opt", "--load", own, "--list-rules", "own-together", "--json").stdout)["rules"]
    assert first["origin"] == f"{own}:9"
    assert (first["roots"], first["statement"]) == (["negate"], "negate(negate(x)) -> x")
    assert first["because"] is None
    assert "native: it knows better" in call("opt", "--load", own, "--list-rules", "own-wrong").stdout
    (wrong,) = json.loads(call("opt", "--load", own, "--list-rules", "own-wrong", "--json").stdout)["rules"]
    assert wrong["because"] == "knows better"
    assert call("opt", "--list-rules", "cse").stdout == "these passes have no rules\n"


# Errors


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("cse,fixpint", "-p:1:5: there is no pass named 'fixpint'\n  cse,fixpint\n      ^\n  hloom opt --list lists the passes"),
        ("fixpoint(cse,,dce)", "-p:1:14: expected a pass, found ','\n  fixpoint(cse,,dce)\n               ^\n"),
        ("fixpoint(cse", "-p:1:13: expected ',' or ')', found the end of the text\n  fixpoint(cse\n              ^\n"),
        ("cse)", "-p:1:4: expected ',' or the end, found ')'\n  cse)\n     ^\n"),
        ("cse(dce)", "-p:1:1: 'cse' takes no passes and no options, fixpoint takes passes\n  cse(dce)\n  ^\n"),
        ("microbatch(k=2)", "-p:1:12: k is not one of its options\n"),
        ("microbatch(2", "-p:1:13: expected ',' or ')', found the end of the text\n"),
        ("microbatch(n=2,n=3)", "n is given twice"),
        ("dec", "-p:1:1: there is no pass named 'dec'\n  dec\n  ^\n  near: dce"),
        ("fixpoint", "fixpoint takes passes: fixpoint(simplify,cse)"),
        ("fixpoint(" * 21 + "cse" + ")" * 21, "more than 20 fixpoints, one in another"),
    ],
)
def test_broken_pipelines(call: Call, module: Path, passes: str, message: str):
    result = call("opt", module, "-p", passes)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_passes_take_options(call: Call, tmp_path: Path):
    file = tmp_path / "negated.hlo"
    file.write_text("ENTRY e { x = f32[8,2] parameter(0)\n ROOT y = f32[8,2] negate(x) }")
    for passes in ("microbatch(4)", "microbatch(n=4, batch=x:0),dce"):
        result = call("opt", file, "-p", passes, "-o", "-")
        assert result.exit_code == 0
        assert "f32[2,2] negate(" in result.stdout
    result = call("opt", file, "-p", "microbatch(3)")
    assert result.exit_code == 2
    assert "can be cut into 3 slices without mixing examples" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-p", "cse", "--seed", "1"), "--seed needs --verify or a pass that takes a seed; these passes take none"),
        (("-p", "cse", "--rtol", "1"), "--rtol needs --verify"),
        (("-p", "cse", "--until", "-1"), "-1 is not in the range x>=0"),
    ],
)
def test_bad_usage(call: Call, module: Path, options: tuple[str, ...], message: str):
    result = call("opt", module, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_file_is_needed(call: Call):
    result = call("opt", "-p", "cse")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "Error: Missing argument 'FILE'.")


def test_own_passes_that_fail(call: Call, module: Path, own: Path, tmp_path: Path):
    target = tmp_path / "out.hlo"
    target.write_text("before")
    result = call("opt", module, "--load", own, "-p", "own-raising", "-o", target)
    assert (result.exit_code, result.stdout, target.read_text()) == (2, "", "before")
    assert "a pass raised ZeroDivisionError: division by zero\n" in result.stderr
    assert result.stderr.startswith(f"error: {own}:39:")
    result = call("opt", module, "--load", own, "-p", "own-failing")
    assert result.stderr.startswith("error: module m has no graph 'nowhere at all'")


def test_a_rule_that_fails(call: Call, module: Path, tmp_path: Path):
    path = tmp_path / "failing_rules.py"
    path.write_text(OWN.replace('"own-', '"failing-').replace("return inner.operands[0]", "return inner.operands[1]"))
    result = call("opt", module, "--load", path, "-p", "failing-negations")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: rule own-double-negation ({path}:9) failed at ")
    assert result.stderr.endswith("IndexError: tuple index out of range\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "bad.py:1:7: invalid syntax\n  def f(:\n        ^\n"),
        ("import hloom\n\nvalue = 1 / 0\n", "bad.py:3:9: bad.py failed: ZeroDivisionError: division by zero\n"),
        ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such_module_at_all'\n"),
        ("from hloom.passes import Pass\ncse = Pass('cse', print)\n", "bad.py: there is a pass named 'cse' already\n"),
    ],
)
def test_files_of_passes_that_do_not_load(call: Call, module: Path, tmp_path: Path, text: str, message: str):
    (tmp_path / "bad.py").write_text(text)
    result = call("opt", module, "--load", tmp_path / "bad.py", "-p", "cse")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr and "Traceback" not in result.stderr


def test_files_that_are_not_there(call: Call, module: Path, tmp_path: Path):
    result = call("opt", module, "--load", tmp_path / "none.py")
    assert result.stderr == f"error: cannot read {tmp_path / 'none.py'}: no such file or directory\n"
    result = call("opt", module, "-p", tmp_path / "none.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: cannot read {tmp_path / 'none.json'}: ")
    (tmp_path / "bad.json").write_text("[1]")
    result = call("opt", module, "-p", tmp_path / "bad.json")
    assert result.stderr.startswith(f"error: {tmp_path / 'bad.json'} is not a file of rules\n")
    (tmp_path / "bad.json").write_text('{"format": "hloom rules 1", "rules": [{"name": "r", "benefit": "high"}]}')
    result = call("opt", module, "-p", tmp_path / "bad.json")
    assert result.stderr.startswith(f"error: {tmp_path / 'bad.json'}: rules[0] (r): ")


def test_a_file_of_rules_is_not_executed(call: Call, module: Path, tmp_path: Path):
    (tmp_path / "evil.json").write_text(f"__import__('os').mkdir({str(tmp_path / 'made')!r})")
    assert call("opt", module, "-p", tmp_path / "evil.json").exit_code == 2
    assert not os.path.exists(tmp_path / "made")
