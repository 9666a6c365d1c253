"""The documentation as a site: every subcommand and public name has its page, and pages load nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hloom
from hloom.cli.main import COMMANDS
from scripts import site_pages
from scripts.site_pages import api_parts, command_page, generated_pages, root_document

ROOT = Path(__file__).resolve().parent.parent
LOADS = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(https?:[^\" >]*)|<link[^>]*\shref=\"?(https?:[^\" >]*)")


def test_every_subcommand_has_a_page():
    assert {f"reference/commands/{name}.md" for name in COMMANDS} <= generated_pages().keys()


def test_a_subcommands_page_is_its_help():
    page = command_page("draw")
    assert page.startswith("# hloom draw\n\n```console\n$ hloom draw [OPTIONS] FILE\n```\n\nDraw a module as a graph.\n")
    assert "```console\n$ hloom draw step.hlo -o step.dot\n" in page
    assert "| `--around NODE` | Draw the neighbourhood of this instruction, given as NODE or COMPUTATION/NODE. |" in page


def test_every_public_name_stands_on_one_page():
    listed = [name for names in api_parts().values() for name in names]
    assert sorted(listed) == sorted(name for name in dir(hloom) if not name.startswith("__"))


def test_links_of_the_roots_documents_lead_into_the_site():
    text = root_document("CONTRIBUTING.md")
    assert "](design.md)" in text
    assert "](docs/" not in text


def test_what_the_pages_are_made_from_is_there():
    assert set(site_pages.PARTS) <= {owner for owner, _ in hloom._OWNERS.values()}


def test_figures_of_the_comparison_stand_in_their_sources():
    comparison = (ROOT / "docs" / "comparison.md").read_text()
    for section in comparison.split("\n## ")[1:]:
        links = re.findall(r"\]\(([\w./]+\.md)[#)]", section)
        source = "".join((ROOT / "docs" / link).read_text() for link in links)
        figures = re.findall(r"\d+(?:[.,]\d+)*", re.sub(r"`[^`]*`|\([^)]*\.md[^)]*\)", "", section))
        stale = [figure for figure in figures if figure not in source]
        assert links and not stale, f"docs/comparison.md, {section.splitlines()[0]}: {stale} do not stand in {links}"


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(COMMANDS)
    assert [(page.name, match[0]) for page in pages for match in LOADS.finditer(page.read_text())] == []
