"""What MkDocs asks while it builds the site: see `hooks` of mkdocs.yml.

A document in docs that `nav` does not name stands under Guides, one in docs/decisions under Decisions.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File  # pyright: ignore[reportMissingImports]
from mkdocs.utils import get_relative_url  # pyright: ignore[reportMissingImports]

sys.path.insert(0, str(Path(__file__).resolve().parent))

from site_pages import ROOT_DOCUMENTS, generated_pages, title_of

DOCS = Path(__file__).resolve().parent.parent / "docs"
SECTIONS = {"reference/commands": "Commands", "reference/python": "Python", "decisions": "Decisions", ".": "Guides"}
"""The section of `nav` that a document joins, by its folder."""
PAGES = generated_pages()
FOREIGN_WORKER = "https://unpkg.com/iframe-worker/shim"
FRAME_WORKER = "assets/frame_worker.js"

_FILE_BLOCK = re.compile(r"^<!-- file: (?P<file>\S+) -->\n```(?P<language>\w*)\n", re.MULTILINE)
_PYTHON_SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Put the documents that `nav` does not name into their sections."""
    named = set(_paths(config.nav))
    documents = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
    for path, text in (documents | PAGES).items():
        section = SECTIONS.get(Path(path).parent.as_posix())
        if path in named or section is None:
            continue
        entry = path if path.endswith("index.md") else {_title(path, text): path}
        _section(config.nav, section).append(entry)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made from the program."""
    for path, text in PAGES.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Show the name of a block that is a file, and colour Python sessions as such."""
    markdown = _FILE_BLOCK.sub(lambda m: f'```{m["language"] or "text"} title="{m["file"]}"\n', markdown)
    for path, document in ROOT_DOCUMENTS.items():
        markdown = markdown.replace(f"](../{document}", f"]({path}")
    return _PYTHON_SESSION.sub("```pycon\n", markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Search in pages that are read from files takes a script that the theme would load from another host: ours."""
    return output.replace(FOREIGN_WORKER, get_relative_url(FRAME_WORKER, page.url))


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """The same for the page that a server shows where there is none."""
    return output.replace(FOREIGN_WORKER, f"/{FRAME_WORKER}")


def _title(path: str, text: str) -> str:
    title = title_of(text).replace("`", "")
    return title.removeprefix("hloom ") if path.startswith("reference/commands") else title


def _paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [path for item in (nav.values() if isinstance(nav, dict) else nav) for path in _paths(item)]


def _section(nav: list[Any], title: str) -> list[Any]:
    """The list under a title, which `nav` has at its top or one level below."""
    for item in nav:
        if isinstance(item, dict):
            for name, entries in item.items():
                if name == title:
                    return entries
                below = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
                for entry in below:
                    if title in entry:
                        return entry[title]
    raise KeyError(f"mkdocs.yml: nav has no section '{title}'")
