"""Reads and prints HLO text and HLO protos.

`parse` is in `module_reader.py`. Plain lines are read by one regular expression in `computation_reader.py`, all others
token by token in `instruction_reader.py`. `strict_checks.py` holds what `strict` rejects, `files.py` the containers of
modules, and the package `proto` the protos. To add a kind of attribute value, edit `value_reader.py`,
`attribute_printer.py` and the value's `__str__` (`hloom.ir`).

Source: xla/hlo/parser/hlo_parser.cc and hlo_lexer.cc (reading), xla/hlo/ir/hlo_instruction.cc, HloInstruction::Print,
and xla/hlo/ir/hlo_module.cc, HloModule::Print (printing), as of jaxlib 0.10.2.
"""

from typing import TYPE_CHECKING

from hloom.text import imports_names_lazily

if TYPE_CHECKING or not imports_names_lazily(__name__):
    from hloom.formats.hlo.compression import LIMITS as LIMITS
    from hloom.formats.hlo.compression import Limits as Limits
    from hloom.formats.hlo.compression import decompress as decompress
    from hloom.formats.hlo.dump_directory import AFTER as AFTER
    from hloom.formats.hlo.dump_directory import BEFORE as BEFORE
    from hloom.formats.hlo.dump_directory import PARTITIONED as PARTITIONED
    from hloom.formats.hlo.dump_directory import DumpedModule as DumpedModule
    from hloom.formats.hlo.dump_directory import SeveralModules as SeveralModules
    from hloom.formats.hlo.dump_directory import dump_modules as dump_modules
    from hloom.formats.hlo.dump_directory import dumped_module as dumped_module
    from hloom.formats.hlo.dump_directory import stage_rank as stage_rank
    from hloom.formats.hlo.file_io import STDIN as STDIN
    from hloom.formats.hlo.file_io import check_new_folder as check_new_folder
    from hloom.formats.hlo.file_io import read_bytes as read_bytes
    from hloom.formats.hlo.file_io import replacing as replacing
    from hloom.formats.hlo.file_io import write_folder as write_folder
    from hloom.formats.hlo.file_io import write_whole as write_whole
    from hloom.formats.hlo.files import MLIR as MLIR
    from hloom.formats.hlo.files import MLIR_BYTECODE as MLIR_BYTECODE
    from hloom.formats.hlo.files import FileFormat as FileFormat
    from hloom.formats.hlo.files import ForeignText as ForeignText
    from hloom.formats.hlo.files import load as load
    from hloom.formats.hlo.files import save as save
    from hloom.formats.hlo.jax_program import is_lowering as is_lowering
    from hloom.formats.hlo.module_reader import parse as parse
    from hloom.formats.hlo.printer import PrintOptions as PrintOptions
    from hloom.formats.hlo.printer import print_graph as print_graph
    from hloom.formats.hlo.printer import print_module as print_module
    from hloom.formats.hlo.printer import print_node as print_node
    from hloom.formats.hlo.printer import print_parts as print_parts
    from hloom.formats.hlo.printer import to_text as to_text
    from hloom.formats.hlo.proto import KEEPS as KEEPS
    from hloom.formats.hlo.proto import module_from_proto as module_from_proto
    from hloom.formats.hlo.proto import module_to_proto as module_to_proto
    from hloom.formats.hlo.proto import read_proto as read_proto
    from hloom.formats.hlo.proto import write_proto as write_proto
    from hloom.formats.hlo.sharding_reader import read_sharding as read_sharding
