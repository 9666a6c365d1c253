"""Pages of the site that are made from the program: one for each subcommand, one for each part of the Python API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import hloom
from hloom.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
PARTS = {
    "formats.hlo": "Read, print, save",
    "api.load": "Read, print, save",
    "ir": "Modules, graphs, types",
    "ops": "Modules, graphs, types",
    "analysis": "Cost, time, memory",
    "targets.memory": "Cost, time, memory",
    "inspection.viz": "Draw",
    "inspection.page": "Draw",
    "rewrite": "Rules and passes",
    "api.opt": "Rules and passes",
    "api.jit": "Rules and passes",
    "api.function": "Functions and derivatives",
    "api.differentiable": "Functions and derivatives",
    "evaluator": "Run and compare",
    "runtime": "Run and compare",
    "api.plan": "Many devices",
    "api.auto_shard": "Many devices",
    "api.jax_specs": "Many devices",
    "distribute.pipeline": "Many devices",
    "distribute.microbatch": "Many devices",
    "distribute.propagation": "Many devices",
    "distribute.remat": "Many devices",
    "text": "Errors",
}
"""The page that the public names of a package, or file of `api`, stand on; others have a page named by the package."""
ROOT_DOCUMENTS = {
    "benchmarks.md": "benchmarks/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""Documents outside docs that are pages of the site."""

_DOCS_LINK = re.compile(r"\]\(docs/([^)]*)\)")
_SOURCE_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)(?:(?![^)]*\.md)[^)]*|\.\.?/[^)]*)\)")


def generated_pages() -> dict[str, str]:
    """Every page that is made from the program, by its path in the site's sources."""
    pages = {"reference/commands/index.md": command_index()}
    pages |= {f"reference/commands/{name}.md": command_page(name) for name in COMMANDS}
    pages |= {f"reference/python/{_slug(title)}.md": python_page(title, names) for title, names in api_parts().items()}
    return pages | {path: root_document(source) for path, source in ROOT_DOCUMENTS.items()}


def command_index() -> str:
    """The list of subcommands."""
    rows = "\n".join(f"| [`hloom {name}`]({name}.md) | {_cell(line)} |" for name, line in COMMANDS.items())
    return f"# Commands\n\n{_prose(main.help or '')}\n\n| command | what it does |\n|---|---|\n{rows}\n"


def command_page(name: str) -> str:
    """The page of one subcommand: usage, what it does, options, examples; as `hloom NAME --help` has them."""
    context = click.Context(main, info_name="hloom", **main.context_settings)
    command = main.get_command(context, name)
    assert command is not None, f"{name} is a subcommand"
    context = click.Context(command, info_name=name, parent=context)
    usage = " ".join([f"hloom {name}", *command.collect_usage_pieces(context)])
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    rows = "\n".join(f"| `{record[0]}` | {_cell(record[1])} |" for record in records if record is not None)
    table = f"| option | meaning |\n|---|---|\n{rows}"
    return f"# hloom {name}\n\n```console\n$ {usage}\n```\n\n{_prose(command.help or '')}\n\n## Options\n\n{table}\n"


def api_parts() -> dict[str, list[str]]:
    """The public names of `hloom`, by the title of the page that they stand on."""
    parts: dict[str, list[str]] = {title: [] for title in PARTS.values()}
    for name in sorted(hloom._OWNERS):
        owner = hloom._OWNERS[name][0]
        title = PARTS.get(owner) or PARTS.get(owner.partition(".")[0]) or f"hloom.{owner.rpartition('.')[2]}"
        parts.setdefault(title, []).append(name)
    return {title: names for title, names in parts.items() if names}


def python_page(title: str, names: list[str]) -> str:
    """The page of some public names; mkdocstrings puts in their signatures and docstrings."""
    return f"# {title}\n\n" + "\n".join(
        f"::: {_path_of(name)}\n    options:\n      heading: hloom.{name}\n      toc_label: {name}\n" for name in names
    )


def root_document(name: str) -> str:
    """A document of the repository's root, with its links as they are inside docs; links to source stay as text."""
    text = _DOCS_LINK.sub(r"](\1)", (ROOT / name).read_text())
    text = text.replace("](CHANGELOG.md)", "](changelog.md)").replace("](CONTRIBUTING.md)", "](contributing.md)")
    return _SOURCE_LINK.sub(r"\1", text)


def title_of(text: str) -> str:
    """A document's first heading."""
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return match[1] if match else "Untitled"


def _path_of(name: str) -> str:
    """Where a public name is defined: where its own module says, or the package that offers it for plain values."""
    value: Any = getattr(hloom, name)
    owner, original = hloom._OWNERS[name]
    qualified = getattr(value, "__qualname__", None)
    is_own = qualified is not None and str(getattr(value, "__module__", "")).startswith("hloom.")
    return f"{value.__module__}.{qualified}" if is_own else f"hloom.{owner}.{original}"


def _prose(text: str) -> str:
    r"""click's help as Markdown: paragraphs joined, and what stands under `\b`, the examples, as a block."""
    return "\n\n".join(_paragraphs(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        if lines[0].strip() != "\b":
            yield " ".join(_escape(line.strip()) for line in lines)
        elif lines[1].strip() == "Examples:":
            yield "## Examples\n\n```console\n" + _console(lines[2:]) + "\n```"
        else:
            yield "```text\n" + "\n".join(line.rstrip() for line in lines[1:]) + "\n```"


def _console(lines: list[str]) -> str:
    """Commands behind a prompt; a line after a backslash continues the one before."""
    text = "\n".join(line.strip() for line in lines)
    return "$ " + re.sub(r"(\\)?\n", lambda end: "\\\n    " if end[1] else "\n$ ", text)


def _cell(text: str) -> str:
    return _escape(text).replace("|", "\\|")


def _escape(text: str) -> str:
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
