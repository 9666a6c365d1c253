"""Python functions as syntax trees with scopes and source locations; rejects constructs that cannot be compiled.

To add a construct to reject, add a row to `REFUSED` in `subset.py`.
"""

from hloom.frontend.code import Code as Code
from hloom.frontend.code import code_of as code_of
from hloom.frontend.code import compiled_code as compiled_code
from hloom.frontend.code import nested_code as nested_code
from hloom.frontend.code import stored_names as stored_names
