"""StableHLO is read as the HLO that jax itself makes of it; what is none is refused.

Covers `stablehlo.py`.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import hloom
from hloom.cli import main
from hloom.text import HloomError

X = jnp.arange(16.0).reshape(4, 4) / 16


def function(x):
    return jax.scipy.special.erfinv(jnp.sin(x) @ x)


LOWERED = jax.jit(function).lower(X)


@pytest.mark.parametrize(
    "program",
    [LOWERED.as_text(), LOWERED.as_text().encode(), LOWERED.compiler_ir("stablehlo")],
    ids=["text", "bytes", "module"],
)
def test_every_form_is_the_program_that_jax_lowers(program: object):
    module = hloom.from_stablehlo(program)
    assert hloom.difference(module, hloom.load(LOWERED), metadata=False) is None
    np.testing.assert_allclose(hloom.evaluate(module, [np.asarray(X)])[0], function(X), rtol=1e-4)


def test_what_is_no_stablehlo():
    with pytest.raises(HloomError, match=r"broken\.mlir: MLIR does not read this: "):
        hloom.from_stablehlo("module { gone }", "broken.mlir")
    with pytest.raises(HloomError, match="<text>: MLIR does not read this: "):
        hloom.from_stablehlo(b"\0\1")
    with pytest.raises(HloomError, match="<text>: XLA does not convert this to HLO: "):
        hloom.from_stablehlo("func.func @other() { return }")


def test_load_says_what_to_call():
    with pytest.raises(HloomError, match=r"this is MLIR, not HLO text[^!]*hloom\.from_stablehlo\(text\)"):
        hloom.load(LOWERED.as_text())
    with pytest.raises(HloomError, match=r"hloom\.from_stablehlo\(module\)"):
        hloom.load(LOWERED.compiler_ir("stablehlo"))


@pytest.mark.parametrize("arguments", [("inspect",), ("opt", "-p", "simplify"), ("evaluate",)])
@pytest.mark.parametrize("is_piped", [False, True])
def test_subcommands_read_it(tmp_path: Path, arguments: tuple[str, ...], is_piped: bool):
    path = tmp_path / "f.mlir"
    path.write_text(LOWERED.as_text())
    name, *options = arguments
    given = LOWERED.as_text() if is_piped else None
    result = CliRunner().invoke(main, [name, "-" if is_piped else str(path), *options], input=given)
    assert result.exit_code == 0, result.stderr
    assert "f32[4,4]" in result.stdout or "jit_function" in result.stdout
