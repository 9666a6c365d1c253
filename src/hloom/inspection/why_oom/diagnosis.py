"""The diagnosis of a program, or of an XLA error message, that ran out of memory."""

from __future__ import annotations

import os

from hloom.distribute.microbatch import Batch
from hloom.inspection.why_oom.dump import why_dump_oom
from hloom.inspection.why_oom.error_text import error_text_of
from hloom.inspection.why_oom.module_report import message_report, module_report
from hloom.inspection.why_oom.report import OomReport
from hloom.ir import ModuleLike, as_module
from hloom.text import parse_capacity


def why_oom(
    source: ModuleLike | BaseException,
    *,
    memory: int | str | None = None,
    quick: bool = False,
    batch: Batch | str | None = None,
    file: str = "FILE",
) -> OomReport:
    """What a program holds at its peak and why, and remedies, each simulated on the model.

    `source` is a module or what `hloom.load` reads; a directory that XLA dumped into, of which the module that needs
    most is taken; or an error of XLA's about memory (the exception, its text, or a file with the text), which holds no
    program, so that nothing can be tried. `memory` is what the device has, in bytes or as a text (`16GiB`); an error's
    text may say it. With `quick`, and where the program fits, nothing is tried. `batch` says which dimension of which
    parameters is the batch, as in "x:0"; without it, it is looked for. The commands in the report call the program
    `file`. Raises HloomError for an empty module, and for a text that is neither a program nor such an error.

    >>> from hloom import parse
    >>> report = why_oom(parse("ENTRY e { x = f32[1024] parameter(0) ROOT y = f32[1024] tanh(x) }"), memory="6KiB")
    >>> report.fits, [buffer.reason for buffer in report.buffers]
    (False, ['argument: the caller keeps it; result {} could take its memory', 'result: kept to the end'])
    """
    limit = None if memory is None else parse_capacity(memory)
    if isinstance(source, BaseException):
        source = str(source)
    if (text := error_text_of(source)) is not None:
        return message_report(text, limit)
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        return why_dump_oom(source, memory=limit, quick=quick, batch=batch)
    return module_report(as_module(source), limit, quick=quick, batch=batch, file=file)
