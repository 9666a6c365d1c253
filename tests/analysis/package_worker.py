"""The child of `package_corpus`: compiles the programs of one file for the CPU and writes their texts and XLA's account.

    python -m tests.analysis.package_worker FOLDER FILE

Per program: NAME.before.hlo, NAME.after.hlo, and NAME.json, the bytes of arguments, outputs, aliases and temporaries.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]


def text_of(module: Any) -> str:
    options = _hlo.HloPrintOptions()
    options.print_metadata = True
    return module.to_string(options)


def compile_one(name: str, function: Any, arguments: tuple[Any, ...], folder: Path) -> None:
    lowered = function.lower(*arguments)
    compiled = lowered.compile()
    statistics = compiled.memory_analysis()
    (folder / f"{name}.before.hlo").write_text(text_of(lowered.compiler_ir("hlo").as_hlo_module()))
    (folder / f"{name}.after.hlo").write_text(text_of(compiled.runtime_executable().hlo_modules()[0]))
    sizes = {
        "arguments": statistics.argument_size_in_bytes,
        "outputs": statistics.output_size_in_bytes,
        "aliases": statistics.alias_size_in_bytes,
        "temporaries": statistics.temp_size_in_bytes,
    }
    (folder / f"{name}.json").write_text(json.dumps(sizes))


def main() -> None:
    folder, file = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    import_module(f"tests.analysis.package_programs.{file}")
    programs = import_module("tests.analysis.package_programs.registry").PROGRAMS
    for name, make in programs.items():
        function, arguments = make()
        compile_one(name, function, arguments, folder)
    (folder / "complete").touch()


if __name__ == "__main__":
    main()
