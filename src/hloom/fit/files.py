"""The files of a result: the modules to run, and `plan.json`, from which the combination is read again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hloom.fit.combination import Combination, DeviceCost
from hloom.fit.run_script import run_script
from hloom.hlo import load, to_text, write_whole
from hloom.ir import Module
from hloom.pipeline import PipelinePlan, Schedule, Stage, pipeline_program
from hloom.planner import plan_from_json
from hloom.text import HloomError, read_limited

PLAN, PROGRAM, ANNOTATED = "plan.json", "program.hlo", "module.hlo"
PLAN_BYTES = 1 << 26
"""The most bytes of a `plan.json`."""
VERSION = 1


def write_fit(best: Combination, record: dict[str, Any], folder: Path) -> Path:
    """Write a combination: its modules (`program.hlo` is of one device), `run.py`, and last `plan.json`.

    `record` is what the plan says beside: the other combinations, what was searched.
    """
    texts = {PROGRAM: to_text(best.module), "run.py": run_script(record["devices"])}
    if best.plan is not None:
        texts[ANNOTATED] = to_text(best.plan.annotate(best.module))
    else:
        texts |= _stage_texts(best)
    described = json.dumps(_described(best, record), indent=1) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(folder / name, text)
    return write_whole(folder / PLAN, described)


def load_fit(path: str | os.PathLike[str]) -> Combination:
    """The combination of a folder that a result was written into, or of its `plan.json`; else raises HloomError."""
    given = Path(path)
    folder, file = (given, given / PLAN) if given.is_dir() else (given.parent, given)
    try:
        value = json.loads(read_limited(file, PLAN_BYTES))
    except OSError as problem:
        raise HloomError(f"cannot read {file}: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise HloomError(f"{file} holds no combination: {problem}") from None
    if not isinstance(value, dict) or value.get("version") != VERSION or not isinstance(value.get("best"), dict):
        raise HloomError(f"{file} holds no combination", hint="hloom fit -o writes one")
    module = load(folder / PROGRAM)
    try:
        return _read(value["best"], value, module)
    except (KeyError, TypeError, ValueError) as problem:
        raise HloomError(f"{file} holds no combination: {problem!r}") from None


def _described(best: Combination, record: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": VERSION,
        **record,
        "best": {**best.to_json(), "batch": None if best.batch is None else dict(best.batch)},
        "sharding": None if best.plan is None else best.plan.to_json(),
        "pipeline": None if best.pipeline is None else _pipeline_json(best.pipeline),
    }


def _read(best: dict[str, Any], value: dict[str, Any], module: Module) -> Combination:
    sharding, pipeline = value.get("sharding"), value.get("pipeline")
    return Combination(
        str(best["name"]),
        module,
        int(best["microbatches"]),
        float(best["recomputation"]),
        DeviceCost(
            dict(best["seconds_by_cause"]), float(best["comm_bytes"]), int(best["peak_bytes"]), float(best["bubble"])
        ),
        plan=None if sharding is None else plan_from_json(sharding, module),
        pipeline=None if pipeline is None else _pipeline_from_json(pipeline),
        baseline=str(best["baseline"]),
        batch=best["batch"],
        measured_bytes=best["measured_bytes"],
        measured_comm_bytes=best["measured_comm_bytes"],
    )


def _pipeline_json(plan: PipelinePlan) -> dict[str, Any]:
    return {
        "stages": [{"first": stage.first, "last": stage.last, "devices": list(stage.devices)} for stage in plan.stages],
        "microbatches": plan.microbatches,
        "schedule": plan.schedule.value,
        "recompute": list(plan.recompute),
    }


def _pipeline_from_json(value: dict[str, Any]) -> PipelinePlan:
    stages = tuple(Stage(stage["first"], stage["last"], tuple(stage["devices"])) for stage in value["stages"])
    schedule, recompute = Schedule(value["schedule"]), tuple(map(bool, value["recompute"]))
    return PipelinePlan(stages, int(value["microbatches"]), schedule, recompute)


def _stage_texts(best: Combination) -> dict[str, str]:
    assert best.pipeline is not None
    program = pipeline_program(best.module, best.pipeline, batch=best.batch)
    named = [(f"stage{made.stage}.before", made) for made in program.before]
    named += [(f"stage{stage}.{phase.name.lower()}", made) for (phase, stage), made in program.microbatch.items()]
    named += [(f"stage{made.stage}.update{number}", made) for number, made in enumerate(program.update)]
    return {f"{name}.hlo": to_text(made.module) for name, made in named}
