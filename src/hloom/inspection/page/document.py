"""One HTML file that shows a module: it opens from disk, loads nothing, and never executes text of a dump."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from hloom.analysis import DEFAULT_DEVICE, Device, as_device
from hloom.evaluator import Inputs
from hloom.formats.hlo import write_whole
from hloom.inspection.diff import diff
from hloom.inspection.page.comparison import graphs_of_both, overlay_of_changes, panel_of_changes
from hloom.inspection.page.figures import add_measured, figures
from hloom.inspection.page.graphs import MOST_EXPORTED, export_graphs
from hloom.inspection.page.numerics import value_statistics
from hloom.inspection.page.overlays import overlays
from hloom.inspection.page.page_file import PageFile, open_page
from hloom.inspection.page.panels import panels
from hloom.inspection.page.source_links import SourceLinks
from hloom.inspection.page.viewer import viewer_parts
from hloom.inspection.profile import measurement
from hloom.ir import ModuleLike, as_module
from hloom.text import visible

POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "connect-src data: blob:; worker-src blob:; base-uri 'self'; form-action 'none'"
)
"""The page's content security policy: run its own scripts, and load nothing."""


def page(
    module: ModuleLike,
    path: str | Path,
    *,
    device: Device | str | None = None,
    source_url: str | None = None,
    trip_counts: Mapping[str, int] | None = None,
    unknown_trips: int = 1,
    before: ModuleLike | None = None,
    numerics: Inputs | None = None,
) -> None:
    """Write one HTML file that shows a module: its graph, costs, memory, roofline, collectives and instructions.

    `device` is the one whose roofline is shown. `source_url` makes links to source lines: a URL that names {path} and
    {line}. `trip_counts` says how often loops run, by name; where nothing says it, a loop counts `unknown_trips` times.
    With `before`, another module, the page shows both graphs, coloured by what changed from that one to this. With
    `numerics`, inputs as `hloom.evaluate` takes them, the module is run, and instructions have the range of their
    values. The file is written whole or not at all.

    Raises HloomError as `page_text` does, and where the file cannot be written.
    """
    text = page_text(
        module,
        device=device,
        source_url=source_url,
        trip_counts=trip_counts,
        unknown_trips=unknown_trips,
        before=before,
        numerics=numerics,
    )
    write_whole(Path(path), text)


def view(
    module: ModuleLike,
    path: str | Path | None = None,
    *,
    device: Device | str | None = None,
    source_url: str | None = None,
    trip_counts: Mapping[str, int] | None = None,
    unknown_trips: int = 1,
    before: ModuleLike | None = None,
    numerics: Inputs | None = None,
) -> PageFile:
    """Write a page, into a folder for temporary files unless told where, and open it; see `page_text`.

    A notebook shows the result as a link. Where the notebook's server is on another machine, write the page beside the
    notebook: `hloom.view(module, "step.html")`.
    """
    module = as_module(module)
    text = page_text(
        module,
        device=device,
        source_url=source_url,
        trip_counts=trip_counts,
        unknown_trips=unknown_trips,
        before=before,
        numerics=numerics,
    )
    return open_page(text, module.name, path)


def page_text(
    module: ModuleLike,
    *,
    device: Device | str | None = None,
    source_url: str | None = None,
    trip_counts: Mapping[str, int] | None = None,
    unknown_trips: int = 1,
    before: ModuleLike | None = None,
    profile: str | Path | None = None,
    numerics: Inputs | None = None,
) -> str:
    """One HTML file: the module's graph, costs by scope, memory, roofline, collectives and instructions.

    `device` is the one whose roofline is shown. `source_url` makes links to source lines: a URL that names {path} and
    {line}. With `before`, another module, the page shows both graphs, coloured by what changed from that one to this,
    and the changes as tables; costs, memory and the rest are of this one. `profile` is a trace of this one, whose
    measured times become an overlay: where it was compiled to what ran, the optimised one is shown. With `numerics`,
    inputs as `hloom.evaluate` takes them, the module is run, and instructions have the range of their values.

    Raises HloomError for a device that nobody knows, a template that is not a URL, trip counts of a loop that there is
    none of, a trace of other programs, and where one of two modules has no entry.
    """
    module = as_module(module)
    before = None if before is None else as_module(before)
    named = None if device is None else as_device(device)
    counts: dict[str, Any] = {"trip_counts": trip_counts, "unknown_trips": unknown_trips}
    measured = None if profile is None else measurement(module, profile, named, **counts)
    chosen = named or (as_device(DEFAULT_DEVICE) if measured is None else measured.device)
    module = module if measured is None else measured.module
    links = SourceLinks(module, source_url)
    numbers = figures(module, chosen, **counts)
    if measured is not None:
        add_measured(numbers, measured)
    if numerics is not None:
        numbers.numerics = value_statistics(module, numerics)
    size = module.node_count + (before.node_count if before is not None else 0)
    has_graph = size <= MOST_EXPORTED
    if not has_graph:
        numbers.notes.append(f"without graph and table: they hold at most {MOST_EXPORTED:,} instructions")
    export = export_graphs(module, numbers, links)
    graphs, shown = export.graphs, panels(numbers, export.scopes)
    coloured = overlays(export, numbers.collectives, numbers.numerics)
    if before is not None:
        difference = diff(before, module, device=chosen)
        other = export_graphs(before, figures(before, chosen), SourceLinks(before, source_url))
        graphs = graphs_of_both(other, export)
        coloured = {"changes": overlay_of_changes(difference, other, export), **coloured}
        shown["changes"] = panel_of_changes(difference)
    blocks = [
        _block("summary", "application/json", _json(shown)),
        _block("graphs", "text/plain", _packed(graphs)),
        _block("overlays", "text/plain", _packed(coloured)),
        _block("styles", "text/plain", _asset("uPlot.min.css") + _asset("page.css")),
    ]
    if has_graph:
        blocks.append(_block("viewer", "text/plain", _packed(viewer_parts())))
    scripts = [_asset(name) for name in ("uPlot.iife.min.js", "viewer.js", "page.js")]
    return _document(export.name, blocks, scripts)


def _document(name: str, blocks: list[str], scripts: list[str]) -> str:
    nonce = hashlib.sha256("".join([name, *blocks, *scripts]).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    policy = html.escape(POLICY.format(nonce=nonce))
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{html.escape(visible(name))} - hloom</title>",
        "<style>body { margin: 0 } #graph { position: fixed; inset: 40px 0 0 0; overflow: hidden } "
        "app-root { display: block; height: 100% }</style>",
        "</head><body>",
        '<noscript>This page needs JavaScript.</noscript><div id="graph"></div><div id="page"></div>',
        *blocks,
        *(f'<script nonce="{nonce}">{_script_safe(script)}</script>' for script in scripts),
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def _block(identifier: str, media_type: str, text: str) -> str:
    """Data that the page reads: no script runs in it, and no text of it ends it."""
    assert "</" not in text and "<!--" not in text, "what a block holds cannot end it"
    return f'<script type="{media_type}" id="{identifier}">{text}</script>'


def _json(value: Any) -> str:
    """JSON without what HTML gives a meaning."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(value: Any) -> str:
    """JSON, compressed, as base64."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _script_safe(script: str) -> str:
    """A script of ours as an HTML element may hold it."""
    assert "</script" not in script.lower() and "<!--" not in script, "a script cannot end its element"
    return script


def _asset(name: str) -> str:
    return (files("hloom.inspection.page") / "assets" / name).read_text(encoding="utf-8")
