"""The targets' own compilers: a module compiled for a TPU, a GPU or the CPU in a child process, without the hardware.

`compile_module` is in `compilation.py`. Names of targets are in `target.py`, where their compilers are found in
`environment.py`; `program.py` refuses what cannot be compiled, `custom_calls.py` rewrites calls of other platforms'
libraries. To add a device, edit `target.py`; to teach a routine of linear algebra, `custom_calls.py`.
"""

from hloom.targets.compiler.assignment_text import SpaceUse as SpaceUse
from hloom.targets.compiler.assignment_text import spaces_in as spaces_in
from hloom.targets.compiler.cache import cache_folder as cache_folder
from hloom.targets.compiler.compilation import SECONDS as SECONDS
from hloom.targets.compiler.compilation import CompilerError as CompilerError
from hloom.targets.compiler.compilation import CompilerOutOfMemory as CompilerOutOfMemory
from hloom.targets.compiler.compilation import compile_module as compile_module
from hloom.targets.compiler.compilation import parse_flags as parse_flags
from hloom.targets.compiler.compiled_program import CollectiveSum as CollectiveSum
from hloom.targets.compiler.compiled_program import CompiledMemory as CompiledMemory
from hloom.targets.compiler.compiled_program import CompiledProgram as CompiledProgram
from hloom.targets.compiler.custom_calls import Rewritten as Rewritten
from hloom.targets.compiler.cycles import CompilerCycles as CompilerCycles
from hloom.targets.compiler.cycles import compiler_cycles as compiler_cycles
from hloom.targets.compiler.cycles import estimated_cycles as estimated_cycles
from hloom.targets.compiler.environment import COMPILERS as COMPILERS
from hloom.targets.compiler.environment import Environment as Environment
from hloom.targets.compiler.environment import MissingCompiler as MissingCompiler
from hloom.targets.compiler.environment import available_target as available_target
from hloom.targets.compiler.environment import find_environment as find_environment
from hloom.targets.compiler.program import devices_of as devices_of
from hloom.targets.compiler.target import GPUS as GPUS
from hloom.targets.compiler.target import RATES as RATES
from hloom.targets.compiler.target import TPUS as TPUS
from hloom.targets.compiler.target import NoSuchTarget as NoSuchTarget
from hloom.targets.compiler.target import Target as Target
from hloom.targets.compiler.target import parse_sized_target as parse_sized_target
from hloom.targets.compiler.target import parse_target as parse_target
from hloom.targets.compiler.target import rates_for as rates_for
from hloom.targets.compiler.target import slices as slices
