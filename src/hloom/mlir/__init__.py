"""MLIR's generic operation text: parses it into the IR, and prints it as MLIR's own printer does.

Dialects need no registration: `parse` takes op rows by full name (`oneflow.dropout`) and makes rows for the rest. An
op with several results is an application that yields a tuple, followed by a `get-tuple-element` for each used result.

To add a kind of attribute value, edit `values.py`, `value_reader.py` and `printer.py`; a spelling of element
types, `types.py`; the custom form of a function-like op, `syntax.py`.
"""

from hloom.mlir.printer import print_value as print_value
from hloom.mlir.printer import to_text as to_text
from hloom.mlir.reader import parse as parse
from hloom.mlir.syntax import CARRIED as CARRIED
from hloom.mlir.syntax import FUNCTIONS as FUNCTIONS
from hloom.mlir.syntax import FunctionForm as FunctionForm
from hloom.mlir.syntax import unknown_op as unknown_op
from hloom.mlir.types import spell as spell
from hloom.mlir.types import type_of as type_of
from hloom.mlir.value_reader import parse_value as parse_value
from hloom.mlir.values import UNIT as UNIT
from hloom.mlir.values import Dense as Dense
from hloom.mlir.values import OpaqueValue as OpaqueValue
from hloom.mlir.values import Symbol as Symbol
from hloom.mlir.values import TypedArray as TypedArray
from hloom.mlir.values import TypedNumber as TypedNumber
from hloom.mlir.values import TypeValue as TypeValue
from hloom.mlir.values import Unit as Unit
