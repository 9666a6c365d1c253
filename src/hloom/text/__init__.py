"""Source text and locations in it, errors that point at them, a token cursor, and notebook display.

This package is independent of HLO. To change how an error looks, edit `source.py`; what counts as white space or a
token, `cursor.py`; how values look in a notebook, `notebook.py`; which characters are escaped, `strings.py`; the units
of sizes and times, `quantities.py`; how reports become JSON, `records.py`; the syntax of patterns,
`regular_expression.py`; what differs between operating systems, `files.py` and `processes.py`.
"""

from hloom.text.cursor import TRIVIA as TRIVIA
from hloom.text.cursor import Cursor as Cursor
from hloom.text.files import read_limited as read_limited
from hloom.text.files import read_stream as read_stream
from hloom.text.files import system_message as system_message
from hloom.text.files import unreadable as unreadable
from hloom.text.files import unwritable as unwritable
from hloom.text.lazy_names import imports_names_lazily as imports_names_lazily
from hloom.text.names import names_meant as names_meant
from hloom.text.names import near_names as near_names
from hloom.text.names import resolve_name as resolve_name
from hloom.text.notebook import Display as Display
from hloom.text.notebook import Displayed as Displayed
from hloom.text.notebook import DisplayTable as DisplayTable
from hloom.text.plain_table import plain_table as plain_table
from hloom.text.processes import end_group as end_group
from hloom.text.processes import ending as ending
from hloom.text.processes import wait_readable as wait_readable
from hloom.text.progress import listening as listening
from hloom.text.progress import report as report
from hloom.text.progress import say as say
from hloom.text.progress import tracked as tracked
from hloom.text.quantities import byte_text as byte_text
from hloom.text.quantities import count_text as count_text
from hloom.text.quantities import parse_bytes as parse_bytes
from hloom.text.quantities import parse_capacity as parse_capacity
from hloom.text.quantities import percent_text as percent_text
from hloom.text.quantities import time_text as time_text
from hloom.text.records import SCHEMA_VERSION as SCHEMA_VERSION
from hloom.text.records import Bytes as Bytes
from hloom.text.records import Record as Record
from hloom.text.records import Seconds as Seconds
from hloom.text.records import plain as plain
from hloom.text.regular_expression import RegularExpression as RegularExpression
from hloom.text.regular_expression import compile_pattern as compile_pattern
from hloom.text.source import HloomError as HloomError
from hloom.text.source import HloomWarning as HloomWarning
from hloom.text.source import Location as Location
from hloom.text.source import ParseError as ParseError
from hloom.text.source import Source as Source
from hloom.text.source import Unattainable as Unattainable
from hloom.text.source import Unsupported as Unsupported
from hloom.text.strings import escape as escape
from hloom.text.strings import readable as readable
from hloom.text.strings import unescape as unescape
from hloom.text.strings import visible as visible
from hloom.text.strings import visible_json as visible_json
