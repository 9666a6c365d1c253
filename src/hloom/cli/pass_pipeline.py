"""Pipelines as a command line says them: the language of `hloom.passes.PipelineReader`, and passes of Python files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hloom.api import opt as _passes_by_name  # noqa: F401  passes of all packages can be named
from hloom.passes import Pass, PipelineReader
from hloom.text import HloomError, ParseError


def pipeline_reader(load: Sequence[Path], options: Mapping[str, Any]) -> PipelineReader:
    """What reads pipelines, of the passes of Python files too, which are executed; options go to their takers."""
    known: dict[str, Pass] = {}
    for path in load:
        from hloom.cli.user_passes import load_passes

        for name, loaded in load_passes(path).items():
            if known.setdefault(name, loaded) is not loaded:
                raise HloomError(f"{path}: there is a pass named '{name}' already")
    return PipelineReader(known, options, "-p")


def named_passes(reader: PipelineReader, text: str) -> list[Pass]:
    """The passes of a text; raises UsageError where it does not read."""
    try:
        return reader.read(text)
    except ParseError as error:
        raise click.UsageError(str(error)) from None
