"""Drawings of a module: Graphviz DOT, JSON, GraphML, and pictures through Graphviz.

`selection.py` chooses the nodes to draw and `node_text.py` describes them, for all formats; a writer only turns a
`Drawing` into text. To add a format, write a file with a function from `Drawing` to text and add a row to the table in
`files.py`; to change node labels, edit `node_text.py`; colours, `opcode_families.py`.
"""

from hloom.inspection.viz.dot import to_dot as to_dot
from hloom.inspection.viz.drawing import Drawing as Drawing
from hloom.inspection.viz.drawing import DrawnCall as DrawnCall
from hloom.inspection.viz.drawing import DrawnCluster as DrawnCluster
from hloom.inspection.viz.drawing import DrawnEdge as DrawnEdge
from hloom.inspection.viz.drawing import DrawnNode as DrawnNode
from hloom.inspection.viz.drawing import EdgeKind as EdgeKind
from hloom.inspection.viz.files import SUFFIXES as SUFFIXES
from hloom.inspection.viz.files import draw as draw
from hloom.inspection.viz.graphml import to_graphml as to_graphml
from hloom.inspection.viz.graphviz import FORMATS as FORMATS
from hloom.inspection.viz.graphviz import render as render
from hloom.inspection.viz.json_records import to_json as to_json
from hloom.inspection.viz.node_text import attribute_text as attribute_text
from hloom.inspection.viz.node_text import clean as clean
from hloom.inspection.viz.node_text import constant_text as constant_text
from hloom.inspection.viz.node_text import identify as identify
from hloom.inspection.viz.node_text import metadata_fields as metadata_fields
from hloom.inspection.viz.node_text import shorten as shorten
from hloom.inspection.viz.selection import HOPS as HOPS
from hloom.inspection.viz.selection import Selection as Selection
from hloom.inspection.viz.selection import drawing_of as drawing_of
