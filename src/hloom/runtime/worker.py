"""The child process that runs XLA: `python -m hloom.runtime.worker`, serving requests on standard input and output.

Each request's header names one of REQUESTS; its first blob is the HLO text, the others are arrays: other bytes are sent
as an array of u8. To add a request, write a function here and put it in the table.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hloom.runtime import messages, shardy, stablehlo_reader, xla
from hloom.text import HloomError

Answer = tuple[dict[str, Any], list[np.ndarray]]
KEPT_PROGRAMS = 64
"""The maximum number of compiled programs kept for requests to run them again."""
PARENT_CHECK_SECONDS = 2.0
"""After how many seconds a worker looks again whether its parent is there: so long it may outlive it."""


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    requests, answers = _take_pipes()
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    while True:
        try:
            header, blobs = messages.unpack(lambda count: _read(requests, count))
        except EOFError:
            return
        for piece in messages.pack(*_answer(header, blobs)):
            answers.write(piece)
        answers.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the parent, protected from XLA's output: its standard output is redirected to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return requests, answers


def _read(pipe: BinaryIO, count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _die_with(parent: int) -> None:
    """End this process when its parent is gone, even while a program runs."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def _answer(header: dict[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[memoryview]]:
    try:
        text = blobs[0].decode("utf-8", "surrogateescape")
        inputs = [messages.restore(entry, data) for entry, data in zip(header["inputs"], blobs[1:], strict=True)]
        reply, arrays = REQUESTS[header["request"]](text, header, inputs)
        return {**reply, "arrays": [messages.describe(array) for array in arrays]}, [
            messages.blob(array) for array in arrays
        ]
    except HloomError as error:
        return {"error": error.message, "hint": error.hint, "is_ours": True}, []
    except Exception as error:
        return {"error": str(error) or repr(error), "hint": None, "is_ours": False}, []


def _named_sharding(header: dict[str, Any]) -> xla.Placement:
    return xla.Placement(header["replicas"], header["partitions"], header["uses_shardy"])


def _parse(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    xla.parse_hlo(text)
    return {}, []


def _canonical(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return {"text": xla.canonical_text(text)}, []


def _printed(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return {"text": xla.printed_text(text)}, []


def _signature(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    parameters, results = xla.signature(text)
    return {"parameters": parameters, "results": results}, []


def _cost(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return {"cost": xla.cost_analysis(text)}, []


def _compile(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    program = xla.compile_text(text, _named_sharding(header))
    return {"compile_seconds": program.compile_seconds, "memory": xla.memory(program)}, []


def _partition(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    with tempfile.TemporaryDirectory() as directory:
        program = xla.partition(text, header["partitions"], directory)
        stages = list(Path(directory).glob("*after_spmd-partitioning*.txt"))
        made = stages[0].read_text() if stages else text  # nothing is partitioned for one device
    return {"text": made, "memory": xla.memory(program), "compile_seconds": program.compile_seconds}, []


def _stablehlo(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return {"text": shardy.embeddable_text(xla.parse_hlo(text).as_serialized_hlo_module_proto())}, []


def _hlo_of_stablehlo(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return {}, [_array_of(stablehlo_reader.proto_of_stablehlo(inputs[0].tobytes()))]


def _shardy(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return {"text": shardy.shardy_text(inputs[0].tobytes())}, []


def _array_of(data: bytes) -> np.ndarray:
    """Bytes as they travel, among the arrays."""
    return np.frombuffer(data, np.uint8)


def _run(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return _run_program(xla.compile_text(text, _named_sharding(header)), header, inputs)


def _run_kept(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return _run_program(_kept_program(text, _named_sharding(header)), header, inputs)


def _run_kernels(text: str, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    return _run_program(xla.compile_in_place_of(text, header["kernels"]), header, inputs)


@lru_cache(KEPT_PROGRAMS)
def _kept_program(text: str, placement: xla.Placement) -> xla.LoadedProgram:
    return xla.compile_text(text, placement)


def _run_program(program: xla.LoadedProgram, header: dict[str, Any], inputs: list[np.ndarray]) -> Answer:
    execution = _execute(program, inputs, header)
    single = program.placement.devices == 1
    arrays = [*execution.outputs, *(array for device in execution.per_device if not single for array in device)]
    reply = {"seconds": execution.seconds, "compile_seconds": program.compile_seconds, "count": len(execution.outputs)}
    return reply, arrays


def _execute(program: xla.LoadedProgram, inputs: list[np.ndarray], header: dict[str, Any]) -> xla.Execution:
    if not header["is_per_device"]:
        return xla.execute(program, inputs)
    count = len(program.parameters)
    return xla.execute_each(program, [inputs[start : start + count] for start in range(0, len(inputs), count)])


REQUESTS: dict[str, Callable[[str, dict[str, Any], list[np.ndarray]], Answer]] = {
    "parse": _parse,
    "canonical": _canonical,
    "printed": _printed,
    "signature": _signature,
    "cost": _cost,
    "compile": _compile,
    "partition": _partition,
    "stablehlo": _stablehlo,
    "hlo_of_stablehlo": _hlo_of_stablehlo,
    "shardy": _shardy,
    "run": _run,
    "run_kept": _run_kept,
    "run_kernels": _run_kernels,
}


if __name__ == "__main__":
    main()
    sys.exit(0)
