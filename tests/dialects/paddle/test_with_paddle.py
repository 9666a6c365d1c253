"""Paddle 2.6.2 itself takes our passes, and does to programs what our engine does to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from hloom.dialects import paddle
from hloom.dialects.paddle.protos import PADDLE
from hloom.rewrite import same_rule
from tests.dialects.paddle import examples, program_comparison

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
REQUIREMENTS = ["paddlepaddle==2.6.2", "numpy<2", "setuptools"]
PASSES = ["linear", "linear_with_relu", "sums", "double_transpose", "products", "scaled", "layer_norm", "by_shape"]


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """The interpreter of an environment with Paddle: HLOOM_PADDLE_PYTHON, or one that is made now."""
    given = os.environ.get("HLOOM_PADDLE_PYTHON")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("paddle") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    installed = subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"pip cannot install paddlepaddle 2.6.2: {installed.stderr.strip().splitlines()[-1]}")
    return python


def ask(python: Path, what: str, folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, str(HERE / "client.py"), what, str(folder)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def folder(python, tmp_path_factory) -> Path:
    """Programs of Paddle's, our passes, and what Paddle made of both."""
    programs = tmp_path_factory.mktemp("programs")
    ask(python, "build", programs)
    examples.define(paddle)
    for name in PASSES:
        programs.joinpath(f"{name}.pass").write_bytes(paddle.to_multi_pass_desc(name))
    for name, data in unhonoured_passes():
        programs.joinpath(f"by_shape-{name}.pass").write_bytes(data)
    ask(python, "apply", programs)
    for name in PASSES:
        module = paddle.read_program(programs / f"{name}.pb")
        paddle.get_pass(name).apply(module)
        programs.joinpath(f"{name}.ours.pb").write_bytes(paddle.write_program(module))
    ask(python, "run", programs)
    return programs


def unhonoured_passes():
    """Passes that say what the runtime does not honour, exported all the same."""
    op = paddle.PassDesc.OP

    def replace(x):
        return op.tanh(X=x)

    def condition_on_an_op(x):
        softmax = op.relu(X=x)
        softmax.Attr("op_role").EQ(7)
        return softmax

    def other_than_equal(x):
        x.Attr("shape")[0].GT(100)
        return op.relu(X=x)

    def sum_in_a_condition(x):
        (x.Attr("shape")[0] + 1).EQ(5)
        return op.relu(X=x)

    def wildcard(x):
        return op.relu(X=x)

    for pattern in (condition_on_an_op, other_than_equal, sum_in_a_condition, wildcard):
        specs = {"x": paddle.InputSpec([-1, 8])} if pattern is wildcard else {}
        helper = paddle.RegisterPassHelper([(pattern, replace)], pattern.__name__, specs)
        yield pattern.__name__, paddle.to_multi_pass_desc(helper, force=True)


@pytest.mark.parametrize("name", PASSES)
def test_paddle_applies_our_pass_and_the_numbers_stay(folder, name):
    said = json.loads((folder / "said.json").read_text())
    assert said[name] < 1e-5


@pytest.mark.parametrize("name", PASSES)
def test_paddle_and_our_engine_make_the_same_program(folder, name):
    before = (folder / f"{name}.pb").read_bytes()
    theirs, ours = (folder / f"{name}.{who}.pb" for who in ("theirs", "ours"))
    assert program_comparison.meaning(theirs.read_bytes()) != program_comparison.meaning(before), (
        "the pass did something"
    )
    assert program_comparison.ops_of(ours.read_bytes()) == program_comparison.ops_of(theirs.read_bytes())
    assert program_comparison.meaning(ours.read_bytes()) == program_comparison.meaning(theirs.read_bytes())


@pytest.mark.parametrize("name", PASSES)
def test_paddle_runs_what_our_engine_made(folder, name):
    assert json.loads((folder / "ran.json").read_text())[name] < 1e-5


@pytest.mark.parametrize("name", [*PASSES, "training", "looping"])
def test_programs_come_back_byte_for_byte(folder, name):
    data = (folder / f"{name}.pb").read_bytes()
    assert paddle.write_program(paddle.read_program(data)) == data


@pytest.mark.parametrize("name", sorted(set(PASSES) - {"scaled", "layer_norm"}))
def test_what_paddle_serialises_is_the_same_rule(folder, name):
    """Of the two others Paddle leaves out attributes that equal their defaults, so that its patterns match more."""
    theirs = paddle.from_multi_pass_desc((folder / f"{name}.theirs").read_bytes())
    assert all(map(same_rule, theirs, paddle.get_pass(name).rules))


@pytest.mark.parametrize(
    ("name", "relus"),
    [("condition_on_an_op", 0), ("wildcard", 2)],
    ids=["ignored: both relus go", "no wildcard: both relus stay"],
)
def test_what_the_runtime_does_with_what_is_refused(folder, name, relus):
    assert program_comparison.ops_of((folder / f"by_shape-{name}.theirs.pb").read_bytes()).count("relu") == relus


@pytest.mark.parametrize("name", ["other_than_equal", "sum_in_a_condition"])
def test_what_the_runtime_does_not_implement(folder, name):
    assert "Unimplemented" in json.loads((folder / "said.json").read_text())[f"by_shape-{name}"]


@pytest.fixture(scope="module")
def described(python, tmp_path_factory) -> Path:
    described = tmp_path_factory.mktemp("described")
    ask(python, "describe", described)
    return described


def test_our_table_of_ops_is_paddles(described):
    own = (Path(paddle.__file__).parent / "ops.toml").read_text()
    lines = [line for line in own.splitlines(keepends=True) if not line.startswith("#")]
    assert "".join(lines) == (described / "ops.toml").read_text()


@pytest.mark.parametrize("name", ["framework_pb2", "pass_desc_pb2"])
def test_our_messages_have_paddles_fields(described, name):
    """Names, numbers, types and labels; what describes kinds of ops, OpProto, is left out."""
    file = FileDescriptorProto.FromString((described / f"{name}.descriptor").read_bytes())
    pending = [(message, PADDLE[message.name].DESCRIPTOR) for message in file.message_type if message.name != "OpProto"]
    assert pending
    for theirs, descriptor in pending:
        ours = DescriptorProto()
        descriptor.CopyToProto(ours)
        assert fields_of(ours) == fields_of(theirs)
        pending += [(nested, descriptor.nested_types_by_name[nested.name]) for nested in theirs.nested_type]


def fields_of(message):
    fields = {(f.name, f.number, f.type, f.label, f.default_value) for f in message.field}
    enums = {(enum.name, value.name, value.number) for enum in message.enum_type for value in enum.value}
    return message.name, fields, enums
