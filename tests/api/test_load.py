"""`hloom.load` tells formats by their first bytes."""

from __future__ import annotations

import gzip

import pytest

import hloom
from hloom import HloomError, ParseError
from tests.dialects.mindir.samples import FOLDER


@pytest.mark.parametrize("name", ["mlp.validate.ir", "mlp.mindir"])
def test_mindspores_files_whatever_their_names_packed_or_not(tmp_path, name):
    data = (FOLDER / name).read_bytes()
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(data))
    for source in (FOLDER / name, data, path):
        assert hloom.load(source).entry.root.opcode == "mindir.Return"


def test_hlo_is_read_as_before():
    assert hloom.load("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }").entry.root.opcode == "negate"
    with pytest.raises(HloomError, match=r"cannot read gone\.ir"):
        hloom.load("gone.ir")


def test_a_broken_text_is_refused_with_its_place():
    with pytest.raises(ParseError, match=r"<text>:1:1: this text holds no graph"):
        hloom.load("# IR entry: @main\n")
