"""Queries: selects the instructions of a module that match an expression, and lists all of them as a table.

To add a field that queries can ask for, edit `instructions.py`; the language is in `expression.py`.
"""

from hloom.inspection.query.expression import parse_query as parse_query
from hloom.inspection.query.instructions import FIELDS as FIELDS
from hloom.inspection.query.instructions import Instructions as Instructions
from hloom.inspection.query.query import COLUMNS as COLUMNS
from hloom.inspection.query.query import Matches as Matches
from hloom.inspection.query.query import grep as grep
from hloom.inspection.query.query import table as table
from hloom.inspection.query.speedscope import speedscope as speedscope
