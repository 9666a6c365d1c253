"""Passes by name and put together: what a list means, options, who is told of what, and errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hloom
from hloom import passes
from hloom.ir import Module, TensorType, dtype
from hloom.ops import OPS
from hloom.passes import PASSES, Pass, Watch, apply_in_place, fixpoint, resolve, rules_pass, sequence
from hloom.passes.pipeline import _FILES, leaf_passes
from hloom.rewrite import Report, Rule, registry
from hloom.text import HloomError

TEXT = "ENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x) b = f32[2] negate(x) ROOT s = f32[2] add(a, b) }"


def renaming(before: str, after: str) -> Rule:
    """before(x) -> after(x): other numbers."""

    @hloom.rule(name=f"{before}-to-{after}")
    def rename(p):
        x = p.value("x")
        result = p.op(before, x)
        with p.rewrite() as r:
            r.replace({result: r.op(after, x)})

    return rename


TO_SINE, TO_COSINE = renaming("negate", "sine"), renaming("sine", "cosine")


def opcodes(module: Module) -> list[str]:
    return [node.opcode for node in module.entry.nodes][1:]


def test_each_file_registers_the_passes_that_are_listed_for_it():
    assert {name: PASSES[name].name for name in _FILES} == {name: name for name in _FILES}
    for path in Path(passes.__file__).parent.glob("*.py"):
        for name in re.findall(r"^(?:_offer_fixpoint|register_pass)\(\s*\"([\w-]+)\"", path.read_text(), re.MULTILINE):
            assert _FILES[name] == path.stem


def test_a_list_of_rules_alone_is_one_pass():
    assert [item.name for item in resolve([TO_COSINE, TO_SINE])] == ["rules"]
    assert opcodes(hloom.opt(hloom.parse(TEXT), [TO_COSINE, TO_SINE])[0]) == ["cosine", "cosine", "add"]
    assert opcodes(hloom.opt(hloom.parse(TEXT), [TO_COSINE, "dce", TO_SINE])[0]) == ["sine", "sine", "add"]


def test_what_a_pass_is_made_of():
    both = fixpoint("both", [TO_SINE, "cse"])
    assert [part.name for part in both.parts] == ["negate-to-sine", "cse"]
    assert both.rules == (TO_SINE,)
    assert sequence("outer", [both, TO_COSINE]).rules == (TO_SINE, TO_COSINE)
    assert resolve("cse")[0].parts == resolve("cse")[0].rules == ()


def test_leaves_are_what_ran():
    module = hloom.parse(TEXT)
    whole = sequence("whole", [fixpoint("both", [TO_SINE, "cse"]), "dce"])
    result = [(leaf_passe.name, report.changed) for leaf_passe, report in leaf_passes(whole, whole.run(module))]
    rounds = [("negate-to-sine", True), ("cse", True), ("negate-to-sine", False), ("cse", False)]
    assert result == [*rounds, ("dce", False)]


def test_rules_are_tried_again_only_where_another_pass_touched_the_module():
    module = hloom.parse(
        "ENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x) b = f32[2] tanh(a) c = f32[2] abs(b)"
        " d = f32[2] sign(x) ROOT t = (f32[2], f32[2]) tuple(c, d) }"
    )

    def negate_sign(module: Module) -> Report:
        graph, report = module.entry, Report("negate-sign", touched=set())
        for node in [node for node in graph.nodes if node.opcode == "sign"]:
            made = graph.add_apply(OPS["negate"], node.operands, node.type, before=node)
            graph.replace_uses(node, made)
            graph.erase(node)
            report.touched, report.changes = {made}, report.changes + 1
        return report

    tried = Rule("look-at-all", ("negate", "sine", "tanh", "abs"), native="tests.look_at_all")
    registry.register("tests.look_at_all", lambda build, node: None)
    both = fixpoint("both", [rules_pass("rules", [TO_SINE, tried]), Pass("negate-sign", negate_sign)])
    report = both.run(module)
    assert [node.opcode for node in module.entry.nodes] == ["parameter", "sine", "tanh", "abs", "sine", "tuple"]
    assert [part["look-at-all"].tried for part in report.passes[::2]] == [3, 1]
    assert all(part.touched is None for part in report.passes)


def test_options():
    seeds: list[int] = []

    def run(module: Module, *, seed: int = 0) -> Report:
        seeds.append(seed)
        return Report("seeded")

    seeded = Pass("seeded", run, options=("seed",))
    hloom.opt(hloom.parse(TEXT), [seeded, seeded.with_options(seed=7)])
    assert seeds == [0, 7]
    with pytest.raises(HloomError, match="pass seeded takes no option 'speed'\n  it takes seed"):
        seeded.with_options(speed=1)
    with pytest.raises(HloomError, match="pass cse takes no option 'seed'\n  it takes none"):
        PASSES["cse"].with_options(seed=1)


def test_rules_made_of_an_option():
    made = rules_pass("turn", lambda into="sine": [renaming("negate", into)], options=("into",))
    assert [rule.name for rule in made.rules] == ["negate-to-sine"]
    assert opcodes(hloom.opt(hloom.parse(TEXT), made)[0]) == ["sine", "sine", "add"]
    assert opcodes(hloom.opt(hloom.parse(TEXT), made.with_options(into="tanh"))[0]) == ["tanh", "tanh", "add"]


def test_a_watch_sees_the_parts_of_what_has_no_name():
    told: list[str] = []
    watch = Watch(lambda name, module: told.append(f"before {name}"), lambda name, module, report: told.append(name))
    apply_in_place(hloom.parse(TEXT), [fixpoint("both", [TO_SINE]), "cse"], watch=watch)
    assert told == ["before negate-to-sine", "negate-to-sine", "before cse", "cse"]


def test_a_fixpoint_that_finds_no_end():
    with pytest.raises(HloomError, match="both found no end in 20 rounds: again still change the module"):
        hloom.opt(hloom.parse(TEXT), fixpoint("both", ["dce", lambda_named("again")]))


def test_verify_each_names_the_pass():
    def breaks(module: Module) -> None:
        module.entry.set_type(module.entry.root, TensorType(dtype("f32"), (5,)))

    with pytest.raises(HloomError, match="after pass breaks: "):
        hloom.opt(hloom.parse(TEXT), fixpoint("both", ["dce", breaks]), verify_each=True)


def lambda_named(name: str):
    def change(module: Module) -> None:
        """Say that something changed."""

    change.__name__ = name
    return change
