"""Names of jax and jaxlib, looked up when first used: in public modules first, then in private ones.

    core = LibraryNames({"ClosedJaxpr": "hloom.jit"}, "jax.extend.core", "jax._src.core")
    core.ClosedJaxpr                    # of the first of these modules that has it

A version without a name loses the features that need it, and nothing else: the error says which, and which versions
were tested. In versions newer than these a function is also checked to take the arguments that it is called with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import FunctionType
from typing import Any

from hloom.text import HloomError

OLDEST, NEWEST = "0.8.3", "0.12.0.1"
"""The oldest and the newest jax that `make test-versions` tested (docs/versions.md)."""
_TESTED = f"hloom is tested with jax {OLDEST} to {NEWEST}"


def installed(package: str) -> str:
    """The version of a package; raises HloomError where it is missing. Imports nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        raise HloomError(f"running needs {package}", hint="pip install 'hloom[run]'") from None


def jaxlib_version() -> str:
    """The version of jaxlib; raises HloomError where it or jax is missing."""
    installed("jax")
    return installed("jaxlib")


def numbers(text: str) -> tuple[int, ...]:
    """A version's numbers, for comparing: (0, 12, 0) of "0.12.0rc1"."""
    digits = ("".join(c for c in part.partition("rc")[0] if c.isdecimal()) for part in text.split("."))
    return tuple(int(part or 0) for part in digits)


def missing(feature: str, name: str, since: str = OLDEST) -> HloomError:
    """The error where the installed jax lacks a name that a feature needs, and has had since a version."""
    found = installed("jax")
    wanted = f"jax<={NEWEST}" if numbers(found) > numbers(since) else f"jax>={since}"
    return HloomError(
        f"{feature} needs {name}, which jax {found} does not have", hint=f"{_TESTED}: pip install '{wanted}'"
    )


class LibraryNames:
    """The names of modules that mean one thing in different versions; `features` says what needs a name."""

    def __init__(self, features: Mapping[str, tuple[str, str]], *modules: str) -> None:
        self._features = features
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        feature, since = self._features.get(name) or self._features["*"]
        for place in self._modules:
            # not getattr: what modules make on demand is deprecated, and warns
            if (module := _module(place)) is not None and name in vars(module):
                found = _checked(vars(module)[name], f"{place}.{name}", feature)
                self.__dict__[name] = found
                return found
        raise missing(feature, f"{self._modules[-1]}.{name}", since)


@lru_cache
def _module(name: str) -> Any:
    """A module, or a part of an extension module, which cannot be imported by itself; None if there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        parent, _, own = name.rpartition(".")
        return getattr(_module(parent), own, None) if parent else None


def _checked(found: Any, name: str, feature: str) -> Any:
    """A function of a jax newer than tested, checked to take its arguments; anything else as it is."""
    if not isinstance(found, FunctionType) or numbers(installed("jax")) <= numbers(NEWEST):
        return found
    return _with_checked_arguments(found, name, feature)


def _with_checked_arguments(function: Callable[..., Any], name: str, feature: str) -> Callable[..., Any]:
    taken = inspect.signature(function)

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            taken.bind(*arguments, **keywords)
        except TypeError as problem:
            raise HloomError(
                f"{feature} does not work with jax {installed('jax')}: {name} has other arguments ({problem})",
                hint=f"{_TESTED}: pip install 'jax<={NEWEST}'",
            ) from problem
        return function(*arguments, **keywords)

    return call
