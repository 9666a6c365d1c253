"""Queries: selects the instructions of a module that match an expression, and lists all of them as a table.

To add a field that queries can ask for, edit `instructions.py`; the language is in `expression.py`.
"""

import sys
from types import ModuleType

from hloom.analysis import DEFAULT_DEVICE, Device
from hloom.ir import ModuleLike
from hloom.query.expression import parse_query as parse_query
from hloom.query.instructions import FIELDS as FIELDS
from hloom.query.instructions import Instructions as Instructions
from hloom.query.query import COLUMNS as COLUMNS
from hloom.query.query import Matches as Matches
from hloom.query.query import query as query
from hloom.query.query import table as table
from hloom.query.speedscope import speedscope as speedscope


class _CallablePackage(ModuleType):
    """The package as a function: the package and what users call, `hloom.query(module, "dot")`, have one name."""

    def __call__(self, module: ModuleLike, text: str, *, device: Device | str = DEFAULT_DEVICE) -> Matches:
        return query(module, text, device=device)


sys.modules[__name__].__class__ = _CallablePackage
