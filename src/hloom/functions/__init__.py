"""Python functions as graphs: abstract interpretation, specialisation, closure conversion, recursion, derivatives.

`code.py` reads a function's syntax tree, and `interpreter.py` holds the state of a compilation; `REFUSED` in
`subset.py` lists the constructs that cannot be compiled. To add a Python builtin, write a row in `BUILTINS` in the
package `builtin_functions`; the language itself is in `expressions.py`, `statements.py`, `control_flow.py` (branches),
`loops.py`, `calls.py` and `recursive_calls.py`.
"""

from hloom.functions.builtin_functions import BUILTINS as BUILTINS
from hloom.functions.closure_conversion import DEFAULT_DEPTH as DEFAULT_DEPTH
from hloom.functions.code import Code as Code
from hloom.functions.code import code_of as code_of
from hloom.functions.code import compiled_code as compiled_code
from hloom.functions.code import nested_code as nested_code
from hloom.functions.code import stored_names as stored_names
from hloom.functions.container_classes import class_of_container as class_of_container
from hloom.functions.interpreter import Interpreter as Interpreter
from hloom.functions.interpreter import Settings as Settings
from hloom.functions.library_protocols import Placeholder as Placeholder
from hloom.functions.library_protocols import Traced as Traced
from hloom.functions.print_log import printed_lines as printed_lines
from hloom.functions.program import ArgumentArray as ArgumentArray
from hloom.functions.program import ArgumentTree as ArgumentTree
from hloom.functions.program import CompiledFunction as CompiledFunction
from hloom.functions.program import compile_program as compile_program
from hloom.functions.results import Result as Result
from hloom.functions.results import Static as Static
from hloom.functions.results import has_choice as has_choice
from hloom.functions.results import rebuilt as rebuilt
from hloom.functions.values import AbstractValue as AbstractValue
from hloom.functions.values import Const as Const
from hloom.functions.values import Derived as Derived
from hloom.functions.values import ErrorSite as ErrorSite
from hloom.functions.values import FunctionClosure as FunctionClosure
from hloom.functions.values import Tuple as Tuple
from hloom.functions.views import memory_order as memory_order
