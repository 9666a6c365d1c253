"""A module as one HTML file that opens offline: graph, costs, memory, roofline, collectives, instructions.

To add a number per instruction, edit `figures.py`, and `overlays.py` to colour the graph by it; another panel gets its
data from `panels.py` and is drawn by `assets/page.js`. `groups.py` decides how instructions are grouped, `graphs.py`
what is cloned and how an instruction is described; `comparison.py` what is shown of two modules; `viewer.py` reads the
viewer.
"""

from hloom.page.comparison import COLOURS as COLOURS
from hloom.page.document import page as page
from hloom.page.document import page_text as page_text
from hloom.page.document import view as view
from hloom.page.figures import Figures as Figures
from hloom.page.figures import figures as figures
from hloom.page.graphs import GraphExport as GraphExport
from hloom.page.graphs import export_graphs as export_graphs
from hloom.page.numerics import ValueStatistics as ValueStatistics
from hloom.page.numerics import value_statistics as value_statistics
from hloom.page.overlays import overlays as overlays
from hloom.page.page_file import PageFile as PageFile
from hloom.page.page_file import open_page as open_page
from hloom.page.panels import panels as panels
from hloom.page.source_links import SourceLinks as SourceLinks
from hloom.page.viewer import VIEWER_HINT as VIEWER_HINT
from hloom.page.viewer import has_viewer as has_viewer
from hloom.text import make_callable

make_callable(__name__, page)
