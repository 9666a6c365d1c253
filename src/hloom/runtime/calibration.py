"""Microbenchmarks of this machine through XLA: rates of matrix products, vector operations, copies and collectives.

Each program runs several times and the minimum counts, since disturbances only add time. Rates exclude the time to
start a program, which is measured separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product

from hloom.ir import Trait
from hloom.ops import with_trait
from hloom.runtime.run import run_text
from hloom.text import tracked

SAMPLES = 4
"""Runs of a program per round."""
ROUNDS = 3
"""Rounds over all programs, so that a temporary slowdown does not hit all runs of one of them."""
MATRIX_SIZES = (256, 512, 1024)
"""Rows and columns of the matrices that are multiplied: 2 n^3 operations, up to tens of milliseconds on a core."""
MATRIX_DTYPES = ("f32", "bf16", "f64")
VECTOR_DTYPES = ("f32", "bf16", "f64", "s32")
CHAIN = 32
"""Operations of a vector probe per element it reads."""
VECTOR_ELEMENTS = 1 << 19
"""Elements a vector probe reads per operand: 2 MiB of f32, which stays in cache and outlasts the start."""
COPY_ELEMENTS = tuple(1 << power for power in (14, 15, 16, 17, 18, 20, 21, 22, 23, 24))
"""The numbers of f32 that the copy probes read and write."""
STEADY_ELEMENTS = (1 << 20, 1 << 21, 1 << 22)
"""Copies long enough to be steady, for whose results the system allocates memory only once."""
SPREAD_ELEMENTS = (1 << 16, 1 << 17, 1 << 18)
"""Copies that are spread over cores, and short enough to show the cost of that."""
SPREAD_BYTES = 1 << 18
"""From how many bytes on XLA's CPU compiler spreads a loop over cores, about."""
FUNCTIONS = sorted(
    with_trait(Trait.TRANSCENDENTAL) - {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"}
)
"""Functions with rates of their own; XLA computes the others from these."""
LOOP_TRIPS = 20_000
"""How often the loop probe's body runs, so that a run takes long against starting it."""
LOOP_GROUPS = 4
"""Groups of instructions per iteration of the loop probe: the condition, the counter, and two dots."""
COLLECTIVE_DEVICES = 2
"""Devices of the collective probes: the minimum that communicates."""
COLLECTIVE_ELEMENTS = (1 << 10, 1 << 22)
"""The numbers of f32 in the collective probes: 4 KiB, where latency dominates, and 16 MiB, where bandwidth does."""

SUM = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  zero = f32[] constant(0)
  none = f32[] constant(nan)
  a_none = pred[] compare(a, a), direction=NE
  a_zero = pred[] compare(a, zero), direction=EQ
  a_plain = f32[] select(a_zero, zero, a)
  a_key = f32[] select(a_none, none, a_plain)
  b_none = pred[] compare(b, b), direction=NE
  b_zero = pred[] compare(b, zero), direction=EQ
  b_plain = f32[] select(b_zero, zero, b)
  b_key = f32[] select(b_none, none, b_plain)
  ROOT s = pred[] compare(a_key, b_key), direction=LT, type=TOTALORDER
}
"""
"""The order that JAX sorts by: all that is not a number is equal and comes last, and both zeros are."""


@dataclass(slots=True)
class MeasuredRates:
    """The measured rates: FLOP/s by element type, functions, operations and bytes per second, and seconds.

    `matrix_samples` are the rates of single sizes, `copies` the bytes per second of copies by their bytes. Of
    collectives, `link_bandwidth` is in bytes that one device sends per second, `link_latency` in seconds for each step.
    """

    start_seconds: float = 0.0
    launch_seconds: float = 0.0
    matrix: dict[str, float] = field(default_factory=dict)
    matrix_samples: dict[str, dict[int, float]] = field(default_factory=dict)
    vector: dict[str, float] = field(default_factory=dict)
    transcendental: dict[str, float] = field(default_factory=dict)
    opcodes: dict[str, float] = field(default_factory=dict)
    copies: dict[int, float] = field(default_factory=dict)
    memory_bandwidth: float = 0.0
    fresh_bandwidth: float = 0.0
    fresh_bytes: float = 0.0
    spread_seconds: float = 0.0
    spread_bytes: float = 0.0
    link_bandwidth: float = 0.0
    link_latency: float = 0.0
    devices: int = COLLECTIVE_DEVICES


TimeProgram = Callable[[str], float]
"""Gives the seconds of one run of a text."""


@dataclass(slots=True)
class BestTimes:
    """The fewest seconds that each program took in all its runs, without compiling."""

    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, text: str) -> float:
        taken = min(run_text(text).seconds for _ in range(SAMPLES))
        self.seconds[text] = min(taken, self.seconds.get(text, taken))
        return self.seconds[text]


def calibrate(
    time_program: TimeProgram | None = None, on_step: Callable[[str], None] = lambda what: None
) -> MeasuredRates:
    """Measure this machine; `on_step` is called before each step. Raises HloomError if XLA is missing or fails.

    `time_program` gives the seconds of a program; by default XLA runs it.
    """
    time = time_program or BestTimes()
    rounds = [MeasuredRates() for _ in range(ROUNDS if time_program is None else 1)]
    for (number, rates), (what, step) in tracked(list(product(enumerate(rounds), _STEPS))):
        on_step(f"{what}, round {number + 1} of {ROUNDS}" if time_program is None else what)
        step(rates, time)
    return rounds[-1]


def _measure_start(rates: MeasuredRates, time_program: TimeProgram) -> None:
    rates.start_seconds = time_program(entry(["f32[8]"], "ROOT r = f32[8] negate(p0)"))


def _measure_launch(rates: MeasuredRates, time_program: TimeProgram) -> None:
    """Each trip of the loop runs a few tiny groups, which take the launch and next to nothing else."""
    body = """body {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[8,8] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[8,8]) tuple(j, z)
}
condition {
  s = (s32[], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(TRIPS)
  ROOT c = pred[] compare(i, n), direction=LT
}
"""
    loop = """zero = s32[] constant(0)
  t = (s32[], f32[8,8]) tuple(zero, p0)
  w = (s32[], f32[8,8]) while(t), condition=condition, body=body
  ROOT r = f32[8,8] get-tuple-element(w), index=1"""
    text = entry(["f32[8,8]"], loop, body.replace("TRIPS", str(LOOP_TRIPS)))
    rates.launch_seconds = _without_start(time_program(text), rates) / (LOOP_TRIPS * LOOP_GROUPS)


def _measure_matrix_rates(rates: MeasuredRates, time_program: TimeProgram) -> None:
    for dtype in MATRIX_DTYPES:
        samples = {size: 2 * size**3 / _without_start(time_program(dot(dtype, size)), rates) for size in MATRIX_SIZES}
        rates.matrix_samples[dtype] = samples
        rates.matrix[dtype] = _mean(samples.values())


def _measure_copies(rates: MeasuredRates, time_program: TimeProgram) -> None:
    """Reading and writing; large results, for which the system gives fresh memory; and spreading over cores."""
    seconds = {count: _without_start(time_program(copy(count)), rates) for count in COPY_ELEMENTS}
    rates.copies = {8 * count: 8 * count / time for count, time in seconds.items()}
    sums = {count: 4 * count / _without_start(time_program(total(count)), rates) for count in STEADY_ELEMENTS}
    rates.memory_bandwidth = _mean([*(rates.copies[8 * count] for count in STEADY_ELEMENTS), *sums.values()])
    rates.spread_bytes = SPREAD_BYTES
    overheads = [seconds[count] - 8 * count / rates.memory_bandwidth for count in SPREAD_ELEMENTS]
    rates.spread_seconds = max(0.0, min(overheads))
    rates.fresh_bytes, rates.fresh_bandwidth = _fresh(rates)


def _fresh(rates: MeasuredRates) -> tuple[float, float]:
    """From which size of result on copies are slow, and the bytes of result per second that this costs."""
    longer = [size for size in rates.copies if size > 8 * STEADY_ELEMENTS[-1]]
    slow = [size for size in longer if rates.copies[size] < rates.memory_bandwidth / 1.5]
    if not slow:
        return 0.0, 0.0
    largest = max(slow)
    extra = largest / rates.copies[largest] - largest / rates.memory_bandwidth
    return min(slow) / 2, largest / 2 / extra


def _measure_vector_rates(rates: MeasuredRates, time_program: TimeProgram) -> None:
    for dtype in VECTOR_DTYPES:
        array = f"{dtype}[{VECTOR_ELEMENTS}]"
        lines = [f"x{n + 1} = {array} {'multiply' if n % 2 else 'add'}(x{n}, p1)" for n in range(CHAIN)]
        body = "\n  ".join([f"x0 = {array} add(p0, p1)", *lines, f"ROOT r = {array} add(x{CHAIN}, p0)"])
        seconds = _without_start(time_program(entry([array, array], body)), rates)
        rates.vector[dtype] = VECTOR_ELEMENTS * (CHAIN + 2) / seconds


def _measure_transcendentals(rates: MeasuredRates, time_program: TimeProgram) -> None:
    array = f"f32[{VECTOR_ELEMENTS}]"
    for opcode in FUNCTIONS:
        operands = "p0, p1" if opcode in ("power", "atan2") else "p0"
        text = entry([array, array], f"ROOT r = {array} {opcode}({operands})")
        rates.transcendental[opcode] = VECTOR_ELEMENTS / _without_start(time_program(text), rates)
    rates.transcendental["default"] = rates.transcendental["exponential"]


def _measure_opcodes(rates: MeasuredRates, time_program: TimeProgram) -> None:
    for opcode, (text, work) in _programs().items():
        rates.opcodes[opcode] = work / _without_start(time_program(text), rates)


def _programs() -> dict[str, tuple[str, float]]:
    """Programs of opcodes that reach neither the matrix nor the vector rate, and how much each of them does."""
    length, rows, columns = 1 << 16, 1 << 12, 64
    table, indices, updates = f"f32[{rows},{columns}]", f"s32[{rows},1]", f"f32[{rows},{columns}]"
    gather_dims = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
    numbers = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
    return {
        "sort": (
            entry([f"f32[{length}]"], f"ROOT r = f32[{length}] sort(p0), dimensions={{0}}, to_apply=less", LESS),
            length * 16,
        ),
        "fft": (
            entry(["c64[256,1024]"], "ROOT r = c64[256,1024] fft(p0), fft_type=FFT, fft_length={1024}"),
            5 * 256 * 1024 * 10,
        ),
        "gather": (
            entry([table, indices], f"ROOT r = {updates} gather(p0, p1), {gather_dims}, slice_sizes={{1,{columns}}}"),
            rows * columns,
        ),
        "scatter": (
            entry([table, indices, updates], f"ROOT r = {table} scatter(p0, p1, p2), {numbers}, to_apply=sum", SUM),
            rows * columns,
        ),
        "convolution": (
            entry(
                ["f32[8,32,32,64]", "f32[3,3,64,64]"],
                "ROOT r = f32[8,32,32,64] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, "
                "dim_labels=b01f_01io->b01f",
            ),
            2 * 8 * 64 * 64 * (32 * 3 - 2) ** 2,
        ),
        "transpose": (
            entry(["f32[1024,1024]"], "ROOT r = f32[1024,1024] transpose(p0), dimensions={1,0}"),
            1 << 20,
        ),
    }


def _measure_links(rates: MeasuredRates, time_program: TimeProgram) -> None:
    """A ring of two devices sends a half twice, in two steps, for an all-reduce; and once for an all-gather."""
    small, large = (_both(count, time_program) for count in COLLECTIVE_ELEMENTS)
    sent = 3 * 4 * (COLLECTIVE_ELEMENTS[1] - COLLECTIVE_ELEMENTS[0]) / 2
    rates.link_latency = max(0.0, small - 2 * rates.start_seconds) / 3
    rates.link_bandwidth = sent / max(large - small, 1e-9)


def _both(count: int, time_program: TimeProgram) -> float:
    """Seconds of an all-reduce and an all-gather that each yield `count` f32."""
    result_type, operand_type = f"f32[{count}]", f"f32[{count // COLLECTIVE_DEVICES}]"
    groups = "replica_groups={{0,1}}"
    reduced = entry([result_type], f"ROOT r = {result_type} all-reduce(p0), {groups}, to_apply=sum", SUM)
    gathered = entry([operand_type], f"ROOT r = {result_type} all-gather(p0), {groups}, dimensions={{0}}")
    header = f"HloModule calibrate, replica_count={COLLECTIVE_DEVICES}"
    return sum(time_program(text.replace("HloModule calibrate", header)) for text in (reduced, gathered))


_STEPS: tuple[tuple[str, Callable[[MeasuredRates, TimeProgram], None]], ...] = (
    ("starting a program", _measure_start),
    ("launching instructions", _measure_launch),
    ("multiplying matrices", _measure_matrix_rates),
    ("copying memory", _measure_copies),
    ("computing element by element", _measure_vector_rates),
    ("transcendental functions", _measure_transcendentals),
    ("sorting, gathering, convolving", _measure_opcodes),
    ("collectives", _measure_links),
)


def copy(count: int) -> str:
    """A program that reads and writes `count` f32."""
    return entry([f"f32[{count}]"], f"ROOT r = f32[{count}] negate(p0)")


def total(count: int) -> str:
    """A program that reads `count` f32."""
    operand, rows = f"f32[{count // 256},256]", f"f32[{count // 256}]"
    body = f"z = f32[] constant(0)\n  ROOT r = {rows} reduce(p0, z), dimensions={{1}}, to_apply=sum"
    return entry([operand], body, SUM)


def dot(dtype: str, size: int) -> str:
    """A program that multiplies two square matrices."""
    matrix = f"{dtype}[{size},{size}]"
    return entry(
        [matrix, matrix], f"ROOT r = {matrix} dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )


def entry(parameters: list[str], body: str, before: str = "") -> str:
    """A module whose entry takes parameters of these types, p0, p1, ..."""
    lines = [f"  p{number} = {parameter_type} parameter({number})" for number, parameter_type in enumerate(parameters)]
    return "\n".join(["HloModule calibrate", before, "ENTRY main {", *lines, f"  {body}", "}", ""])


def _without_start(seconds: float, rates: MeasuredRates) -> float:
    """A program's time without the start; at least a twentieth of the total, where the two are hard to separate."""
    return max(seconds - rates.start_seconds, seconds / 20)


def _mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))
