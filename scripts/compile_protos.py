"""Compile each folder of .proto files in src/hloom/protobuf into the .desc file that the package reads.

    .venv/bin/python scripts/compile_protos.py

Needs grpcio-tools (a development dependency); who uses hloom needs neither it nor protoc.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

PROTOBUF = Path(__file__).resolve().parent.parent / "src" / "hloom" / "formats" / "protobuf"


def main() -> None:
    for folder in proto_folders():
        output = folder.with_suffix(".desc")
        output.write_bytes(compiled(folder))
        print(f"wrote {output} ({output.stat().st_size:,} bytes)")


def proto_folders() -> list[Path]:
    """Return the folders of the package `protobuf` that hold .proto files, one per foreign format."""
    return sorted({proto.parent for proto in PROTOBUF.glob("*/*.proto")})


def compiled(folder: Path) -> bytes:
    """Return the serialized FileDescriptorSet of a folder's .proto files and all they import."""
    protos = sorted(str(proto.relative_to(PROTOBUF)) for proto in folder.glob("*.proto"))
    with tempfile.NamedTemporaryFile(suffix=".desc") as output:
        arguments = [
            "protoc",
            f"--proto_path={PROTOBUF}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            "--include_imports",
            f"--descriptor_set_out={output.name}",
            *protos,
        ]
        if protoc.main(arguments) != 0:
            sys.exit(f"protoc could not compile {folder}")
        return Path(output.name).read_bytes()


if __name__ == "__main__":
    main()
