"""Packages that are called: `help` of one is its function's, and so is its signature. Covers `callable_package.py`."""

from __future__ import annotations

import inspect
import pydoc
import re
from importlib import import_module

import pytest

import hloom
from hloom.text import CallablePackage

CALLABLE = [name for name in dir(hloom) if isinstance(getattr(hloom, name), CallablePackage)]


def test_every_package_that_has_a_functions_name_is_called_as_it():
    assert CALLABLE == ["diff", "evaluate", "fit", "microbatch", "minimize", "page", "pipeline", "query", "remat"]


@pytest.mark.parametrize("name", CALLABLE)
def test_help_shows_the_function(name: str):
    package = getattr(hloom, name)
    assert package is import_module(f"hloom.{name}")
    function = package.__wrapped__
    assert inspect.signature(package) == inspect.signature(function)
    text = pydoc.plain(pydoc.render_doc(package))
    said, _, rest = text.partition("PACKAGE CONTENTS")
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"\b{parameter}: ", said), parameter
    for line in (inspect.getdoc(function) or "").splitlines():
        assert line.strip() in said
    assert not re.search(r"\w+\.(py|js)`", text), "which file to edit is for those who change hloom"
    assert not re.search(r"^(CLASSES|FUNCTIONS|DATA)$", rest, re.MULTILINE)


@pytest.mark.parametrize("name", CALLABLE)
def test_a_call_without_arguments_names_the_function(name: str):
    with pytest.raises(TypeError, match=rf"^{name}\(\) missing"):
        getattr(hloom, name)()
