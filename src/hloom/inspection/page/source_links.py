"""Where in the user's source an instruction comes from, and a link that opens it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from hloom.inspection.viz import clean
from hloom.ir import Module
from hloom.text import HloomError

_FIELD = re.compile(r"\{([^{}]*)\}")
FIELDS = ("path", "line")
"""What a template of links may name."""
SCHEMES = frozenset(
    ("cursor", "file", "http", "https", "idea", "pycharm", "vscode", "vscode-insiders", "vscodium", "zed")
)
"""The schemes that a link may have: web pages, files, and editors."""


class SourceLinks:
    """Source locations of a module's instructions, and links made of them by a template."""

    def __init__(self, module: Module, template: str | None = None) -> None:
        """Raises HloomError for a template that is not a URL of a known scheme, or names what there is not."""
        self._tables = module.stack_tables
        self._template = None if template is None else _checked(template)
        self._frames: dict[int, tuple[str, int] | None] = {}

    def location(self, fields: Mapping[str, str | int]) -> str:
        """File and line, `model.py:12`, from the fields of metadata; nothing where they say none."""
        source = self._source(fields)
        if source is None:
            return ""
        path, line = source
        return clean(f"{path}:{line}" if line else path)

    def link(self, fields: Mapping[str, str | int]) -> str:
        """The link to open; nothing without a template or a location."""
        source = self._source(fields)
        if self._template is None or source is None:
            return ""
        path, line = source
        values = {"path": quote(path), "line": str(line)}
        return _FIELD.sub(lambda match: values[match[1]], self._template)

    def _source(self, fields: Mapping[str, str | int]) -> tuple[str, int] | None:
        if "source_file" in fields:
            return str(fields["source_file"]), int(fields.get("source_line", 0))
        number = fields.get("stack_frame_id")
        if self._tables is None or not isinstance(number, int):
            return None
        if number not in self._frames:
            frames = self._tables.trace(number)
            self._frames[number] = (frames[0].file, frames[0].line) if frames else None
        return self._frames[number]


def _checked(template: str) -> str:
    scheme = template.partition(":")[0].lower()
    if scheme not in SCHEMES or ":" not in template:
        hint = f"begin it with one of {', '.join(sorted(SCHEMES))}, such as vscode://file{{path}}:{{line}}"
        raise HloomError(f"the template of source links, '{template}', is not a URL that a page may open", hint=hint)
    unknown = [name for name in _FIELD.findall(template) if name not in FIELDS]
    if unknown:
        hint = f"a template may name {', '.join(f'{{{name}}}' for name in FIELDS)}"
        raise HloomError(f"the template of source links names {{{unknown[0]}}}", hint=hint)
    return template
