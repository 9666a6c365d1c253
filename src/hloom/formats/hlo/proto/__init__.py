"""HLO's protobufs: modules as HloModuleProto, HloProto (with buffers) and HloSnapshot (with values), both ways.

To add an attribute, give it a row in `instruction_fields.py`; a field of the header, `module_header.py`; a kind of
file, `containers.py`. The messages themselves are in the package `protobuf`.
"""

from typing import TYPE_CHECKING

from hloom.text import imports_names_lazily

if TYPE_CHECKING or not imports_names_lazily(__name__):
    from hloom.formats.hlo.proto.containers import read_proto as read_proto
    from hloom.formats.hlo.proto.containers import write_proto as write_proto
    from hloom.formats.hlo.proto.module_reader import KEEPS as KEEPS
    from hloom.formats.hlo.proto.module_reader import module_from_proto as module_from_proto
    from hloom.formats.hlo.proto.module_writer import module_to_proto as module_to_proto
