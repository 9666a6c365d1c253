"""Packages whose names are imported when they are first used, so that a short run loads only the files it needs."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_IMPORT = re.compile(r"^    from ([\w.]+) import (\w+) as \2$", re.MULTILINE)


class LazyPackage(ModuleType):
    """A package that imports the file of a name when the name is first asked for."""

    _files: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        file = self._files.get(name)
        if file is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        value = getattr(import_module(file), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; Python sets one for each file that it imports, and a public name goes before a file's.

        So `cost` stays the function when something imports `cost.py`.
        """
        if isinstance(value, ModuleType) and name in self._files:
            value = getattr(import_module(self._files[name]), name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._files})


def imports_names_lazily(package: str) -> bool:
    """Let a package import its public names when they are used; False if Python has no source to read them in.

        if TYPE_CHECKING or not imports_names_lazily(__name__):
            from hloom.analysis.cost import cost as cost

    The names are those of the imports in the block, so each stands once, and type checkers and import contracts see it.
    A program packed without its source (PyInstaller) runs the block.
    """
    module: Any = sys.modules[package]
    source = module.__loader__.get_source(package)
    if source is None:
        return False
    module._files = {name: file for file, name in _IMPORT.findall(source)}
    module.__class__ = LazyPackage
    return True
