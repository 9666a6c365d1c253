"""The group of subcommands: each is imported when it runs, and an error is printed once."""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from hloom.cli.completion import completion_option
from hloom.cli.exit_status import INTERRUPTED, TROUBLE, message_of, status_of
from hloom.cli.interrupt import MESSAGE, end_after_interrupt
from hloom.cli.output import TYPED, write_note
from hloom.cli.streams import replace_closed_streams, writing_stdout
from hloom.text import HloomError, HloomWarning, readable

SECTIONS = {
    "What is in it": {
        "inspect": "Summarise a module: computations, opcodes, sizes, call graph.",
        "print": "Print a module as HLO text, in one of several styles.",
        "draw": "Draw a module's graph as DOT, SVG, PNG, PDF, JSON or GraphML.",
        "page": "Write a self-contained HTML page about a module.",
        "view": "Open a module's page in the browser.",
        "grep": "List the instructions that match a query.",
    },
    "How long it takes, and why it does not fit": {
        "cost": "Count FLOPs and bytes by opcode, scope, layer or source line.",
        "roofline": "Estimate the run time on a device, and what limits it.",
        "fusions": "Show what each fusion contains and how long it takes.",
        "memory": "Report peak memory, what is live there, and whether it fits.",
        "why-oom": "Explain an out-of-memory error and simulate remedies.",
        "compile": "Compile for a TPU, GPU or CPU with the target's own compiler.",
        "calibrate": "Measure this machine and write it as a device file.",
        "doctor": "Show what is installed, what works here, and how to get the rest.",
    },
    "Make it smaller or faster, and run it": {
        "opt": "Run rewrite passes and rules, with reports and verification.",
        "grad": "Build the gradient, VJP or JVP of a module.",
        "quantize": "Quantise weights, activations and KV caches.",
        "prune": "Prune weights, as masks or by shrinking whole axes.",
        "run": "Run a module on XLA's CPU client and summarise its outputs.",
        "evaluate": "Interpret a module with numpy, without XLA.",
    },
    "What changed, and what is at fault": {
        "diff": "Compare two modules: instructions and costs.",
        "passes": "Show what each XLA pass changed, from a dump directory.",
        "minimize": "Reduce a module to a small one that still shows a fault.",
    },
    "Spread it over devices": {
        "propagate": "Propagate a sharding and list the communication it causes.",
        "plan": "Choose a sharding of a module over a device mesh.",
        "pipeline": "Split a step into pipeline stages over devices.",
        "fit": "Search sharding, microbatches, recomputation and stages together.",
    },
}
"""The subcommands by job, each a file of this package, with its line in `hloom --help`."""
OBJECTS_PER_COLLECTION = 200_000
"""Objects made before Python searches them for cycles: imports make that many, and keep them (Python's own 700 cost a
quarter of a short run)."""
BLAS_SPIN = 20
"""How long the idle threads of numpy's BLAS wait busily: 2**20 cycles, about 0.4 ms. Its default is 0.1 s, from when
numpy is imported: 30 ms of a short run on two cores. Below 2**18, products one after the other get slower."""
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}


WORD = 5
"""How many letters of a word are looked for in the help: `summarize` finds `Summarise`, `sharding` finds `shards`."""


class Commands(click.Group):
    """A group that imports a subcommand's file only to run it, and turns errors into one message and an exit status."""

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **options: Any) -> Any:
        if args is not None:  # a call from Python, and not a process of its own
            return super().main(args, *arguments, **options)
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", str(BLAS_SPIN))  # read when numpy is imported, not yet
        gc.set_threshold(OBJECTS_PER_COLLECTION)
        atexit.register(gc.freeze)  # Python would search all of the module for cycles once more before it ends
        replace_closed_streams()
        end_after_interrupt()
        warnings.showwarning = _show_warning
        with _crashes_as_trouble():
            try:
                with writing_stdout():  # also of what click writes itself: --help and --version
                    return super().main(args, *arguments, **options)
            except HloomError as error:
                write_note(f"error: {error}")
                sys.exit(TROUBLE)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"hloom.cli.{cmd_name.replace('-', '_')}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"there is no command '{name}'{_meant(name)}", ctx)
        ctx.meta[TYPED] = tuple(args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.filename is None:  # of the standard output: `main` says so, and click of a pipe without a reader
                raise
            _fail(ctx, error)
        except (HloomError, MemoryError) as error:
            _fail(ctx, error)
        except click.ClickException as error:  # it shows what was typed, perhaps by a shell that completes file names
            error.message = readable(error.message)  # pyright: ignore[reportAttributeAccessIssue]
            if isinstance(error, click.MissingParameter) and error.ctx is not None:
                example = f"For example: {_example(error.ctx.command)}"
                error.message = example  # pyright: ignore[reportAttributeAccessIssue]
            raise
        except KeyboardInterrupt:
            write_note(MESSAGE)
            ctx.exit(INTERRUPTED)


_PYTHONS_OWN = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **keywords: Any) -> None:
    """Show what hloom warns of as a note, without the line of hloom's source that Python would show."""
    if issubclass(category, HloomWarning):
        write_note(f"note: {message}")
    else:
        _PYTHONS_OWN(message, category, *where, **keywords)


def _meant(name: str) -> str:
    """The commands that a mistyped name may mean: near ones, or those whose line in the help has the word."""
    if os.path.exists(name):
        return f"; to see what is in a file: hloom inspect {name}"
    word = name.lower()
    near = [command for command in COMMANDS if word.startswith(command)] or get_close_matches(word, COMMANDS)
    if not near and word:
        has_word = re.compile(rf"\b{re.escape(word[:WORD])}", re.IGNORECASE)
        near = [command for command, line in COMMANDS.items() if has_word.search(f"{command} {line}")]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _example(command: click.Command) -> str:
    """The first example in a command's help."""
    return (command.help or "").partition("Examples:\n")[2].strip().partition("\n")[0]


@contextmanager
def _crashes_as_trouble() -> Iterator[None]:
    """Let an unexpected error show its traceback and end with TROUBLE: Python's own 1 would be an answer."""
    try:
        yield
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # while a class is made: Python 3.11's RuntimeError
            write_note(MESSAGE)
            sys.exit(INTERRUPTED)
        traceback.print_exc()
        sys.exit(TROUBLE)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, params=[completion_option()])
@click.version_option(package_name="hloom")
def main() -> None:
    """Inspect, transform, shard and run XLA HLO programs.

    FILE is HLO text or a serialised proto (.hlo, .txt or .pb, optionally compressed as .gz or .zst), an XLA dump
    directory, or - for standard input.

    The exit status is 0 for success or the answer yes, 1 for the answer no (it does not fit, the modules differ,
    nothing matches), and 2 for bad input or bad usage.

    \b
    Examples:
      hloom inspect step.hlo
      hloom why-oom step.hlo --memory 16GiB
      hloom opt step.hlo -p simplify,cse --verify -o small.hlo
      hloom diff old.hlo new.hlo
      hloom plan step.hlo --mesh data=2,model=4
    """


def _fail(ctx: click.Context, error: Exception) -> None:
    write_note(f"error: {message_of(error)}")
    ctx.exit(status_of(error) or TROUBLE)
