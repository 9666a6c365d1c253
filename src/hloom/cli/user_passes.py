"""A user's own passes: a Python file that is executed, and what it offers by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from hloom.passes import PASSES, Pass, rules_pass
from hloom.rewrite import EXECUTED, Family, Rule, call_name
from hloom.runtime import location_of
from hloom.text import HloomError, Source, read_limited

SOURCE_BYTES = 1 << 24
"""The largest file that is executed."""


class _LimitedLoader(SourceFileLoader):
    """A loader of source that was read already: the loader itself reads to the end, which a device has not."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self.source = source

    def get_data(self, path: str) -> bytes:
        return self.source if path == self.path else super().get_data(path)


def load_passes(path: Path) -> dict[str, Pass]:
    """Execute a Python file; its rules, families and passes by name, and all its rules under the file's own name.

    What the file gives to `hloom.passes.register_pass` is in PASSES; rules and calls in modules may name its functions.
    Raises HloomError, with its location, where the file fails or a name is taken.
    """
    module, passes = _execute(path), {}
    for value in vars(module).values():
        is_own = getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__qualname__")
        if is_own and callable(value) and not isinstance(value, type):
            call_name(value)
    rules = [value for value in vars(module).values() if isinstance(value, Rule) and _is_from(value, path)]
    families = [value for value in vars(module).values() if isinstance(value, Family) and _has_own(value, path)]
    everything = [*dict.fromkeys([*rules, *(rule for family in families for rule in family)])]
    named = [
        *_passes(module),
        *(rules_pass(family.name, family, f"the rules of {path.name} on it") for family in families),
    ]
    named += [rules_pass(rule.name, [rule], _first_line(rule)) for rule in everything]
    for loaded in named:
        if loaded.name in PASSES and PASSES[loaded.name] is not loaded:
            raise HloomError(f"{path}: there is a pass named '{loaded.name}' already")
        passes.setdefault(loaded.name, loaded)
    if everything and path.stem not in PASSES:
        passes.setdefault(path.stem, rules_pass(path.stem, everything, f"all rules of {path.name}"))
    return passes


def _execute(path: Path) -> ModuleType:
    name = f"{EXECUTED}{path.stem}"
    spec = spec_from_loader(name, _LimitedLoader(name, os.path.realpath(path), read_limited(path, SOURCE_BYTES)))
    assert spec is not None and spec.loader is not None, "a source file has a loader"
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except HloomError:
        raise
    except SyntaxError as error:
        shown = Source((error.text or "").rstrip("\n"), str(path)).location((error.offset or 1) - 1)
        raise HloomError(error.msg, replace(shown, line=error.lineno or 1)) from None
    except Exception as error:
        raise _failure(path, error) from error
    return module


def _failure(path: Path, error: Exception) -> HloomError:
    return HloomError(f"{path.name} failed: {type(error).__name__}: {error}", location_of(error.__traceback__))


def _passes(module: ModuleType) -> Iterator[Pass]:
    yield from (value for value in vars(module).values() if isinstance(value, Pass))


def _is_from(rule: Rule, path: Path) -> bool:
    return rule.origin is not None and os.path.realpath(rule.origin.file) == os.path.realpath(path)


def _has_own(family: Family, path: Path) -> bool:
    return any(_is_from(rule, path) for rule in family)


def _first_line(rule: Rule) -> str:
    return rule.statement.strip().split("\n")[0]
