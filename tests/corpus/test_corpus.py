"""The corpus is what it says it is: XLA's own parser agrees, and nothing of the grammar is left out."""

import re

import pytest
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

from tests.corpus import aborts, handwritten, lowered, refused
from tests.corpus.check import NOT_ACCEPTED, ask, broken_claims, main

ELIDED = re.compile(r"constant\(\{\.\.\.\}\)")


def modules() -> dict[str, str]:
    return {name: text for name, text in handwritten().items() if not name.startswith(NOT_ACCEPTED)}


def test_xla_agrees_with_every_claim():
    assert list(broken_claims()) == []


def test_there_is_enough():
    assert len(modules()) >= 200
    assert len(refused()) >= 300
    assert len(aborts()) >= 20
    assert len(lowered("before")) >= 200


def test_every_opcode_is_written_by_hand():
    seen = {opcode for answer in ask(modules()).values() for opcode in answer.opcodes}
    assert {opcode.name for opcode in _hlo.HloOpcode} - seen == set()


@pytest.mark.parametrize("stage", ["before", "after"])
def test_xla_reads_back_what_it_lowered(stage: str):
    answers = ask(lowered(stage))
    assert {name: answer.message for name, answer in answers.items() if answer.verdict != "accepted"} == {}


@pytest.mark.parametrize("stage", ["before", "after"])
def test_lowered_constants_are_whole(stage: str):
    assert [name for name, text in lowered(stage).items() if ELIDED.search(text)] == []


@pytest.mark.parametrize("stage", ["before", "after"])
def test_lowered_texts_carry_metadata(stage: str):
    assert sum("metadata={" in text for text in lowered(stage).values()) > 200


def test_a_text_may_kill_the_worker_and_the_rest_is_still_answered():
    good = "ENTRY main {\n  ROOT a = f32[] parameter(0)\n}"
    fatal = "ENTRY main {\n  ROOT a = f32[] constant(true)\n}"
    answers = ask({"first": good, "fatal": fatal, "last": good, "wrong": "nonsense"})
    assert [answer.verdict for answer in answers.values()] == ["accepted", "aborted", "accepted", "refused"]
    assert answers["fatal"].message == "F32 is not PRED type"


def test_check_answers_about_files(tmp_path, capsys):
    path = tmp_path / "a.hlo"
    path.write_text("ENTRY main {\n  ROOT a = f32[] parameter(0)\n}")
    assert main([str(path)]) == 0
    assert capsys.readouterr().out.split() == [str(path), "accepted"]
