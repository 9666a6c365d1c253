"""The group of subcommands: each is imported when it runs, and an error is printed once."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from hloom.cli.completion import completion_option
from hloom.cli.exit_status import INTERRUPTED, TROUBLE, message_of, status_of
from hloom.cli.interrupt import MESSAGE, end_after_interrupt
from hloom.cli.output import write_note
from hloom.cli.streams import replace_closed_streams, writing_stdout
from hloom.text import HloomError, readable

COMMANDS = {
    "inspect": "What is in a module: computations, opcodes, sizes, calls.",
    "print": "Print a module as HLO text, in several styles.",
    "draw": "Draw a module: DOT, SVG, PNG, JSON, GraphML.",
    "page": "Write a page that shows a module: one HTML file, offline.",
    "view": "Open a module's page in the browser.",
    "cost": "FLOPs and bytes, by opcode, scope, layer or source line.",
    "roofline": "Time on a device, estimated: what takes it, what limits it.",
    "fusions": "What the fusions of an optimised module hold and take.",
    "calibrate": "Measure this machine and write it as a device.",
    "memory": "Peak memory, what is alive then, and whether it fits.",
    "why-oom": "Why a program does not fit into memory, and what would help.",
    "grep": "The instructions that a query asks for.",
    "propagate": "Follow a tiling through a module: what is split, what it costs.",
    "plan": "Find how to split a module over a device mesh.",
    "pipeline": "Cut a step into pipeline stages over devices.",
    "diff": "What differs between two modules: instructions and costs.",
    "passes": "What XLA's passes made of a module, from its dumps.",
    "minimize": "The smallest module in which a fault still shows.",
    "fit": "Find the best sharding, microbatches, recomputation, stages.",
    "opt": "Rewrite a module with passes and rules, and account for each.",
    "quantize": "Store weights in narrow types: the program, checkpoints, errors.",
    "prune": "Remove what matters least of weights: masks, checkpoints, errors.",
    "grad": "Differentiate a module: gradients, products with Jacobians.",
    "evaluate": "Compute a module with numpy, without XLA.",
    "run": "Run a module on XLA's CPU client and look at the outputs.",
}
"""The subcommands, each a file of this package, with their lines in the list of all of them."""


class Commands(click.Group):
    """A group that imports a subcommand's file only to run it, and turns errors into one message and an exit status."""

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **options: Any) -> Any:
        if args is not None:  # a call from Python, and not a process of its own
            return super().main(args, *arguments, **options)
        replace_closed_streams()
        end_after_interrupt()
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

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
            raise
        except KeyboardInterrupt:
            write_note(MESSAGE)
            ctx.exit(INTERRUPTED)


@contextmanager
def _crashes_as_trouble() -> Iterator[None]:
    """Let an unexpected error show its traceback and end with TROUBLE: Python's own 1 would be an answer."""
    try:
        yield
    except Exception:
        traceback.print_exc()
        sys.exit(TROUBLE)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, params=[completion_option()])
@click.version_option(package_name="hloom")
def main() -> None:
    """Read, print, draw, rewrite and run XLA HLO programs.

    FILE is HLO text or a proto, plain or packed (.hlo .txt .pb, each also .gz .zst), a directory that XLA dumped
    into, or - for the standard input.

    The exit status is 0 where it is done or the answer is yes, 1 where the answer is no (it does not fit, it differs,
    nothing is found), and 2 where it could not be done: bad input or usage.

    \b
    Examples:
      hloom inspect step.hlo
      hloom print step.hlo.pb --short-parsable
      hloom draw step.hlo --around dot.3 --hops 2 -o dot.svg
      hloom opt step.hlo -p simplify,cse --verify -o small.hlo
      hloom run step.hlo --seed 1
    """


def _fail(ctx: click.Context, error: Exception) -> None:
    write_note(f"error: {message_of(error)}")
    ctx.exit(status_of(error) or TROUBLE)
