"""Python functions as graphs: abstract interpretation, specialisation, closure conversion, recursion, derivatives.

To teach a Python function, add a row to `BUILTINS` in the package `builtin_functions`; see `expressions.py`,
`statements.py`, `control_flow.py` (branches), `loops.py`, `calls.py` and `recursive_calls.py`.
"""

from hloom.functional.builtin_functions import BUILTINS as BUILTINS
from hloom.functional.closure_conversion import DEFAULT_DEPTH as DEFAULT_DEPTH
from hloom.functional.container_classes import class_of_container as class_of_container
from hloom.functional.interpreter import Interpreter as Interpreter
from hloom.functional.interpreter import Settings as Settings
from hloom.functional.library_protocols import Placeholder as Placeholder
from hloom.functional.library_protocols import Traced as Traced
from hloom.functional.print_log import printed_lines as printed_lines
from hloom.functional.program import ArgumentArray as ArgumentArray
from hloom.functional.program import ArgumentTree as ArgumentTree
from hloom.functional.program import CompiledFunction as CompiledFunction
from hloom.functional.program import compile_program as compile_program
from hloom.functional.results import Result as Result
from hloom.functional.results import Static as Static
from hloom.functional.results import has_choice as has_choice
from hloom.functional.results import rebuilt as rebuilt
from hloom.functional.values import AbstractValue as AbstractValue
from hloom.functional.values import Const as Const
from hloom.functional.values import Derived as Derived
from hloom.functional.values import ErrorSite as ErrorSite
from hloom.functional.values import FunctionClosure as FunctionClosure
from hloom.functional.values import Tuple as Tuple
from hloom.functional.views import memory_order as memory_order
