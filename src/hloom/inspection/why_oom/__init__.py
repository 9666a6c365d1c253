"""Explains why a program does not fit into memory: what is live at the peak, why, and which remedies help.

To add a remedy, edit `remedies.py`; to read another form of XLA's messages, edit `error_text.py`; to explain why more
buffers are kept, `held_buffers.py`.
"""

from hloom.inspection.why_oom.diagnosis import why_oom as why_oom
from hloom.inspection.why_oom.dump import why_dump_oom as why_dump_oom
from hloom.inspection.why_oom.error_text import error_text_in as error_text_in
from hloom.inspection.why_oom.error_text import error_text_of as error_text_of
from hloom.inspection.why_oom.error_text import is_error_text as is_error_text
from hloom.inspection.why_oom.error_text import read_error_text as read_error_text
from hloom.inspection.why_oom.held_buffers import BufferGroup as BufferGroup
from hloom.inspection.why_oom.held_buffers import HeldBuffer as HeldBuffer
from hloom.inspection.why_oom.module_report import with_remedies as with_remedies
from hloom.inspection.why_oom.remedies import Remedy as Remedy
from hloom.inspection.why_oom.report import OomReport as OomReport
