"""Packages that are called like the function of their name: `hloom.page(module, "page.html")`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package that is called as a function."""

    _function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    # pydoc lists all special names that a module itself holds; these are of its class, so that it does not

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, whose signature `inspect.signature` then gives."""
        return self._function

    @property
    def __all__(self) -> list[str]:
        """What `help` lists below the docstring: nothing of what is there for other packages."""
        return []


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Let a package be called as its function, and `help` of it show the function's signature and docstring.

    `import hloom.page` puts the package where users find the function: without this, only one of them could be there.
    The docstring in the package's file is for those who change the package.
    """
    module = sys.modules[package]
    module.__class__ = CallablePackage
    vars(module).update(_function=function, __doc__=_help_text(package, function))


def _help_text(package: str, function: Callable[..., Any]) -> str:
    """The first sentence of a function's docstring, a call with all parameters, and the rest of the docstring.

    >>> def page(module: str, path: str = "page.html") -> None:
    ...     '''Write a page.
    ...
    ...     It opens offline.
    ...     '''
    >>> print(_help_text("hloom.page", page))
    Write a page.
    <BLANKLINE>
    hloom.page(
        module: str,
        path: str = 'page.html',
    ) -> None
    <BLANKLINE>
    It opens offline.
    """
    summary, _, rest = (inspect.getdoc(function) or "").partition("\n\n")
    signature = inspect.signature(function)
    lines = [f"{package}("]
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    bare_star = inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and bare_star:
            lines.append("    *,")
            bare_star = False
        lines.append(f"    {_parameter_text(parameter)},")
    lines.append(f") -> {_annotation_text(signature.return_annotation)}")
    return "\n\n".join(filter(None, (summary, "\n".join(lines), rest)))


def _parameter_text(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}: {_annotation_text(parameter.annotation)}{default}"


def _annotation_text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
