"""HloProto with its buffers and HloSnapshot with its values, as XLA dumps them.

Covers `containers.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

from hloom.formats import protobuf
from hloom.formats.hlo import parse
from hloom.formats.hlo.proto import read_proto, write_proto
from hloom.ir import equal, verify
from hloom.text import HloomError, HloomWarning

PROGRAM = """
import jax, jax.numpy as jnp
jax.jit(lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), jnp.float32(0), x))(jnp.arange(8.0))
"""


@pytest.fixture(scope="module")
def dump(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dump")
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_proto --xla_dump_hlo_snapshots --xla_dump_large_constants"
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def buffered(dump) -> bytes:
    (file,) = dump.glob("*jit__lambda*.cpu_after_optimizations.hlo.pb")
    return file.read_bytes()


@pytest.fixture(scope="module")
def snapshot(dump) -> bytes:
    (file,) = dump.glob("*jit__lambda*.snapshot.*.pb")
    return file.read_bytes()


def test_buffers_are_kept(buffered):
    module = read_proto(buffered)
    assert verify(module).level == 3
    assert module.attachments["buffer_assignment"].buffer_allocations
    theirs, ours = (protobuf.HloProto.FromString(data) for data in (buffered, write_proto(module, "hlo")))
    assert ours.buffer_assignment.buffer_allocations == theirs.buffer_assignment.buffer_allocations
    assert ours.buffer_assignment.heap_simulator_traces == theirs.buffer_assignment.heap_simulator_traces
    assert located(ours) == located(theirs)


def located(proto) -> list[tuple[int, str]]:
    """Which instruction, by name, each logical buffer belongs to."""
    names = {
        instruction.id: instruction.name
        for computation in proto.hlo_module.computations
        for instruction in computation.instructions
    }
    return [(buffer.id, names[buffer.defined_at.instruction_id]) for buffer in proto.buffer_assignment.logical_buffers]


def test_xla_reads_the_module_again(buffered):
    module = read_proto(buffered)
    assert xla_reads(write_proto(module, "hlo")) == xla_reads(buffered)


def xla_reads(data: bytes) -> list[str]:
    module = protobuf.HloProto.FromString(data).hlo_module.SerializeToString()
    text = _hlo.HloModule.from_serialized_hlo_module_proto(module).to_string()
    return sorted(text.split("\n\n"))  # computations stand in the order of the instructions that call them first


def test_buffers_of_an_instruction_that_is_gone_are_named(buffered):
    module = read_proto(buffered)
    name = module.attachments["buffer_assignment"].logical_buffers[0].defined_at.instruction_name
    node = next(node for node in module.nodes() if node.name == name)
    node.graph.rename(node, "elsewhere")
    with pytest.warns(HloomWarning, match=f"the proto cannot hold buffers of {name}, which is gone"):
        write_proto(module, "hlo")


def test_the_module_alone_loses_its_buffers_aloud(buffered):
    with pytest.warns(HloomWarning, match="the proto cannot hold the attachment buffer_assignment"):
        write_proto(read_proto(buffered))


def test_snapshot(snapshot):
    module = read_proto(snapshot)
    (argument,) = module.attachments["arguments"]
    assert argument.numpy().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    total, products = module.attachments["result"].elements
    assert total.numpy() == 28
    assert products.numpy().dtype == np.float32
    assert module.attachments["execution_platform"] == ""
    again = protobuf.HloSnapshot.FromString(write_proto(module, "hlo_snapshot"))
    theirs = protobuf.HloSnapshot.FromString(snapshot)
    assert (again.arguments, again.result) == (theirs.arguments, theirs.result)
    assert again.execution_platform == theirs.execution_platform
    assert equal(read_proto(again.SerializeToString()), module)


def test_every_dump_is_read(dump):
    files = [*dump.glob("*optimizations.hlo.pb"), *dump.glob("*.snapshot.*.pb")]
    assert len(files) >= 3
    for file in files:
        assert read_proto(file.read_bytes(), name=file.name).source_name == file.name


def test_no_such_kind():
    with pytest.raises(HloomError, match="no kind of proto is called 'text'"):
        write_proto(parse("ENTRY e { ROOT x = f32[2] parameter(0) }"), "text")


@pytest.mark.parametrize(
    "data", [b"", b"HloModule m\nENTRY e { ROOT x = f32[2] parameter(0) }", b"\x0a\x01\xff", b"\x00" * 9]
)
def test_other_bytes(data):
    with pytest.raises(HloomError, match=r"a\.pb: these \d+ bytes are not HloModuleProto, HloProto or HloSnapshot"):
        read_proto(data, name="a.pb")
