"""A module as one HTML file that opens offline: graph, costs, memory, roofline, collectives, instructions.

To add a number per instruction, edit `figures.py`, and `overlays.py` to colour the graph by it. A panel gets its data
from `panels.py` and is drawn by `assets/page.js`. `groups.py` decides how instructions are grouped, `graphs.py` which
are cloned and how each is described, `comparison.py` what is shown of two modules; `viewer.py` reads the viewer.
"""

from hloom.inspection.page.comparison import COLOURS as COLOURS
from hloom.inspection.page.document import page as page
from hloom.inspection.page.document import page_text as page_text
from hloom.inspection.page.document import view as view
from hloom.inspection.page.figures import Figures as Figures
from hloom.inspection.page.figures import figures as figures
from hloom.inspection.page.graphs import GraphExport as GraphExport
from hloom.inspection.page.graphs import export_graphs as export_graphs
from hloom.inspection.page.numerics import ValueStatistics as ValueStatistics
from hloom.inspection.page.numerics import value_statistics as value_statistics
from hloom.inspection.page.overlays import overlays as overlays
from hloom.inspection.page.page_file import PageFile as PageFile
from hloom.inspection.page.page_file import open_page as open_page
from hloom.inspection.page.panels import panels as panels
from hloom.inspection.page.source_links import SourceLinks as SourceLinks
