"""Queries: selects the instructions of a module that match an expression, and lists all of them as a table.

To add a field that queries can ask for, edit `instructions.py`; the language is in `expression.py`.
"""

from hloom.query.expression import parse_query as parse_query
from hloom.query.instructions import FIELDS as FIELDS
from hloom.query.instructions import Instructions as Instructions
from hloom.query.query import COLUMNS as COLUMNS
from hloom.query.query import Matches as Matches
from hloom.query.query import query as query
from hloom.query.query import table as table
from hloom.query.speedscope import speedscope as speedscope
from hloom.text import make_callable

make_callable(__name__, query)
