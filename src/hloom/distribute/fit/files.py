"""The folder of a result: modules, `plan.json`, from which the combination is read again, and `run.py`."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from hloom.analysis import Device
from hloom.distribute.fit.combination import CAUSES, Combination, DeviceCost
from hloom.distribute.fit.run_record import named_programs, run_files
from hloom.distribute.pipeline import pipeline_program
from hloom.distribute.pipeline import plan_from_json as pipeline_from_json
from hloom.distribute.planner import plan_from_json
from hloom.formats.hlo import check_new_folder, load, to_text, write_folder
from hloom.ir import Module
from hloom.text import HloomError, read_limited

PLAN, PROGRAM, ANNOTATED = "plan.json", "program.hlo", "module.hlo"
PLAN_BYTES = 1 << 26
"""The most bytes of a `plan.json`."""
VERSION = 2


def write_fit(
    step: Module, best: Combination, record: dict[str, Any], folder: str | os.PathLike[str], on: Device | str
) -> Path:
    """Write a combination into a new folder, or an empty one, all or nothing; gives the folder back.

    `program.hlo` is the one-device program, `module.hlo` the same with shardings, or `stage*.hlo` those of stages;
    `record` is what the plan says beside: the other combinations, what was searched. Stages on meshes are planned with
    the rates of `on`. Raises HloomError where something is there already, or jax cannot take the step.
    """
    check_new_folder(folder)
    texts = {PROGRAM: to_text(best.module)}
    if best.plan is not None:
        texts[ANNOTATED] = to_text(best.plan.annotate(best.module))
    else:
        texts |= _stage_texts(best)
    texts |= run_files(step, best, on)
    texts[PLAN] = json.dumps(fit_json(best, record), indent=1) + "\n"
    return write_folder(folder, texts)


def load_fit(path: str | os.PathLike[str]) -> Combination:
    """The combination of a folder that a result was written into, or of its `plan.json`; else raises HloomError."""
    given = Path(path)
    folder, file = (given, given / PLAN) if given.is_dir() else (given.parent, given)
    try:
        value = json.loads(read_limited(file, PLAN_BYTES))
    except (ValueError, RecursionError) as problem:
        raise HloomError(f"{file} holds no combination: {problem}") from None
    if not isinstance(value, dict) or not isinstance(value.get("best"), dict):
        raise HloomError(f"{file} holds no combination", hint="hloom fit -o writes one")
    if value.get("version") != VERSION:
        raise HloomError(
            f"{file} is of version {json.dumps(value.get('version'))[:20]}, and this hloom reads version {VERSION}",
            hint="write it again with hloom fit -o",
        )
    module = load(folder / PROGRAM)
    try:
        return _read(value["best"], value, module)
    except HloomError as problem:
        raise HloomError(f"{file}: {problem.message}", problem.location, problem.hint) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise HloomError(f"{file} holds no combination: {problem!r}", hint="write it again with hloom fit -o") from None


def fit_json(best: Combination, record: dict[str, Any]) -> dict[str, Any]:
    """The contents of `plan.json`, as plain values."""
    return {
        "version": VERSION,
        **record,
        "best": {**best.to_json(), "batch": None if best.batch is None else dict(best.batch)},
        "sharding": None if best.plan is None else best.plan.to_json(),
        "pipeline": None if best.pipeline is None else best.pipeline.to_json(),
    }


def _read(best: dict[str, Any], value: dict[str, Any], module: Module) -> Combination:
    sharding, pipeline = value["sharding"], value["pipeline"]
    if (sharding is None) == (pipeline is None):
        raise ValueError("a combination has a sharding or a pipeline")
    seconds = {str(cause): _number(amount) for cause, amount in best["seconds_by_cause"].items()}
    if not seconds.keys() <= set(CAUSES):
        raise ValueError(f"causes are {', '.join(CAUSES)}")
    batch, measured, sent = best["batch"], best["measured_bytes"], best["measured_comm_bytes"]
    return Combination(
        str(best["name"]),
        module,
        int(_number(best["microbatches"])),
        _number(best["recomputation"]),
        DeviceCost(seconds, _number(best["comm_bytes"]), int(_number(best["peak_bytes"])), _number(best["bubble"])),
        plan=None if sharding is None else plan_from_json(sharding, module),
        pipeline=None if pipeline is None else pipeline_from_json(pipeline),
        baseline=str(best["baseline"]),
        batch=None if batch is None else {str(name): int(_number(dim)) for name, dim in batch.items()},
        measured_bytes=None if measured is None else int(_number(measured)),
        measured_comm_bytes=None if sent is None else _number(sent),
        measured_bubble=None if best["measured_bubble"] is None else _number(best["measured_bubble"]),
    )


def _number(value: Any) -> float:
    """A number that is not below zero; raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is not a number from 0")
    return value


def _stage_texts(best: Combination) -> dict[str, str]:
    assert best.pipeline is not None
    program = pipeline_program(best.module, best.pipeline, batch=best.batch)
    return {f"{name}.hlo": to_text(part.module) for _, name, part, _ in named_programs(program)}
