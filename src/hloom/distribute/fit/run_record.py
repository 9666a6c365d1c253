"""What `run.py` reads beside itself: the programs as StableHLO, and `run.json`.

`run.json` says how the arrays of each program are split over its devices, which results are parameters of the next
step, and of a pipeline what each stage reads, yields and sends, in the order of its schedule. `run.py` is a copy of
`runtime/runner.py`, which needs jax alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from hloom.analysis import Device
from hloom.distribute.fit.combination import Combination
from hloom.distribute.pipeline import (
    PipelineProgram,
    StageProgram,
    StageSharding,
    StageValue,
    ValueScope,
    dispatch_order,
    pipeline_program,
    shard_stages,
)
from hloom.distribute.planner import annotation
from hloom.ir import Module, TensorType
from hloom.runtime import embeddable_stablehlo
from hloom.sharding import Spec
from hloom.text import HloomError

RECORD, SCRIPT, STEP, PROGRAM = "run.json", "run.py", "step.mlir", "program.mlir"
BATCH_AXIS = "batch"
"""The axis of a stage's devices where the stage has no mesh."""
Json = dict[str, Any]


def run_files(step: Module, best: Combination, device: Device | str) -> dict[str, str]:
    """The texts by file name: `run.py`, `run.json`, the step for one device, and what runs on the devices.

    Raises HloomError for a step that XLA does not convert, or whose results are not arrays.
    """
    parameters = [{"name": node.name, **_type_json(node.type)} for node in step.entry.parameters]
    record: Json = {
        "name": best.name,
        "jax": _jax_version(),
        "devices": _device_count(best),
        "parameters": parameters,
        "results": [_type_json(result) for result in _result_types(step)],
        "state": _state(best.module),
    }
    texts = {SCRIPT: files("hloom.runtime").joinpath("runner.py").read_text(), STEP: embeddable_stablehlo(step)}
    made = _sharded(best) if best.plan is not None else _pipelined(best, device)
    described, programs = made
    texts |= {name: embeddable_stablehlo(module) for name, module in programs.items()}
    return {**texts, RECORD: json.dumps({**record, **described}, indent=1) + "\n"}


def _device_count(best: Combination) -> int:
    """How many devices are used, counted from the first."""
    if best.plan is not None:
        return best.plan.mesh.device_count
    assert best.pipeline is not None
    return 1 + max(number for stage in best.pipeline.stages for number in stage.devices)


def _jax_version() -> str | None:
    try:
        return version("jax")
    except PackageNotFoundError:
        return None


def _result_types(module: Module) -> list[TensorType]:
    """The types of the entry's results; raises HloomError where one is not an array, or a tuple holds tuples."""
    root = module.entry.root.type
    elements = [root] if isinstance(root, TensorType) else list(getattr(root, "elements", ()))
    types = [element for element in elements if isinstance(element, TensorType)]
    if not types or len(types) < len(elements):
        raise HloomError(
            f"{module.name} yields {root}: jax runs programs whose results are arrays",
            hint="let the entry yield an array or one flat tuple of arrays",
        )
    return types


def _type_json(value_type: Any) -> Json:
    if not isinstance(value_type, TensorType):
        raise HloomError(f"a parameter of type {value_type} is not an array of jax's", hint="flatten tuples")
    return {"dtype": value_type.dtype.numpy.name, "dims": list(value_type.dims)}


def _state(module: Module) -> list[tuple[int, int]]:
    """Pairs of a result and the parameter of the next step that it is: those that share memory."""
    aliases = module.attributes.get("input_output_alias") or ()
    return [(alias.output_index[0] if alias.output_index else 0, alias.parameter) for alias in aliases]


def _spec_json(spec: Spec) -> list[list[str]]:
    return [list(axes) for axes in spec.dims]


# One program over all devices


def _sharded(best: Combination) -> tuple[Json, dict[str, Module]]:
    """What `run.json` says of a sharded program, and the program with the plan's constraints inside."""
    plan = best.plan
    assert plan is not None
    module = best.module.clone()
    annotation.constrain_for_shardy(plan, module)
    operands: list[list[list[str]]] = []
    for spec, parameter in zip(annotation.parameter_specs(plan, module), module.entry.parameters, strict=True):
        assert isinstance(parameter.type, TensorType)
        operands.append(_spec_json(annotation.even_spec(spec, parameter.type.dims, plan.mesh)))
    types = _result_types(best.module)
    specs = [
        annotation.even_spec(spec, result.dims, plan.mesh)
        for spec, result in zip(annotation.result_specs(plan, best.module), types, strict=True)
    ]
    results = [{**_type_json(result), "spec": _spec_json(spec)} for result, spec in zip(types, specs, strict=True)]
    return {
        "mesh": {
            "axes": list(plan.mesh.names),
            "sizes": list(plan.mesh.sizes),
            "devices": plan.mesh.device_array().reshape(-1).tolist(),
        },
        "program": {
            "file": PROGRAM,
            "operands": operands,
            "results": results,
            "donated": sorted(parameter for _, parameter in _state(best.module)),
        },
    }, {PROGRAM: module}


# A pipeline


def _pipelined(best: Combination, device: Device | str) -> tuple[Json, dict[str, Module]]:
    """What `run.json` says of a pipeline, and the modules of its stages."""
    assert best.pipeline is not None
    program = pipeline_program(best.module, best.pipeline, batch=best.batch)
    layouts = StageLayouts(program, shard_stages(program, device))
    modules: dict[str, Module] = {}
    listed: dict[str, list[Json]] = {"before": [], "microbatch": [], "update": []}
    for group, name, part, extra in named_programs(program):
        modules[f"{name}.mlir"] = layouts.constrained(part)
        listed[group].append({"file": f"{name}.mlir", **extra, **_program_json(part, layouts)})
    return {
        "stages": [layouts.mesh_json(stage) for stage in range(len(program.plan.stages))],
        "parts": [
            {
                "parameter": part.number,
                "rows": part.rows,
                "value": f"parameter {number}",
                "stages": [
                    (stage, layouts.spec_json(stage, StageValue("", ValueScope.PARAMETER, number))) for stage in stages
                ],
            }
            for number, (part, stages) in enumerate(zip(program.parameters, program.placements, strict=True))
        ],
        **listed,
        "order": [(action.kind.value, action.stage, action.microbatch) for action in dispatch_order(program.plan)],
        "totals": [
            (total.stage, value_name(total.value), stage, layouts.spec_json(stage, total.value))
            for total, stages in program.totals
            for stage in stages
        ],
        "outputs": [
            {"result": part.number, "rows": part.rows, "stage": output.stage, "value": value_name(output.value)}
            for part, output in zip(program.results, program.outputs, strict=True)
        ],
    }, modules


def named_programs(program: PipelineProgram) -> Iterator[tuple[str, str, StageProgram, Json]]:
    """The programs of a pipeline: which group each is of, its name, itself, and what else `run.json` says of it."""
    for part in program.before:
        yield "before", f"stage{part.stage}.before", part, {}
    for (action, stage), part in program.microbatch.items():
        yield "microbatch", f"stage{stage}.{action.name.lower()}", part, {"action": action.value}
    for number, part in enumerate(program.update):
        yield "update", f"stage{part.stage}.update{number}", part, {}


def value_name(value: StageValue) -> str:
    """A value's name among those of its stage."""
    match value.scope:
        case ValueScope.PARAMETER:
            return f"parameter {value.number}"
        case ValueScope.MICROBATCH_NUMBER:
            return "number"
        case ValueScope.MICROBATCH:
            return f"microbatch {value.name}"
        case ValueScope.STEP:
            return f"step {value.name}"


class StageLayouts:
    """How the stages' devices hold values: on a stage's mesh by its plan, else split along the batch or replicated."""

    def __init__(self, program: PipelineProgram, shardings: Mapping[int, StageSharding]) -> None:
        self.program, self.shardings = program, shardings
        self._types: dict[StageValue, TensorType] = {}
        for number, part in enumerate(program.parameters):
            whole = program.argument_types[part.number]
            rows_type = whole if part.rows is None else _rows_type(whole, part.rows)
            self._types[StageValue("", ValueScope.PARAMETER, number)] = rows_type
        for part in program.programs():
            for value, parameter in zip(part.operands, part.module.entry.parameters, strict=True):
                assert isinstance(parameter.type, TensorType)
                self._types.setdefault(value.key, parameter.type)
            self._types.update(zip((value.key for value in part.results), _result_types(part.module), strict=True))

    def type_of(self, value: StageValue) -> TensorType:
        """The type of a value that a program reads or yields."""
        return self._types[value.key]

    def dims(self, value: StageValue) -> tuple[int, ...]:
        """Its dimensions."""
        return self.type_of(value).dims

    def spec(self, stage: int, value: StageValue) -> Spec:
        """How a stage's devices split a value."""
        dims = self.dims(value)
        sharding, replicated = self.shardings.get(stage), Spec.replicated(len(dims))
        if sharding is not None:
            is_number = value.scope is ValueScope.MICROBATCH_NUMBER
            return replicated if is_number else sharding.specs.get(value.key, replicated)
        devices, split = len(self.program.plan.stages[stage].devices), value.batch_dim
        if split is None or devices == 1 or dims[split] % devices:
            return replicated
        return Spec(tuple((BATCH_AXIS,) if dim == split else () for dim in range(len(dims))))

    def spec_json(self, stage: int, value: StageValue) -> list[list[str]]:
        """The same for `run.json`: by dimension the names of axes."""
        return _spec_json(self.spec(stage, value))

    def mesh_json(self, stage: int) -> Json:
        """A stage's devices and their axes."""
        entry = self.program.plan.stages[stage]
        mesh = entry.device_mesh
        axes, sizes = ([BATCH_AXIS], [len(entry.devices)]) if mesh is None else (list(mesh.names), list(mesh.sizes))
        return {"devices": list(entry.devices), "axes": axes, "sizes": sizes}

    def constrained(self, part: StageProgram) -> Module:
        """A program's module, with its plan's constraints where its stage has a mesh."""
        sharding = self.shardings.get(part.stage)
        return part.module if sharding is None else sharding.annotated(part, for_shardy=True)


def _rows_type(whole: TensorType, rows: tuple[int, int]) -> TensorType:
    return TensorType(whole.dtype, (rows[1] - rows[0], *whole.dims[1:]))


def _program_json(part: StageProgram, layouts: StageLayouts) -> Json:
    types = _result_types(part.module)
    return {
        "stage": part.stage,
        "operands": [value_name(value) for value in part.operands],
        "results": [
            {"value": value_name(value), **_type_json(result), "spec": layouts.spec_json(part.stage, value)}
            for value, result in zip(part.results, types, strict=True)
        ],
        "sends": [(number, stage, layouts.spec_json(stage, part.results[number])) for number, stage in part.sends],
        "donated": [operand for operand, _ in part.sums],
    }
