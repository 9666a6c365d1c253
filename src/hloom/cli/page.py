"""`hloom page`: a module as one HTML file that opens offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import click
import numpy as np

from hloom.analysis import DEFAULT_DEVICE
from hloom.analysis import device as device_of
from hloom.cli.evaluate import drawn
from hloom.cli.input import progress, read_program
from hloom.cli.options import (
    ModuleSource,
    check_usage,
    decorated,
    devices_option,
    file_argument,
    output_option,
    profile_option,
    target_option,
    traced_device_option,
    trips_option,
    unknown_trips_option,
)
from hloom.cli.output import check_folder, write_note, write_text
from hloom.cli.run import arrays_in_order
from hloom.cli.streams import STDOUT
from hloom.cli.target import ForTarget, for_target
from hloom.evaluator import MOST_BYTES
from hloom.inspection.page import page_text
from hloom.ir import Module
from hloom.runtime import open_arrays
from hloom.text import byte_text

RANDOM = "random"
"""What stands for random inputs, in place of a file."""
NUMPY_HINT = "the numpy evaluator handles small programs only: use a smaller one"


def page_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says how a page is made; the command gets `make_page`, which makes one of its source."""
    decorators = (
        click.argument("after", metavar="[AFTER]", required=False),
        traced_device_option(),
        target_option(),
        devices_option(),
        click.option(
            "--source-url", metavar="URL", help="URL template for links to source lines, with {path} and {line}."
        ),
        trips_option(),
        unknown_trips_option(),
        click.option(
            "--numerics", metavar="X.npz|random", help="Run the module on these inputs and show each value's range."
        ),
        profile_option(),
    )

    @wraps(function)
    def with_page(
        source: ModuleSource,
        after: str | None,
        device: str | None,
        target: str | None,
        listed: Path | None,
        source_url: str | None,
        trips: dict[str, int],
        unknown_trips: int,
        profile: Path | None,
        numerics: str | None,
        **options: Any,
    ) -> None:
        check_usage((target and profile is not None, "--for compiles anew, and --profile is of a module that ran"))
        # the file may have other rates of the default device
        default = None if listed is None or target is not None else device_of(DEFAULT_DEVICE, listed)

        def make_page() -> str:
            before = None if after is None else _compiled(read_program(source), target, device, listed).module
            read = read_program(source.beside(profile) if after is None else replace(source, file=after))
            made = _compiled(read, target, device, listed)
            program = made.module
            with progress("making the page"):
                return page_text(
                    program,
                    device=made.rates or (default if profile is None else None),
                    source_url=source_url,
                    trip_counts=trips,
                    unknown_trips=unknown_trips,
                    before=before,
                    profile=profile,
                    numerics=None if numerics is None else _arrays(program, numerics),
                )

        function(source=source, after=after, make_page=make_page, **options)

    return decorated(with_page, decorators)


def _compiled(module: Module, target: str | None, device: str | None, listed: Path | None) -> ForTarget:
    """The module that a page is about; what its compiler says is noted on standard error."""
    made = for_target(module, target, device, listed)
    for line in made.lines():
        write_note(str(line))
    return made


@click.command("page")
@file_argument
@page_options
@output_option("Write to file OUT (default: FILE's name with .html).", keeps_stdout=True)
def command(source: ModuleSource, after: str | None, make_page: Callable[[], str], output: Path | None) -> None:
    """Write a self-contained HTML page about a module.

    The page opens offline in a browser. It shows the graph by scope, with overlays of FLOPs, bytes, time, memory at the
    peak, sharding, collectives and element types; a flame graph of costs by scope; memory over time; the roofline;
    collectives; and a table of all instructions.

    With a second module AFTER, the page compares the two: it colours the graphs by what changed from FILE to AFTER and
    lists the changes, and everything else describes AFTER.

    \b
    Examples:
      hloom page step.hlo
      hloom page step.hlo -o page.html --device tpu-v5e
      hloom page step.hlo --for h100 -o compiled.html
      hloom page old.hlo new.hlo -o changes.html
      hloom page step.hlo --profile trace/
      hloom page step.hlo --numerics random
      hloom page step.hlo --source-url 'vscode://file{path}:{line}'
      hloom page step.hlo \\
        --source-url 'https://git.example.com/model/blob/main{path}#L{line}'
    """
    target = output or Path(f"{_stem(source.file if after is None else after)}.html")
    check_folder(target)
    text = make_page()
    write_text(text, target)
    if target != STDOUT:
        write_note(f"{target}: {byte_text(len(text.encode('utf-8', 'surrogateescape')))}")


def _arrays(program: Module, numerics: str) -> Sequence[np.ndarray]:
    """The inputs of a run: random ones of seed 0, or those of a file."""
    return (
        drawn(program, 0, MOST_BYTES, NUMPY_HINT)
        if numerics == RANDOM
        else arrays_in_order(open_arrays(Path(numerics)))
    )


def _stem(file: str) -> str:
    """A file's name without its suffixes: `step` of `dumps/step.hlo.gz`."""
    name = Path(file).name
    return "module" if file == "-" or not name else name.partition(".")[0] or "module"
