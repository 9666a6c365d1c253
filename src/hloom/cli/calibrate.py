"""`hloom calibrate`: measure this machine through XLA and write the rates as a file of devices."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path

import click

from hloom.analysis import check_devices
from hloom.cli.input import progress
from hloom.cli.options import json_option, output_option
from hloom.cli.output import check_folder, write_note, write_record, write_text
from hloom.runtime import MeasuredRates, calibrate

SMALL_LOOP_BYTES = 1024
"""Loops that touch fewer bytes in a trip XLA's CPU compiler makes into one function (SmallWhileLoopHoistingPass)."""
NOT_MEASURED = {
    "memory_bytes": "what the operating system says (SC_PHYS_PAGES)",
    "small_loop_bytes": "the default of SmallWhileLoopByteThreshold in XLA's cpu_options.cc",
}
"""The sources of figures that calibrating takes from elsewhere."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
"""What a TOML file takes as a table's name without quotes."""
PHYSICAL_BYTES = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")


@click.command("calibrate")
@click.option("--name", default="cpu", show_default=True, help="Name of the device in the file.")
@json_option("Write the measurements as JSON instead of TOML.")
@output_option("Write to file OUT, atomically.")
def command(name: str, json_output: bool, output: Path | None) -> None:
    """Measure this machine and write it as a device file.

    Times matrix products, copies, arithmetic, transcendental functions, collectives and program launches through XLA's
    CPU client. This takes about half a minute, on a machine that should otherwise be idle. Pass the file to other
    commands with --devices.

    \b
    Examples:
      hloom calibrate -o mine.toml
      hloom roofline step.hlo --devices mine.toml --device cpu
    """
    if not PLAIN_NAME.fullmatch(name):
        raise click.BadParameter(f"'{name}' may only have letters, digits, - and _", param_hint="--name")
    check_folder(output)
    with progress("measuring"):
        rates = calibrate(on_step=_note_step)
    if json_output:
        write_record(rates, output)
        return
    text = to_toml(rates, name)
    check_devices(text, str(output or "the measurements"))
    write_text(text, output)


def _note_step(what: str) -> None:
    """Say what is measured, where no bar on a terminal shows it."""
    if not sys.stderr.isatty():
        write_note(f"measuring: {what}")


def to_toml(rates: MeasuredRates, name: str) -> str:
    """The measurements as a file of devices, with one device of this name."""
    source = f"measured by hloom calibrate on {_machine()}"
    head = {
        "memory_bytes": float(_memory()),
        "memory_bandwidth": rates.memory_bandwidth,
        "launch_seconds": rates.launch_seconds,
        "start_seconds": rates.start_seconds,
        "fresh_bytes": rates.fresh_bytes,
        "fresh_bandwidth": rates.fresh_bandwidth,
        "spread_bytes": rates.spread_bytes,
        "spread_seconds": rates.spread_seconds,
        "small_loop_bytes": SMALL_LOOP_BYTES,
    }
    tables = {
        "matrix": rates.matrix,
        "vector": rates.vector,
        "transcendental": rates.transcendental,
        "opcodes": rates.opcodes,
    }
    lines = [f"[{name}]", f'title = "{_machine()}"', *(f"{key} = {value:.4g}" for key, value in head.items())]
    for table, values in tables.items():
        lines += ["", f"[{name}.{table}]", *(f"{key} = {value:.4g}" for key, value in values.items())]
    lines += ["", f"[{name}.sources]", *(f'{key} = "{NOT_MEASURED.get(key, source)}"' for key in (*head, *tables))]
    lines += [
        "",
        f"[[{name}.links]]",
        'name = "shared memory"',
        'technology = "memory"',
        'topology = "switch"',
        f"bandwidth = {rates.link_bandwidth:.4g}",
        f"latency = {rates.link_latency:.4g}",
        f'sources = {{ bandwidth = "{source}", latency = "{source}" }}',
    ]
    return "\n".join(lines) + "\n"


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model = platform.processor() or platform.machine()
    try:
        listed = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in listed if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{cores} cores of {model}".replace('"', "'").replace("\\", "/")


def _memory() -> int:
    """The machine's memory in bytes, or 1 where the system does not say."""
    try:
        return os.sysconf(PHYSICAL_BYTES[0]) * os.sysconf(PHYSICAL_BYTES[1])
    except (AttributeError, OSError, ValueError):
        return 1
