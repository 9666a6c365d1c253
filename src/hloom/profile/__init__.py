"""Profiler measurements of a program compared with the model: time by instruction, scope and source line.

To change what is read of a trace, edit `trace.py`; how its program is matched with a module, `program_match.py`; how
times are reported, `measurement.py`; which device it was, `trace_device.py`.
"""

from hloom.profile.measurement import CollectiveTime as CollectiveTime
from hloom.profile.measurement import IdleGap as IdleGap
from hloom.profile.measurement import InstructionTime as InstructionTime
from hloom.profile.measurement import Measurement as Measurement
from hloom.profile.measurement import RunTimes as RunTimes
from hloom.profile.measurement import measured_change as measured_change
from hloom.profile.measurement import measured_noise as measured_noise
from hloom.profile.measurement import measurement as measurement
from hloom.profile.measurement import measurement_without_model as measurement_without_model
from hloom.profile.program_match import match_program as match_program
from hloom.profile.trace import OpEvent as OpEvent
from hloom.profile.trace import ProfilerTrace as ProfilerTrace
from hloom.profile.trace import read_trace as read_trace
