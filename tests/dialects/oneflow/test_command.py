"""`hloom opt` with the passes of this dialect."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hloom.cli import main
from hloom.passes import PASSES

HERE = Path(__file__).parent
BEFORE, AFTER = (HERE / f"oneflow_bias_add_dropout.{name}.mlir" for name in ("before", "after"))
NAMES = [
    "fuse-bias-add-dropout",
    "fuse-bias-add-gelu",
    "fuse-add-n",
    "fold-pad-into-conv",
    "fold-batch-norm-into-conv",
    "fuse-normalization-add-relu",
    "remove-cast-to-same-type",
    "fuse-scale-tril",
    "fuse-glu",
    "fuse-attention-inference",
    "oneflow",
]


def opt(*arguments):
    return CliRunner().invoke(main, ["opt", *map(str, arguments)])


@pytest.mark.parametrize("name", ["fuse-bias-add-dropout", "oneflow"])
def test_the_text_of_the_issue_byte_for_byte(name):
    result = opt(BEFORE, "-p", name, "--seed", 4920936260932536)
    assert result.exit_code == 0, result.output
    assert result.stdout == AFTER.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_each_pass_is_offered_by_name_and_says_what_it_does(name):
    assert PASSES[name].summary
    assert PASSES[name].rules
    result = opt(AFTER, "-p", name)
    assert (result.exit_code, result.stdout) == (0, AFTER.read_text())
