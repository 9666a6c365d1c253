"""Paddle 2.6.2 itself takes our passes, and does to programs what our engine does to them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from hloom.dialects import paddle
from hloom.dialects.paddle.protos import PADDLE
from hloom.rewrite import same_rule
from tests.dialects.paddle import drawn, examples, forms, program_comparison

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
        programs.joinpath(f"{name}.pass").write_bytes(paddle.to_multi_pass_desc(name, defaults=True))
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


@pytest.fixture(scope="module")
def serialised(python, tmp_path_factory) -> Path:
    passes = tmp_path_factory.mktemp("passes")
    ask(python, "serialise", passes)
    return passes


def test_our_bytes_of_passes_are_paddles(serialised):
    """Of all examples and forms; the files that the quick tests read are the same."""
    forms.define(paddle)
    theirs = {path.stem: path.read_bytes() for path in sorted(serialised.glob("*.pb"))}
    assert len(theirs) == 26
    assert {name: paddle.to_multi_pass_desc(name, force=True) for name in theirs} == theirs
    assert {path.stem: path.read_bytes() for path in (HERE / "passes").glob("*.pb")} == theirs


def test_our_bytes_of_drawn_passes_are_paddles(python, tmp_path):
    """1,000 of them, with ops of all types; Paddle itself fails at empty lists of scalars."""
    (tmp_path / "drawn.json").write_text(json.dumps(list(drawn_passes(random.Random(11), 1000))))
    ask(python, "draw", tmp_path)
    theirs = (tmp_path / "drawn.txt").read_text().splitlines()

    def serialised(pairs, sizes):
        specs = {name: paddle.InputSpec(dims) for name, dims in sizes.items()}
        return paddle.RegisterPassHelper(pairs, "drawn", specs).SerializeMultiPassDesc()

    drawn.serialise(tmp_path, paddle.PassDesc.OP, serialised)
    ours = (tmp_path / "drawn.txt").read_text().splitlines()
    assert theirs.count("") < 20
    assert [own if other else "" for own, other in zip(ours, theirs, strict=True)] == theirs


KINDS = ["element", "size", "whole", "mod", "minus", "plus", "minus-other"]
VALUES = {
    "INT": [0, 1, -1, 7, 2**31 - 1],
    "LONG": [0, 1, 2**40],
    "FLOAT": [0.0, 1.0, 0.1, 1e-5, 3],
    "FLOAT64": [0.0, 0.1],
    "BOOLEAN": [True, False, 0, 1],
    "STRING": ["", "a", "NHWC"],
}


def drawn_passes(source: random.Random, count: int):
    """Passes of a few ops each, in turn of every type that Paddle has."""
    tables = [tomllib.loads((Path(paddle.__file__).parent / f"{name}.toml").read_text()) for name in ("ops", "extras")]
    types = [
        type for _ in range(1 + 6 * count // len(tables[0])) for type in source.sample(list(tables[0]), len(tables[0]))
    ]
    for _ in range(count):
        pattern, replacement = (
            [drawn_op(source, types.pop(), tables[1]) for _ in range(source.randint(1, 3))] for _ in range(2)
        )
        conditions = [
            [source.randrange(3), source.choice(KINDS), source.choice([0, 1, -1]), source.randint(1, 9)]
            for _ in range(source.randrange(5))
        ]
        specs = {name: source.choices([-1, 2, 16], k=source.randint(1, 3)) for name in "xyz" if source.random() < 0.3}
        yield {"pattern": pattern, "replacement": replacement, "conditions": conditions, "input_specs": specs}


def drawn_op(source: random.Random, type: str, extras):
    known = paddle.signature(type)
    assert known is not None
    attributes = [
        [name, drawn_value(source, *said)] for name, said in known.attributes.items() if source.random() < 0.7
    ]
    attributes += [
        [name, source.choice([True, False, 1] if label == "flag" else [1, 2.5, "x"])]
        for name, (label, types) in extras.items()
        if type in types.split() and name not in known.attributes
    ]
    attributes += source.choice([[], [["op_role", 4096]], [["op_role", 1], ["custom", [1, 2.5]]], [["op_device", "a"]]])
    used = [slot for slot in known.inputs if not slot.optional or source.random() < 0.5]
    return {
        "type": type,
        "attributes": source.sample(attributes, len(attributes)),
        "attributes_first": source.random() < 0.5,
        "inputs": [[s.name, [source.randrange(9)] * (1 + s.several)] for s in source.sample(used, len(used))],
        "without": [slot.name for slot in known.outputs[1:] if source.random() < 0.2],
    }


def drawn_value(source: random.Random, attribute_type: str, default: Any):
    if isinstance(default, (bool, int, float, str, tuple)) and source.random() < 0.35:
        return default
    values = VALUES.get(attribute_type.removesuffix("S"), [1])
    drawn_values = source.choices(values, k=source.randrange(4))
    return drawn_values if attribute_type.endswith("S") else source.choice(values)


@pytest.mark.parametrize("name", sorted(set(PASSES) - {"scaled", "layer_norm"}))
def test_what_paddle_serialises_is_the_same_rule(serialised, name):
    """Of the two others Paddle leaves out attributes that equal their defaults, so that its patterns match more."""
    theirs = paddle.from_multi_pass_desc((serialised / f"{name}.pb").read_bytes())
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


@pytest.mark.parametrize("table", ["ops.toml", "extras.toml"])
def test_our_tables_of_ops_are_paddles(described, table):
    own = (Path(paddle.__file__).parent / table).read_text()
    lines = [line for line in own.splitlines(keepends=True) if not line.startswith("#")]
    assert "".join(lines) == (described / table).read_text()


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
