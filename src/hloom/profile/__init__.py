"""What a profiler measured of a program, beside what the model says: time by instruction, scope and source line.

To change what is read of a trace, edit `trace.py`; how one is told from that of another program, `program_match.py`;
what is said of the times, `measurement.py`; which device that was, `trace_device.py`.
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
