"""A user's own passes: a Python file that is executed, and what it offers by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from hloom.passes import PASSES, Pass, rules_pass
from hloom.rewrite import Family, Rule
from hloom.runtime.change import place_of
from hloom.text import HloomError, Place


def load_passes(path: Path) -> dict[str, Pass]:
    """Execute a Python file; its rules, families and passes by name, and all its rules under the file's own name.

    What the file offers with `hloom.passes.offer` is in PASSES. Raises HloomError, with the place, where the file
    fails or a name is taken.
    """
    module, found = _execute(path), {}
    rules = [each for each in vars(module).values() if isinstance(each, Rule) and _is_from(each, path)]
    families = [each for each in vars(module).values() if isinstance(each, Family) and _has_own(each, path)]
    everything = [*dict.fromkeys([*rules, *(rule for family in families for rule in family)])]
    named = [*_passes(module), *(rules_pass(each.name, each, f"the rules of {path.name} on it") for each in families)]
    named += [rules_pass(each.name, [each], _first_line(each)) for each in everything]
    for each in named:
        if each.name in PASSES and PASSES[each.name] is not each:
            raise HloomError(f"{path}: there is a pass named '{each.name}' already")
        found.setdefault(each.name, each)
    if everything and path.stem not in PASSES:
        found.setdefault(path.stem, rules_pass(path.stem, everything, f"all rules of {path.name}"))
    return found


def _execute(path: Path) -> ModuleType:
    name = f"hloom_own_passes_{path.stem}"
    spec = spec_from_loader(name, SourceFileLoader(name, str(path.resolve())))
    assert spec is not None and spec.loader is not None, "a source file has a loader"
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except HloomError:
        raise
    except OSError as error:
        if error.filename != str(path.resolve()):
            raise _failure(path, error) from error
        raise HloomError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except SyntaxError as error:
        column = error.offset or 1
        place = Place(str(path), error.lineno or 1, column, (error.text or "").rstrip("\n"), column - 1)
        raise HloomError(error.msg, place) from None
    except Exception as error:
        raise _failure(path, error) from error
    return module


def _failure(path: Path, error: Exception) -> HloomError:
    return HloomError(f"{path.name} failed: {type(error).__name__}: {error}", place_of(error.__traceback__))


def _passes(module: ModuleType) -> Iterator[Pass]:
    yield from (each for each in vars(module).values() if isinstance(each, Pass))


def _is_from(rule: Rule, path: Path) -> bool:
    return rule.origin is not None and Path(rule.origin.file).resolve() == path.resolve()


def _has_own(family: Family, path: Path) -> bool:
    return any(_is_from(rule, path) for rule in family)


def _first_line(rule: Rule) -> str:
    return rule.statement.strip().split("\n")[0]
