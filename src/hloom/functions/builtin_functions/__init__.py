"""Abstract versions of Python's builtins, and of the methods of containers, strings and numbers.

To add a function, add a row to `BUILTINS` in the file of its subject: the Python object and what makes its value. To
add a method, add a row to the table of its owner in `methods.py`.
"""

from hloom.functions.builtin_functions import arithmetic as _arithmetic  # noqa: F401  rows of the table
from hloom.functions.builtin_functions import attributes as _attributes  # noqa: F401
from hloom.functions.builtin_functions import cmath_module as _cmath_module  # noqa: F401
from hloom.functions.builtin_functions import containers as _containers  # noqa: F401
from hloom.functions.builtin_functions import iteration as _iteration  # noqa: F401
from hloom.functions.builtin_functions import math_module as _math_module  # noqa: F401
from hloom.functions.builtin_functions import operator_module as _operator_module  # noqa: F401
from hloom.functions.builtin_functions.containers import missing_item as missing_item
from hloom.functions.builtin_functions.methods import RANGE_METHODS as RANGE_METHODS
from hloom.functions.builtin_functions.methods import SEQUENCE_OPERATORS as SEQUENCE_OPERATORS
from hloom.functions.builtin_functions.methods import SPECIAL_METHODS as SPECIAL_METHODS
from hloom.functions.builtin_functions.methods import TUPLE_METHODS as TUPLE_METHODS
from hloom.functions.builtin_functions.methods import VIEW_METHODS as VIEW_METHODS
from hloom.functions.builtin_functions.methods import call_method as call_method
from hloom.functions.builtin_functions.methods import methods_of as methods_of
from hloom.functions.builtin_functions.table import BUILTINS as BUILTINS
from hloom.functions.builtin_functions.table import Handler as Handler
from hloom.functions.builtin_functions.table import bound_arguments as bound_arguments
from hloom.functions.builtin_functions.transformations import call_derived_outside as call_derived_outside
