"""The child of `memory_corpus`: compiles the programs for the CPU and writes their texts and XLA's own account.

    python -m tests.analysis.memory_worker FOLDER [NAME ...]

Per program: NAME.before.hlo, NAME.after.hlo, NAME.hlo.pb (a HloProto with XLA's buffer assignment) and NAME.json, the
bytes of arguments, outputs, aliases and temporaries.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

from hloom.formats import protobuf

from .memory_programs import PROGRAMS


def text_of(module: _hlo.HloModule) -> str:
    options = _hlo.HloPrintOptions()
    options.print_metadata = True
    return module.to_string(options)


def compile_one(name: str, folder: Path) -> None:
    program = PROGRAMS[name]
    lowered = jax.jit(program.function, donate_argnums=program.donated).lower(*program.arguments)
    before: Any = lowered.compiler_ir("hlo")
    compiled = lowered.compile()
    executable: Any = compiled.runtime_executable()
    module = executable.hlo_modules()[0]
    statistics: Any = compiled.memory_analysis()
    (folder / f"{name}.before.hlo").write_text(text_of(before.as_hlo_module()))
    (folder / f"{name}.after.hlo").write_text(text_of(module))
    proto = protobuf.HloProto(
        hlo_module=protobuf.HloModuleProto.FromString(module.as_serialized_hlo_module_proto()),
        buffer_assignment=protobuf.BufferAssignmentProto.FromString(statistics.serialized_buffer_assignment_proto),
    )
    (folder / f"{name}.hlo.pb").write_bytes(proto.SerializeToString())
    sizes = {
        "arguments": statistics.argument_size_in_bytes,
        "outputs": statistics.output_size_in_bytes,
        "aliases": statistics.alias_size_in_bytes,
        "temporaries": statistics.temp_size_in_bytes,
    }
    (folder / f"{name}.json").write_text(json.dumps(sizes))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or PROGRAMS:
        compile_one(name, folder)


if __name__ == "__main__":
    main()
