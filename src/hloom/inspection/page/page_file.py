"""A page in a file, opened in the browser; in a notebook, a link to it."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from hloom.formats.hlo import write_whole
from hloom.text import Display, Displayed, byte_text


@dataclass(frozen=True, slots=True, repr=False)
class PageFile(Displayed):
    """A page that was written: where, of which module, and whether a browser took it."""

    path: Path
    name: str
    is_opened: bool

    def display(self) -> Display:
        size = self.path.stat().st_size if self.path.exists() else 0
        return Display(f"<page of {self.name}: {self.path}, {byte_text(size)}>", link=self._link())

    def _link(self) -> str:
        """Below the working folder a relative link, which notebook servers serve; else a file's URL."""
        folder = Path.cwd()
        if self.path.is_relative_to(folder):
            return "./" + quote(self.path.relative_to(folder).as_posix())
        return self.path.as_uri()


def open_page(text: str, name: str, path: str | os.PathLike[str] | None = None) -> PageFile:
    """Write a page, into a new folder for temporary files unless told where, and open it in the browser.

    Raises HloomError where it cannot be written.
    """
    target = Path(tempfile.mkdtemp(prefix="hloom-")) / "page.html" if path is None else Path(path)
    target = write_whole(target, text).absolute()
    return PageFile(target, name, webbrowser.open(target.as_uri()))
