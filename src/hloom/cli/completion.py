"""Completion in the shell: what may stand where the cursor is, and the script that asks."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")
"""The shells that there is a script for."""
VARIABLE = "_HLOOM_COMPLETE"
"""The environment variable by which the script asks; click makes its name from the program's."""


def completion_option() -> click.Option:
    """`--completion SHELL`: print the script that completes in this shell, and end."""

    def write(context: click.Context, option: click.Parameter, shell: str | None) -> None:
        if shell is None or context.resilient_parsing:
            return
        script_type = get_completion_class(shell)
        assert script_type is not None, "click knows the shells of the choice"
        click.echo(script_type(context.command, {}, "hloom", VARIABLE).source())
        context.exit()

    return click.Option(
        ["--completion"],
        type=click.Choice(SHELLS),
        is_eager=True,
        expose_value=False,
        callback=write,
        help='Print the completion script for a shell, for use as eval "$(hloom --completion bash)".',
    )


def complete_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files and directories: the shell completes them itself."""
    return [CompletionItem(incomplete, type="file")]


def complete_device(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Devices by name, those of the file of `--devices` too."""
    from hloom.analysis import devices  # only here: the subcommands without devices do not load it

    known = devices(context.params.get("listed"))
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]


def complete_passes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The last pass of a pipeline as far as it is typed: `simplify,cs` and `fixpoint(simplify,cs` go on with `cse`."""
    from hloom.passes import PASSES

    start = max(incomplete.rfind(","), incomplete.rfind("(")) + 1
    written, name = incomplete[:start], incomplete[start:]
    fitting = (known for known in PASSES.values() if known.name.startswith(name))
    return [CompletionItem(written + known.name, help=known.summary) for known in fitting]
