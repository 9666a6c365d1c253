"""HLO text and HLO protos: reading and printing.

To add a kind of attribute value, edit `values.py` and the value's `__str__` in the room `ir`; to change the fast way
through plain lines, `body.py`; the careful way, `instruction.py`; what `strict` refuses, `strict.py`.
"""

from hloom.hlo.printer import PrintOptions as PrintOptions
from hloom.hlo.printer import print_graph as print_graph
from hloom.hlo.printer import print_module as print_module
from hloom.hlo.printer import print_node as print_node
from hloom.hlo.printer import print_parts as print_parts
from hloom.hlo.reader import parse as parse
