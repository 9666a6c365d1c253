"""Our schema says what XLA's says, its compiled form is up to date, and it keeps out of everyone else's way."""

from __future__ import annotations

import importlib.util
import mmap
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import (
    any_pb2,  # noqa: F401  XLA's schema needs these three in the default pool
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,  # noqa: F401
    message_factory,
    timestamp_pb2,  # noqa: F401
)

from hloom.formats import protobuf
from hloom.runtime.library_names import NEWEST

ROOT = Path(__file__).resolve().parents[3]

# Read but no longer written: today's XLA reserves the number.
WITHDRAWN = {("CollectiveDeviceListProto", "iota_replica_group_list")}

Field = descriptor_pb2.FieldDescriptorProto


def test_compiled_form_is_up_to_date():
    script = runpy.run_path(str(ROOT / "scripts" / "compile_protos.py"))
    for folder in script["proto_folders"]():
        fresh = descriptor_pb2.FileDescriptorSet.FromString(script["compiled"](folder))
        stored = descriptor_pb2.FileDescriptorSet.FromString(folder.with_suffix(".desc").read_bytes())
        assert fresh == stored, f"run scripts/compile_protos.py: {folder.name}.desc is older than {folder}/*.proto"


def test_schema_has_all_that_is_inside_jaxlib():
    """Ours is of the newest jaxlib that is tested: an older one lacks some of it, and nothing else is different."""
    ours, theirs = described(our_files()), described(jaxlib_files())
    reached = {name for name in theirs if name in ours} | set(references(theirs, "HloProto", "HloModuleMetadataProto"))
    for name in sorted(reached):
        assert theirs[name] <= ours.get(name, set()), f"{name}: jaxlib's schema has moved on"
    if version("jaxlib") == NEWEST:
        assert {name: ours[name] for name in reached} == {name: theirs[name] for name in reached}
        assert sorted(set(ours) - set(theirs)) == []


def our_files() -> list[descriptor_pb2.FileDescriptorProto]:
    compiled = descriptor_pb2.FileDescriptorSet.FromString(protobuf.xla.compiled.read_bytes())
    return [file for file in compiled.file if file.package == protobuf.xla.package]


def jaxlib_files() -> Iterator[descriptor_pb2.FileDescriptorProto]:
    """Find the serialized schemas that protobuf's C++ code keeps inside jaxlib's shared object."""
    specification = importlib.util.find_spec("jaxlib")
    assert specification is not None and specification.origin is not None
    library = Path(specification.origin).with_name("libjax_common.so")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name in (b"xla/xla_data.proto", b"xla/service/metrics.proto", b"xla/service/hlo.proto"):
            # Field 1 (the file's name), then field 2 (the package): only a schema begins like this.
            start = data.find(b"\x0a" + bytes([len(name)]) + name + b"\x12\x03xla")
            assert start >= 0, f"jaxlib holds no schema of {name.decode()}"
            yield descriptor_pb2.FileDescriptorProto.FromString(data[start : schema_end(data, start)])


def schema_end(data: mmap.mmap, start: int) -> int:
    """Walk from field to field; the schema ends before a byte that begins no field of FileDescriptorProto."""
    length_delimited = {number << 3 | 2 for number in (2, 3, 4, 5, 6, 7, 8, 9, 12)}
    tag, position = 0x0A, start
    while tag == 0x0A or data[position] in length_delimited:
        length, position = varint(data, position + 1)
        tag, position = 0, position + length
    return position


def varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, position = data[position], position + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def described(files) -> dict[str, set]:
    """Map each message and enum to its fields or values: (name, number, type, repeated, ...) without the package."""
    members: dict[str, set] = {}

    def enum(prefix, descriptor):
        members[prefix + descriptor.name] = {(value.name, value.number) for value in descriptor.value}

    def message(prefix, descriptor):
        name = prefix + descriptor.name
        members[name] = {
            field(descriptor, member) for member in descriptor.field if (name, member.name) not in WITHDRAWN
        }
        for nested in descriptor.nested_type:
            message(f"{name}.", nested)
        for nested in descriptor.enum_type:
            enum(f"{name}.", nested)

    for file in files:
        for descriptor in file.message_type:
            message("", descriptor)
        for descriptor in file.enum_type:
            enum("", descriptor)
    return members


def field(message: descriptor_pb2.DescriptorProto, field: Field) -> tuple:
    type_name = field.type_name.removeprefix(f".{protobuf.xla.package}.").removeprefix(".xla.")
    alternative = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
    return field.name, field.number, field.type, type_name, field.label, alternative


def references(types: dict[str, set], *roots: str) -> Iterator[str]:
    """Yield every type of XLA's that the roots use, directly or not."""
    waiting, seen = list(roots), set()
    while waiting:
        name = waiting.pop()
        if name in seen or name.startswith("."):
            continue
        seen.add(name)
        yield name
        waiting += [part[3] for part in types[name] if len(part) > 2 and part[3]]


def test_names_are_attributes_of_the_package():
    assert {"HloModuleProto", "HloSnapshot", "LiteralProto", "OpSharding", "PrimitiveType"} <= set(protobuf.names())
    assert set(protobuf.names()) <= set(dir(protobuf))
    assert protobuf.HloModuleProto.DESCRIPTOR.full_name == "hloom.protobuf.xla.HloModuleProto"
    assert protobuf.HloModuleProto is protobuf.HloModuleProto
    assert protobuf.PrimitiveType.Name(11) == "F32"
    assert protobuf.PrimitiveType.Value("BF16") == 16


def test_unknown_name():
    with pytest.raises(AttributeError, match=r"module 'hloom\.formats\.protobuf' has no message or enum 'HloModulProto'"):
        protobuf.HloModulProto  # noqa: B018


def test_import_reads_no_schema():
    check = "from hloom.formats import protobuf; assert '_descriptors' not in vars(protobuf.xla); protobuf.ShapeProto"
    subprocess.run([sys.executable, "-c", check], env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=True)


def test_unknown_fields_survive_and_are_reported():
    module = protobuf.HloModuleProto(name="m")
    module.computations.add().instructions.add(name="i").MergeFromString(b"\xfa\x3f\x03abc")
    again = protobuf.HloModuleProto.FromString(module.SerializeToString())
    assert again.SerializeToString() == module.SerializeToString()
    assert protobuf.unknown_fields(again) == [
        protobuf.UnknownField("computations[0].instructions[0]", "HloInstructionProto", 1023, b"abc")
    ]


def test_unknown_fields_inside_a_map():
    module = protobuf.HloModuleProto()
    module.schedule.sequences[7].MergeFromString(b"\xf8\x3f\x05")
    module.frontend_attributes.map["key"] = "value"
    assert protobuf.unknown_fields(module) == [
        protobuf.UnknownField("schedule.sequences[7]", "InstructionSequence", 1023, 5)
    ]


def test_unknown_enum_values_survive():
    shape = protobuf.ShapeProto.FromString(b"\x10\xe7\x07")
    assert shape.element_type == 999
    assert shape.SerializeToString() == b"\x10\xe7\x07"


def test_xla_itself_may_be_registered_in_the_same_process():
    """TensorFlow and torch_xla put xla.HloModuleProto into protobuf's default pool; so does this test."""
    module = protobuf.HloModuleProto(name="ours")
    for file in jaxlib_files():
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    xla_descriptor = descriptor_pool.Default().FindMessageTypeByName("xla.HloModuleProto")
    theirs: Any = message_factory.GetMessageClass(xla_descriptor)
    assert theirs is not protobuf.HloModuleProto
    assert theirs.FromString(module.SerializeToString()).name == "ours"
    assert protobuf.HloModuleProto.FromString(theirs(name="theirs").SerializeToString()).name == "theirs"
