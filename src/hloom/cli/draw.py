"""`hloom draw`: a module, or a part of it, as a picture or a graph file."""

from __future__ import annotations

from pathlib import Path

import click

from hloom.cli.input import progress, read_module
from hloom.cli.options import ModuleSource, count_option, file_argument, json_option, output_option
from hloom.cli.output import write_text
from hloom.formats.hlo import write_whole
from hloom.inspection.viz import HOPS, SUFFIXES, Selection, to_dot, to_json


@click.command("draw")
@file_argument
@click.option("--computation", metavar="C", help="Draw only the computation C.")
@click.option(
    "--around", metavar="NODE", help="Draw the neighbourhood of this instruction, given as NODE or COMPUTATION/NODE."
)
@count_option("--hops", least=0, default=HOPS, help="Largest distance from --around, in def-use edges.")
@click.option("--across-calls", is_flag=True, help="Follow edges into and out of called computations too.")
@click.option("--collapse-fusions", is_flag=True, help="Draw fusions, calls and wrappers as single nodes.")
@json_option("Write JSON, whatever the suffix of OUT.")
@output_option(f"Write to file OUT, whose suffix picks the format: {' '.join(SUFFIXES)}.")
def command(
    source: ModuleSource,
    computation: str | None,
    around: str | None,
    hops: int,
    across_calls: bool,
    collapse_fusions: bool,
    json_output: bool,
    output: Path | None,
) -> None:
    """Draw a module as a graph.

    Without -o, writes Graphviz DOT (or JSON with --json) to standard output. Pictures are readable up to a few hundred
    instructions; layout of 3,000 takes about a minute, so draw part of a large module with --around or --computation.
    SVG and PNG are the same on every machine; PDF needs Graphviz.

    \b
    Examples:
      hloom draw step.hlo -o step.dot
      hloom draw step.hlo --around dot.3 --hops 3 -o dot.svg
      hloom draw step.hlo --computation region_0.1 -o region.png
      hloom draw step.hlo --collapse-fusions -o step.graphml
      hloom draw step.hlo --json | jq '.nodes | length'
    """
    writer = to_json if json_output else to_dot if output is None else SUFFIXES.get(output.suffix.lower())
    if writer is None:
        raise click.BadParameter(f"'{output}' must end in one of the suffixes {' '.join(SUFFIXES)}", param_hint="-o")
    program = read_module(source)
    selection: Selection = {
        "computation": computation,
        "around": around,
        "hops": hops,
        "across_calls": across_calls,
        "collapse_fusions": collapse_fusions,
    }
    with progress("drawing"):
        contents = writer(program, **selection)
    if output is not None:
        write_whole(output, contents)
        return
    assert isinstance(contents, str), "standard output takes text formats only"
    write_text(contents, None)
