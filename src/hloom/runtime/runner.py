"""Runs steps of the program next to this file, which hloom wrote for the devices of one machine.

    python run.py --steps 3 --inputs batch.npz         on jax's devices
    python run.py --cpu 8 --check                      on 8 virtual CPU devices, compared with one device
    python run.py --cpu 8 --time                       seconds of a step, and the bubble of a pipeline

This needs jax and numpy. `run.json` lists the StableHLO files, how their arrays are split over the devices, and in
which order the stages of a pipeline run; `step.mlir` is the original step, for one device. Inputs are random, or read
from an .npz file: arrays by the parameters' names. Results that are parameters of the next step are fed back to it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
INTEGERS_BELOW = 8
"""Random integers are small and not negative: most are indices, counts or tokens."""
SCALE = 0.1
"""The standard deviation of random floats."""


def main() -> None:
    """Run steps as the options specify."""
    options = _options()
    if options.cpu:
        use_virtual_devices(options.cpu)
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_use_shardy_partitioner", True)
    record = json.loads((FOLDER / "run.json").read_text())
    needed = record["devices"]
    devices = jax.devices()
    if len(devices) < needed:
        sys.exit(f"this runs on {needed} devices, and jax has {len(devices)}: --cpu {needed} makes virtual ones")
    inputs = _inputs(record, options.inputs, options.seed)
    expected = None
    if options.check:
        inputs, expected = one_device(record, inputs, devices[0], is_random=options.inputs is None)
    arguments: list[Any] = list(inputs)
    step = PipelineStep(record, devices) if "stages" in record else ShardedStep(record, devices)
    outputs: list[Any] = []
    for number in range(options.steps):
        start = time.perf_counter()
        outputs = step.run(arguments)
        jax.block_until_ready([piece for output in outputs for piece in _pieces(output)])
        say(f"step {number}: {time.perf_counter() - start:.4f} s{', with compiling' * (number == 0)}")
        if number == 0 and expected is not None:
            compare(record, inputs, outputs, expected, options.tolerance)
        for result, parameter in record["state"]:
            arguments[parameter] = outputs[result]
    if options.save is not None:
        arrays: dict[str, Any] = {f"result{number}": whole(output) for number, output in enumerate(outputs)}
        np.savez(options.save, **arrays)
    if options.time:
        for name, value in step.measure(arguments).items():
            say(f"{name}: {value:.6g}")
    say(f"{record['name']} on {needed} {devices[0].device_kind} devices")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", type=int, metavar="N", help="use N virtual CPU devices")
    parser.add_argument("--steps", type=int, default=1, metavar="N", help="how many steps; 1 by default")
    parser.add_argument("--inputs", metavar="FILE", help="an .npz file with arrays by the parameters' names")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs; 0 by default")
    parser.add_argument("--check", action="store_true", help="compare the first step with one device's")
    parser.add_argument("--tolerance", type=float, metavar="X", help="of --check, relative; by default by type")
    parser.add_argument("--time", action="store_true", help="measure one more step, and its memory or its bubble")
    parser.add_argument("--save", metavar="FILE", help="write the last step's results into an .npz file")
    return parser.parse_args()


def say(text: str) -> None:
    """Write a line to the standard output."""
    sys.stdout.write(f"{text}\n")


def use_virtual_devices(count: int) -> None:
    """Make jax use this many virtual CPU devices; call before it is imported."""
    name = "--xla_force_host_platform_device_count"
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(name)]
    os.environ["XLA_FLAGS"] = " ".join([*flags, f"{name}={count}"])
    os.environ["JAX_PLATFORMS"] = "cpu"


# Programs and arrays


def stablehlo_function(file: str, results: Sequence[dict[str, Any]]) -> Callable[..., Any]:
    """A StableHLO file as a function of arrays that `jax.jit` takes: a primitive whose lowering is the file."""
    import jax
    from jax.core import ShapedArray
    from jax.extend import core
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import func
    from jax.interpreters import mlir

    text, name = (FOLDER / file).read_text(), file.removesuffix(".mlir")
    types = [ShapedArray(tuple(result["dims"]), jax.numpy.dtype(result["dtype"])) for result in results]
    primitive = core.Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_: types)

    def lower(context: Any, *operands: Any) -> Any:
        outer = context.module_context
        program = ir.Module.parse(text, context=outer.context)
        entry: Any = ir.SymbolTable(program.operation)["main"]
        result_types = list(entry.type.results)
        symbol = mlir.merge_mlir_modules(outer.module, name, program, dst_symtab=outer.symbol_table)
        return func.CallOp(result_types, ir.FlatSymbolRefAttr.get(symbol), list(operands)).results

    mlir.register_lowering(primitive, lower)

    def call(*arrays: Any) -> tuple[Any, ...]:
        return tuple(primitive.bind(*arrays))

    call.__name__ = call.__qualname__ = name.replace(".", "_")
    return call


def mesh_of(entry: dict[str, Any], devices: Sequence[Any]) -> Any:
    """jax's mesh of the devices that an entry numbers, with its axes."""
    import jax

    chosen = np.array([devices[number] for number in entry["devices"]], dtype=object)
    return jax.sharding.Mesh(chosen.reshape(entry["sizes"]), tuple(entry["axes"]))


def sharding_of(mesh: Any, spec: Sequence[Sequence[str]]) -> Any:
    """jax's sharding for a spec: by dimension the axes along which it is split."""
    import jax

    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*(tuple(axes) or None for axes in spec)))


def whole(value: Any) -> np.ndarray:
    """A result as one array; of pieces in order."""
    return (
        np.concatenate([np.asarray(piece) for piece in _pieces(value)])
        if isinstance(value, Rows)
        else np.asarray(value)
    )


class Rows:
    """An array whose rows several stages hold: pieces by their first and last row."""

    def __init__(self, pieces: Sequence[tuple[tuple[int, int], Any]]) -> None:
        self.pieces = sorted(pieces, key=lambda piece: piece[0])


def take_rows(value: Any, rows: Sequence[int] | None) -> Any:
    """Some or all rows of an array; the part a stage holds, if it has them."""
    if isinstance(value, Rows):
        same = [piece for bounds, piece in value.pieces if rows is not None and bounds == tuple(rows)]
        if same:
            return same[0]
        value = whole(value)
    return value if rows is None else value[rows[0] : rows[1]]


def _pieces(value: Any) -> list[Any]:
    return [piece for _, piece in value.pieces] if isinstance(value, Rows) else [value]


# One program over all devices


class ShardedStep:
    """A step as one program that XLA partitions over a mesh of all devices."""

    def __init__(self, record: dict[str, Any], devices: Sequence[Any]) -> None:
        import jax

        self.mesh = mesh_of(record["mesh"], devices)
        program = record["program"]
        self.operands = tuple(sharding_of(self.mesh, spec) for spec in program["operands"])
        self.function = jax.jit(
            stablehlo_function(program["file"], program["results"]),
            in_shardings=self.operands,
            out_shardings=tuple(sharding_of(self.mesh, result["spec"]) for result in program["results"]),
            donate_argnums=tuple(program["donated"]),
        )

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of a step."""
        return list(self.function(*self._placed(arguments)))

    def measure(self, arguments: Sequence[Any]) -> dict[str, float]:
        """Seconds per step, and each device's peak bytes as XLA assigned them."""
        import jax

        placed = self._placed(arguments)
        memory = self.function.lower(*placed).compile().memory_analysis()
        start = time.perf_counter()
        jax.block_until_ready(self.function(*placed))
        seconds = {"seconds": time.perf_counter() - start}
        if memory is None:
            return seconds
        results = memory.output_size_in_bytes - memory.alias_size_in_bytes
        return {**seconds, "peak bytes": memory.argument_size_in_bytes + results + memory.temp_size_in_bytes}

    def _placed(self, arguments: Sequence[Any]) -> list[Any]:
        import jax

        jax.block_until_ready(arguments)
        return [jax.device_put(array, sharding) for array, sharding in zip(arguments, self.operands, strict=True)]


# A pipeline


class PipelineStep:
    """A step in stages: each program is compiled for the devices of its stage, and dispatched in the recorded order."""

    def __init__(self, record: dict[str, Any], devices: Sequence[Any]) -> None:
        import jax

        self.record = record
        self.meshes = [mesh_of(stage, devices) for stage in record["stages"]]
        self.functions: dict[str, Callable[..., Any]] = {}
        self.readers: dict[tuple[int, str], int] = {}
        for program in record["before"] + record["microbatch"] + record["update"]:
            mesh = self.meshes[program["stage"]]
            self.functions[program["file"]] = jax.jit(
                stablehlo_function(program["file"], program["results"]),
                out_shardings=tuple(sharding_of(mesh, result["spec"]) for result in program["results"]),
                donate_argnums=tuple(program["donated"]),
            )
        for program in record["microbatch"]:
            for value in program["operands"]:
                key = program["stage"], value
                self.readers[key] = self.readers.get(key, 0) + 1
        self.programs = {(program["action"], program["stage"]): program for program in record["microbatch"]}

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of a step; nothing waits, for jax dispatches asynchronously."""
        state = self.prepared(arguments)
        for action, stage, microbatch in self.record["order"]:
            self.run_action(state, action, stage, microbatch)
        return self.results(state)

    def prepared(self, arguments: Sequence[Any]) -> list[dict[Any, Any]]:
        """What each stage holds before the microbatches: parameters, and values common to all microbatches."""
        state: list[dict[Any, Any]] = [{} for _ in self.meshes]
        for part in self.record["parts"]:
            array = take_rows(arguments[part["parameter"]], part["rows"])
            for stage, spec in part["stages"]:
                state[stage][part["value"]] = array = self.put(array, stage, spec)
        for program in self.record["before"]:
            self._run_once(state, program)
        return state

    def run_action(self, state: list[dict[Any, Any]], action: str, stage: int, microbatch: int) -> list[Any]:
        """Dispatch an action of the schedule; returns the arrays it makes."""
        program = self.programs.get((action, stage))
        if program is None:
            return []
        operands = [self._operand(state[stage], stage, value, microbatch) for value in program["operands"]]
        results = self.functions[program["file"]](*operands)
        sent = list(results)
        for entry, array in zip(program["results"], results, strict=True):
            self._hold(state, stage, entry["value"], microbatch, array)
        for number, other, spec in program["sends"]:
            sent.append(self.put(results[number], other, spec))
            self._hold(state, other, program["results"][number]["value"], microbatch, sent[-1])
        return sent

    def results(self, state: list[dict[Any, Any]]) -> list[Any]:
        """Dispatch the work after the microbatches: move sums to their readers, then the update; returns the step's
        results.
        """
        for stage, value, other, spec in self.record["totals"]:
            state[other][value] = self.put(state[stage][value], other, spec)
        for program in self.record["update"]:
            self._run_once(state, program)
        made: dict[int, list[tuple[Any, Any]]] = {}
        for output in self.record["outputs"]:
            rows = None if output["rows"] is None else tuple(output["rows"])
            made.setdefault(output["result"], []).append((rows, state[output["stage"]][output["value"]]))
        return [made[number][0][1] if made[number][0][0] is None else Rows(made[number]) for number in sorted(made)]

    def measure(self, arguments: Sequence[Any]) -> dict[str, float]:
        """Seconds of all microbatches, and the share of them in which groups of devices wait.

        Each action is timed alone, with the transfers that follow it.
        """
        import jax

        state = self.prepared(arguments)
        jax.block_until_ready([list(held.values()) for held in state])
        busy: dict[tuple[int, ...], float] = {}
        for action, stage, microbatch in self.record["order"]:
            start = time.perf_counter()
            jax.block_until_ready(self.run_action(state, action, stage, microbatch))
            group = tuple(self.record["stages"][stage]["devices"])
            busy[group] = busy.get(group, 0.0) + time.perf_counter() - start
        state = self.prepared(arguments)
        jax.block_until_ready([list(held.values()) for held in state])
        start = time.perf_counter()
        made = [array for action in self.record["order"] for array in self.run_action(state, *action)]
        jax.block_until_ready([array for array in made if not array.is_deleted()])
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "bubble": max(0.0, 1 - sum(busy.values()) / (len(busy) * seconds))}

    def put(self, array: Any, stage: int, spec: Sequence[Sequence[str]]) -> Any:
        """An array on a stage's devices; jax copies nothing if it is there already."""
        import jax

        return jax.device_put(array, sharding_of(self.meshes[stage], spec))

    def _run_once(self, state: list[dict[Any, Any]], program: dict[str, Any]) -> None:
        stage = program["stage"]
        results = self.functions[program["file"]](*(state[stage][value] for value in program["operands"]))
        for entry, array in zip(program["results"], results, strict=True):
            state[stage][entry["value"]] = array
        for number, other, spec in program["sends"]:
            state[other][program["results"][number]["value"]] = self.put(results[number], other, spec)

    def _hold(self, state: list[dict[Any, Any]], stage: int, value: str, microbatch: int, array: Any) -> None:
        """Keep a value of the step, or one of a microbatch as long as a program of the stage will read it."""
        if not value.startswith("microbatch "):
            state[stage][value] = array
        elif (stage, value) in self.readers:
            state[stage][value, microbatch] = [array, self.readers[stage, value]]

    def _operand(self, held: dict[Any, Any], stage: int, value: str, microbatch: int) -> Any:
        if value == "number":
            if (value, microbatch) not in held:
                held[value, microbatch] = self.put(np.int32(microbatch), stage, [])
            return held[value, microbatch]
        if not value.startswith("microbatch "):
            return held[value]
        entry = held[value, microbatch]
        entry[1] -= 1
        if not entry[1]:
            del held[value, microbatch]
        return entry[0]


# Inputs, and one device


def _inputs(record: dict[str, Any], file: str | None, seed: int) -> list[np.ndarray]:
    """An array for each parameter: of a file, or random ones."""
    if file is None:
        return [_random(parameter, [seed, number]) for number, parameter in enumerate(record["parameters"])]
    with np.load(file, allow_pickle=False) as archive:
        missing = [parameter["name"] for parameter in record["parameters"] if parameter["name"] not in archive]
        if missing:
            sys.exit(f"{file} has no array for {', '.join(missing)}")
        return [_typed(archive[parameter["name"]], parameter) for parameter in record["parameters"]]


def _typed(array: np.ndarray, parameter: dict[str, Any]) -> np.ndarray:
    """The array, read as the parameter's type where numpy's files lack that."""
    dtype = _dtype(parameter)
    if array.dtype != dtype and array.dtype.kind in "Vu" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)
    if (array.dtype, array.shape) != (dtype, tuple(parameter["dims"])):
        sys.exit(f"{parameter['name']} is {dtype}{parameter['dims']}, and {array.dtype}{list(array.shape)} is given")
    return array


def _dtype(entry: dict[str, Any]) -> np.dtype:
    import jax

    return np.dtype(jax.numpy.dtype(entry["dtype"]))


def _random(parameter: dict[str, Any], seed: list[int]) -> np.ndarray:
    import jax

    dtype, dims, generator = _dtype(parameter), parameter["dims"], np.random.default_rng(seed)
    if dtype == np.bool_:
        return generator.integers(0, 2, dims).astype(dtype)
    if jax.numpy.issubdtype(dtype, np.integer):
        below = min(INTEGERS_BELOW, int(jax.numpy.iinfo(dtype).max) + 1)
        return generator.integers(0, below, dims).astype(dtype)
    values = np.asarray(generator.standard_normal(dims, np.float32))
    if jax.numpy.issubdtype(dtype, np.complexfloating):
        values = values + 1j * generator.standard_normal(dims, np.float32)
    return (SCALE * values).astype(dtype)


def one_device(
    record: dict[str, Any], inputs: list[np.ndarray], device: Any, *, is_random: bool
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The inputs, and the results of the step as it was on one device.

    If random inputs lead to results that are not finite (the root of a negative number), their absolute values are
    used.
    """
    import jax

    function = jax.jit(stablehlo_function("step.mlir", record["results"]))
    for signed in (True, False) if is_random else (True,):
        given = inputs if signed else [np.abs(array) if _is_float(array) else array for array in inputs]
        results = [np.asarray(result) for result in function(*(jax.device_put(array, device) for array in given))]
        if all(np.isfinite(result.astype(np.complex128)).all() for result in results if _is_float(result)):
            return given, results
    sys.exit("the results of one device are not finite, so nothing can be compared: give --inputs")


def _is_float(array: np.ndarray) -> bool:
    import jax

    return bool(jax.numpy.issubdtype(array.dtype, np.inexact))


def compare(
    record: dict[str, Any],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[Any],
    expected: Sequence[np.ndarray],
    tolerance: float | None,
) -> None:
    """Print how far results are from one device's, relative to the largest value; exit with 1 if that is too far.

    For a result that is a parameter of the next step the change is compared, since most weights change little.
    """
    parameters = dict(record["state"])
    worst = 0.0
    for number, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
        limit, eps = _limits(wanted, tolerance)
        actual, one = _wide(whole(output)), _wide(wanted)
        rounding = 8 * eps * float(np.abs(one).max(initial=0))
        before = _wide(inputs[parameters[number]]) if number in parameters else np.zeros_like(one)
        largest = float(np.abs(one - before).max(initial=0))
        difference = float(np.abs(actual - one).max(initial=0))
        if not difference <= limit * largest + rounding:
            sys.exit(
                f"result {number} differs from one device's by {difference:.2g}, and its values reach {largest:.2g}"
            )
        worst = max(worst, difference / (largest or 1.0))
    say(f"as on one device: no result differs by more than {worst:.1g} of its largest value, or change")


def _limits(array: np.ndarray, tolerance: float | None) -> tuple[float, float]:
    """The relative difference that is allowed, and the precision of the type; integers are compared exactly."""
    import jax

    if not _is_float(array):
        return tolerance or 0.0, 0.0
    eps = float(jax.numpy.finfo(array.dtype).eps)
    return (max(1e-3, 8 * eps) if tolerance is None else tolerance), eps


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if _is_float(array) else np.int64)


if __name__ == "__main__":
    main()
