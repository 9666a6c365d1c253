"""MindSpore's MindIR: its `.ir` text and `.mindir` files as functional graphs.

    module = hloom.dialects.mindir.parse(text)
    print(hloom.dialects.mindir.to_text(module))

To add a primitive, write its row in `rows.py` and its lowering in its family's `*_lowering.py`.
"""

from hloom.dialects.mindir.lowering import UPDATES as UPDATES
from hloom.dialects.mindir.lowering import lower as lower
from hloom.dialects.mindir.lowering_pass import LOWER as LOWER
from hloom.dialects.mindir.model_reader import WEIGHTS as WEIGHTS
from hloom.dialects.mindir.model_reader import read_model as read_model
from hloom.dialects.mindir.rows import ROWS as ROWS
from hloom.dialects.mindir.text_printer import to_text as to_text
from hloom.dialects.mindir.text_reader import parse as parse
