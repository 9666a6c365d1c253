"""MLIR's generic operation text: parses it into the IR, and prints it as MLIR's own printer does.

Dialects need no registration: `parse` takes op rows by full name (`oneflow.dropout`) and makes rows for the rest. An
op with several results is an application that yields a tuple, followed by a `get-tuple-element` for each used result.

To add a kind of attribute value, edit `values.py`, `value_reader.py` and `printer.py`; a spelling of element
types, `types.py`; the custom form of a function-like op, `syntax.py`.
"""

from hloom.formats.mlir.printer import print_value as print_value
from hloom.formats.mlir.printer import to_text as to_text
from hloom.formats.mlir.reader import parse as parse
from hloom.formats.mlir.syntax import CARRIED as CARRIED
from hloom.formats.mlir.syntax import FUNCTIONS as FUNCTIONS
from hloom.formats.mlir.syntax import FunctionForm as FunctionForm
from hloom.formats.mlir.syntax import unknown_op as unknown_op
from hloom.formats.mlir.types import spell as spell
from hloom.formats.mlir.types import type_of as type_of
from hloom.formats.mlir.value_reader import parse_value as parse_value
from hloom.formats.mlir.values import UNIT as UNIT
from hloom.formats.mlir.values import Dense as Dense
from hloom.formats.mlir.values import OpaqueValue as OpaqueValue
from hloom.formats.mlir.values import Symbol as Symbol
from hloom.formats.mlir.values import TypedArray as TypedArray
from hloom.formats.mlir.values import TypedNumber as TypedNumber
from hloom.formats.mlir.values import TypeValue as TypeValue
from hloom.formats.mlir.values import Unit as Unit
