"""Measurements and dumps of a program: profiler traces next to the model, and the timeline of XLA's passes.

To read more from a trace, edit `trace.py`; to change how its program is matched with a module, `program_match.py`; how
times are reported, `measurement.py`; how the device is recognised, `trace_device.py`. The timeline is read from a
directory of dumps: file names in `pass_states.py`; a figure of each state is a field of `StateFigures` in
`state_figures.py`.
"""

from hloom.inspection.profile.compiled_passes import changing_passes as changing_passes
from hloom.inspection.profile.measurement import CollectiveTime as CollectiveTime
from hloom.inspection.profile.measurement import IdleGap as IdleGap
from hloom.inspection.profile.measurement import InstructionTime as InstructionTime
from hloom.inspection.profile.measurement import Measurement as Measurement
from hloom.inspection.profile.measurement import RunTimes as RunTimes
from hloom.inspection.profile.measurement import measured_change as measured_change
from hloom.inspection.profile.measurement import measured_noise as measured_noise
from hloom.inspection.profile.measurement import measurement as measurement
from hloom.inspection.profile.measurement import measurement_without_model as measurement_without_model
from hloom.inspection.profile.pass_states import FLAGS as FLAGS
from hloom.inspection.profile.pass_states import STAGES as STAGES
from hloom.inspection.profile.pass_states import PassState as PassState
from hloom.inspection.profile.pass_states import pass_states as pass_states
from hloom.inspection.profile.pass_timeline import PassTimeline as PassTimeline
from hloom.inspection.profile.pass_timeline import StateRow as StateRow
from hloom.inspection.profile.pass_timeline import pass_timeline as pass_timeline
from hloom.inspection.profile.program_match import match_program as match_program
from hloom.inspection.profile.state_figures import StateFigures as StateFigures
from hloom.inspection.profile.state_figures import figures_of as figures_of
from hloom.inspection.profile.timeline_files import perfetto as perfetto
from hloom.inspection.profile.timeline_files import timeline_speedscope as timeline_speedscope
from hloom.inspection.profile.trace import OpEvent as OpEvent
from hloom.inspection.profile.trace import ProfilerTrace as ProfilerTrace
from hloom.inspection.profile.trace import read_trace as read_trace
