"""Reads a TOML file of devices and checks it field by field; errors give the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from hloom.analysis.collective_rates import law
from hloom.analysis.matmul_time import MatmulRates
from hloom.text import HloomError, Source, read_limited

Table = dict[str, Any]
"""One device as its file has it."""

DEVICE_BYTES = 1 << 18
"""The maximum size of a device file in bytes; a device takes about 2,000."""
MOST_DOTS = 200
"""The maximum number of dots in a line; keys, numbers and addresses contain some."""
NUMBERS = ("memory_bytes", "memory_bandwidth", "launch_seconds")
OPTIONAL_NUMBERS = (
    *("start_seconds", "fresh_bytes", "fresh_bandwidth", "spread_bytes", "spread_seconds", "small_loop_bytes"),
    *("devices_per_host", "thread_registers", "block_shared_bytes", "multiprocessors"),
)
BACKENDS = ("cpu", "gpu", "tpu")
RATES = ("matrix", "vector")
OPTIONAL_RATES = ("transcendental", "opcodes")
FIELDS = ("title", "backend", *NUMBERS, *OPTIONAL_NUMBERS, *RATES, *OPTIONAL_RATES, "matmul", "links", "sources")
FORMER_LINK_FIELDS = {"kind": "technology"}
"""Old names of link fields, which are still read."""
LINK_FIELDS = ("name", "technology", "topology", "bandwidth", "latency", "devices", "collectives", "sources")
COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")
"""The opcodes whose rates a link may have; others take those of one of them."""
TOPOLOGIES = ("switch", "mesh", "torus2d", "torus3d", "host")
MAY_BE_ZERO = frozenset(
    (
        *("launch_seconds", "start_seconds", "fresh_bytes", "fresh_bandwidth", "spread_bytes", "spread_seconds"),
        *("small_loop_bytes", "latency", "step_seconds", "peer_seconds", "tile_seconds", "split_seconds", "own_share"),
        *("pipelining", "latency_limit", "eager_bytes", "narrow_seconds", "handshake_seconds", "arrange_bandwidth"),
        *("overlap", "batch_tile_bandwidth", "batch_tile_seconds"),
    )
)
_HEADER = re.compile(r"^[ \t]*\[+\s*(?P<name>[^\]]+?)\s*\]+", re.MULTILINE)


def read_tables(path: Path) -> dict[str, Table]:
    """The checked devices of a file; raises HloomError at the location of the fault."""
    try:
        text = read_limited(path, DEVICE_BYTES).decode()
    except UnicodeDecodeError as problem:
        raise HloomError(f"cannot read {path}: {problem}") from None
    return check_devices(text, str(path))


def check_devices(text: str, name: str) -> dict[str, Table]:
    """The devices of a text; `name` is its name in messages."""
    _check_dots(Source(text, name))
    try:
        tables = tomllib.loads(text)
    except ValueError as problem:  # raised by tomllib, and by int() for numbers of thousands of digits
        raise HloomError(f"{name}: this is not TOML: {problem}") from None
    except RecursionError:
        raise HloomError(f"{name}: its values nest too deep for a file of devices") from None
    tables = {name: _with_todays_fields(table) for name, table in tables.items()}
    checker = _Checker(Source(text, name))
    for name, table in tables.items():
        checker.device(name, table)
    return tables


def _check_dots(source: Source) -> None:
    """Raise HloomError for keys with too many dotted parts: tomllib takes quadratic time to parse them."""
    position = 0
    for line in source.text.split("\n"):
        if line.count(".") > MOST_DOTS and not line.lstrip().startswith("#"):
            raise HloomError(f"a line of more than {MOST_DOTS} dots", source.location(position))
        position += len(line) + 1


def _with_todays_fields(table: Any) -> Any:
    """A device with old link fields renamed; anything that is not a device is left to the checker."""
    links = table.get("links") if isinstance(table, dict) else None
    if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
        return table
    renamed = [{FORMER_LINK_FIELDS.get(field, field): value for field, value in link.items()} for link in links]
    return table | {"links": renamed}


class _Checker:
    """Checks one text and reports faults with their line."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def device(self, name: str, table: Any) -> None:
        if not isinstance(table, dict):
            self.fail(f"'{name}' should be a table, [{name}], that describes a device", "", name)
        self.known(name, table, FIELDS)
        for field in ("title", *NUMBERS, *RATES):
            if field not in table:
                self.fail(f"the device '{name}' has no {field}", name, "")
        if not isinstance(table["title"], str):
            self.fail(f"the title of '{name}' should be a string", name, "title")
        if table.get("backend", BACKENDS[0]) not in BACKENDS:
            self.fail(f"no backend is called {table['backend']!r}", name, "backend", ", ".join(BACKENDS))
        for field in (*NUMBERS, *OPTIONAL_NUMBERS):
            if field in table:
                self.number(name, field, table[field])
        for field in (*RATES, *OPTIONAL_RATES):
            self.rates(name, field, table.get(field, {}))
        if not table["vector"] or not table["matrix"]:
            self.fail(f"the device '{name}' states no rates", name, "")
        if "f32" not in table["vector"]:
            self.fail(f"the vector rates of '{name}' should have one for f32", f"{name}.vector", "")
        self.matmul(name, table)
        self.sources(name, table)
        self.links(name, table.get("links", []))

    def known(self, name: str, table: Mapping[str, Any], fields: tuple[str, ...]) -> None:
        for field in table:
            if field not in fields:
                near = get_close_matches(field, fields, n=1)
                self.fail(f"'{name}' has no field '{field}'", name, field, near[0] if near else ", ".join(fields))

    def number(self, name: str, field: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value in (1e999, -1e999):
            self.fail(f"{field} of '{name}' should be a number, not {value!r}", name, field)
        elif value < 0 or (value == 0 and field not in MAY_BE_ZERO):
            self.fail(f"{field} of '{name}' should be positive, not {value!r}", name, field)

    def rates(self, name: str, field: str, rates: Any) -> None:
        if not isinstance(rates, dict):
            self.fail(f"{field} of '{name}' should be a table of rates", name, field)
        for key, value in rates.items():
            self.number(f"{name}.{field}", key, value)
            if field in RATES:
                self.element_type(f"{name}.{field}", key)

    def matmul(self, name: str, table: Mapping[str, Any]) -> None:
        rows = table.get("matmul", {})
        if not isinstance(rows, dict):
            self.fail(f"matmul of '{name}' should be a table of element types", name, "matmul")
        if rows and "multiprocessors" not in table:
            self.fail(f"the device '{name}' has rates of matmul, so it should have multiprocessors", name, "")
        for key, figures in rows.items():
            self.element_type(f"{name}.matmul", key)
            self.figures(f"{name}.matmul.{key}", figures, MatmulRates)

    def figures(self, name: str, figures: Any, kind: type) -> None:
        """Check that a table has the figures of a class of rates."""
        if not isinstance(figures, dict):
            self.fail(f"'{name}' should be a table of figures", name, "")
        known = {field.name: field.default is MISSING for field in fields(kind)}
        self.known(name, figures, tuple(known))
        for figure, is_required in known.items():
            if figure in figures:
                self.number(name, figure, figures[figure])
            elif is_required:
                self.fail(f"'{name}' has no {figure}", name, "")
        if figures.get("overlap", 0) > 1:
            self.fail(f"overlap of '{name}' should be a share from 0 to 1", name, "overlap")

    def element_type(self, table: str, key: str) -> None:
        if not re.fullmatch(r"(b?f|s)\d+\w*", key):
            message = f"'{key}' is not an element type: rates are for f64, f32, bf16, s8 and so on"
            self.fail(message, table, key)

    def sources(self, name: str, table: Mapping[str, Any]) -> None:
        sources = table.get("sources", {})
        figures = [field for field in (*NUMBERS, *OPTIONAL_NUMBERS) if field in table]
        figures += [
            f"{table_name}.{key}" for table_name in (*RATES, *OPTIONAL_RATES) for key in table.get(table_name, {})
        ]
        figures += [f"matmul.{key}" for key in table.get("matmul", {})]
        for figure in figures:
            if not sources.get(figure) and not sources.get(figure.partition(".")[0]):
                hint = f'[{name}.sources] {figure} = "where from"'
                self.fail(f"{figure} of '{name}' has no source", name, figure, hint)

    def links(self, name: str, links: Any) -> None:
        if not isinstance(links, list):
            self.fail(f"the links of '{name}' should be tables: [[{name}.links]]", name, "links")
        for link in links:
            self.link(f"{name}.links", link)

    def link(self, name: str, link: Mapping[str, Any]) -> None:
        self.known(name, link, LINK_FIELDS)
        for field in ("name", "technology", "topology", "bandwidth", "latency"):
            if field not in link:
                self.fail(f"a link of '{name.removesuffix('.links')}' has no {field}", name, "")
        for field in ("bandwidth", "latency", "devices"):
            if field in link:
                self.number(name, field, link[field])
        if link["topology"] not in TOPOLOGIES:
            self.fail(f"no topology is called '{link['topology']}'", name, "topology", ", ".join(TOPOLOGIES))
        collectives = link.get("collectives", {})
        if not isinstance(collectives, dict):
            self.fail(f"collectives of the link '{link['name']}' should be a table of opcodes", name, "collectives")
        self.known(f"{name}.collectives", collectives, COLLECTIVES)
        for opcode, figures in collectives.items():
            self.figures(f"{name}.collectives.{opcode}", figures, law(figures if isinstance(figures, dict) else ()))
        for field in ("bandwidth", "latency", *(["collectives"] if collectives else [])):
            if not link.get("sources", {}).get(field):
                self.fail(f"{field} of the link '{link['name']}' has no source", name, field)

    def fail(self, message: str, table: str, key: str, hint: str | None = None) -> NoReturn:
        raise HloomError(message, self.source.location(self.offset(table, key)), hint)

    def offset(self, table: str, key: str) -> int:
        """The position of a table's key in the text; else that of the table, else the beginning."""
        text = self.source.text
        headers = [header for header in _HEADER.finditer(text) if header["name"].replace('"', "") == table]
        start = headers[0].start() if headers else 0
        pattern = re.compile(rf'^[ \t]*"?{re.escape(key)}"?\s*=', re.MULTILINE)
        match = pattern.search(text, start) if key else None
        return match.start() if match else start
