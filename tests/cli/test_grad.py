"""`hloom grad` as a program: gradients, both modes, the check, and what it refuses.

Covers `testing/derivatives.py`, `autodiff/widen.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hloom
from tests.cli.conftest import Call

LOSS = """HloopModule loss
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  w = f32[3,4] parameter(0)
  x = f32[4] parameter(1)
  n = s32[] parameter(2)
  d = f32[3] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[3] tanh(d)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(t, z), dimensions={0}, to_apply=sum
}
""".replace("Hloop", "Hlo")


KERNELS = """import jax, jax.numpy as jnp, hloom
@jax.custom_vjp
def steep(x):
    return jnp.tanh(x)
steep.defvjp(lambda x: (jnp.tanh(x), x), lambda x, cotangent: (2 * cotangent * (1 - jnp.tanh(x) ** 2),))
@hloom.rule
def to_steep(p):
    'tanh(x) -> steep(x), which has twice the derivative'
    x = p.value("x")
    result = p.op("tanh", x)
    with p.rewrite() as r:
        r.replace({result: r.call(steep, x)})
"""


@pytest.fixture
def loss(tmp_path: Path) -> Path:
    path = tmp_path / "loss.hlo"
    path.write_text(LOSS)
    return path


def test_the_gradient_is_written(call: Call, loss: Path, tmp_path: Path):
    target = tmp_path / "gradient.hlo"
    result = call("grad", loss, "--wrt", "x,0", "-o", target)
    assert (result.exit_code, result.output) == (0, "")
    w, x = np.ones((3, 4), np.float32), np.full(4, 0.1, np.float32)
    of_x, of_w = hloom.evaluate(hloom.load(target), [w, x, np.int32(0)])
    np.testing.assert_allclose(of_x, 3 * (1 - np.tanh(0.4) ** 2), rtol=1e-5)
    assert of_w.shape == (3, 4)


def test_the_value_comes_first(call: Call, loss: Path):
    assert "-> (f32[], f32[3,4], f32[4])" in call("grad", loss, "--value").stdout


def test_products_with_the_jacobian(call: Call, loss: Path):
    assert "cotangent_0: f32[]" in call("grad", loss, "--vjp").stdout
    assert "x_tangent: f32[4]) -> (f32[], f32[])" in call("grad", loss, "--jvp", "--wrt", "x").stdout


def test_check_compares_with_central_differences(call: Call, loss: Path):
    result = call("grad", loss, "--check")
    assert result.exit_code == 0
    assert result.stderr.count("agrees") == 2


def test_check_of_what_is_no_number(call: Call, tmp_path: Path):
    path = tmp_path / "roots.hlo"
    path.write_text("ENTRY e { x = f32[4] parameter(0) y = f32[4] exponential(x) z = f32[4] negate(y) ROOT r = f32[4] sqrt(z) }")
    result = call("grad", path, "--vjp", "--check")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: results are not finite at the random inputs of seed 0")


def test_check_at_inputs_that_are_given(call: Call, loss: Path, tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez(path, w=np.eye(3, 4, dtype=np.float32), x=np.full(4, 0.3, np.float32), n=np.int32(0))
    assert call("grad", loss, "--check", "--inputs", path).stderr.count("agrees") == 2


def test_check_of_what_is_ill_conditioned(call: Call, tmp_path: Path):
    path = tmp_path / "steep.hlo"
    path.write_text("ENTRY e { x = f32[] parameter(0) k = f32[] constant(1e+9) y = f32[] multiply(x, k) ROOT r = f32[] sine(y) }")
    result = call("grad", path, "--check")
    assert result.exit_code == 2
    assert "ill-conditioned" in result.stderr and "DIFFERS" not in result.stderr
    assert "the comparison is ill-conditioned at the random inputs of seed 0: differences of several steps along x" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (["--wrt", "n"], "parameter 2 (n) is s32[]: it has no derivative", 2),
        (["--wrt", "v"], "computation e has no parameter 'v'", 2),
        (["--wrt", "¹"], "computation e has no parameter '¹'", 2),
        (["--wrt", "9" * 5000], "computation e has no parameter '999", 2),
        (["--of", "3"], "of=3, but module loss has 1 results", 2),
        (["--inputs", "x.npz"], "--inputs and --seed need --check", 2),
        (["--check", "--seed", "1", "--inputs", "x.npz"], "--seed is for random inputs: give either --seed or --inputs", 2),
        (["--vjp", "--jvp"], "give only one of --vjp and --jvp", 2),
        (["--jvp", "--checkpoints", "3"], "forward mode stores no states", 2),
        (["--vjp", "--of", "0"], "--of and --value apply to gradients only", 2),
        (["-o", "missing/gradient.hlo"], "cannot write missing/gradient.hlo", 2),
    ],
)
def test_what_is_refused(call: Call, loss: Path, arguments: list[str], message: str, status: int):
    result = call("grad", loss, *arguments)
    assert result.exit_code == status
    assert message in result.output


def test_a_function_s_own_derivative_needs_its_file(
    call: Call, loss: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kernels, after, gradient = tmp_path / "my_kernels.py", tmp_path / "after.hlo", tmp_path / "gradient.hlo"
    kernels.write_text(KERNELS)
    assert call("opt", loss, "--load", kernels, "-p", "to-steep", "-o", after).exit_code == 0
    monkeypatch.setattr("hloom.rewrite.function_calls._FUNCTIONS", {})  # as in another process
    refused = call("grad", after, "-o", gradient)
    assert refused.exit_code == 2 and not gradient.exists()
    assert "is a call of my_kernels.steep, which has a derivative of its own and is not defined here" in refused.stderr
    assert call("grad", after, "--load", kernels, "-o", gradient).exit_code == 0
    w, x = np.full((3, 4), 0.1, np.float32), np.ones(4, np.float32)
    of_w, _ = hloom.run(hloom.load(gradient), (w, x, np.int32(0))).outputs
    np.testing.assert_allclose(of_w, np.full((3, 4), 2 * (1 - np.tanh(0.4) ** 2)), rtol=1e-5)


def test_a_file_of_functions_that_fails(call: Call, loss: Path, tmp_path: Path):
    path = tmp_path / "broken.py"
    path.write_text("import nothing_of_this_name")
    result = call("grad", loss, "--load", path)
    assert result.exit_code == 2 and "broken.py failed: ModuleNotFoundError" in result.stderr
