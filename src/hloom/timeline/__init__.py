"""The timeline of XLA's passes over a module, from a directory that XLA dumped it into after each pass.

To add a figure of each state, add a field to `StateFigures` and work it out in `figures_of`; how file names are read is
in `pass_states.py`.
"""

from hloom.timeline.compiled_passes import changing_passes as changing_passes
from hloom.timeline.pass_states import FLAGS as FLAGS
from hloom.timeline.pass_states import STAGES as STAGES
from hloom.timeline.pass_states import PassState as PassState
from hloom.timeline.pass_states import pass_states as pass_states
from hloom.timeline.pass_timeline import PassTimeline as PassTimeline
from hloom.timeline.pass_timeline import StateRow as StateRow
from hloom.timeline.pass_timeline import pass_timeline as pass_timeline
from hloom.timeline.state_figures import StateFigures as StateFigures
from hloom.timeline.state_figures import figures_of as figures_of
