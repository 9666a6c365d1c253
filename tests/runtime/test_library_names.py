"""Versions of jax that lack a name, or have it otherwise: the feature that needs it is lost, and says so.

Covers `library_names.py`, and what `xla.py` and `jax_internals.py` list.
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import jax
import pytest

import hloom
from hloom.runtime import jax_internals, library_names
from hloom.runtime.jax_internals import jax_internals as internals
from hloom.runtime.library_names import NEWEST, OLDEST, LibraryNames, numbers
from hloom.text import HloomError

RUNTIME = Path(hloom.__file__).parent / "runtime"
TESTED = f"  hloom is tested with jax {OLDEST} to {NEWEST}: pip install "
FEATURES = {"*": ("running", OLDEST), "added": ("hloom.jit", "0.11.2"), "moved": ("hloom.jit", OLDEST)}


def refused(function, *arguments):
    with pytest.raises(HloomError) as raised:
        function(*arguments)
    return str(raised.value)


@pytest.fixture
def version(monkeypatch):
    """Pretends that a version of jax is installed, whose modules are `fake.public` and `fake.private`."""
    public, private = ModuleType("fake.public"), ModuleType("fake.private")
    for module in (public, private):
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def set_version(text, **names):
        monkeypatch.setattr(library_names, "version", lambda _: text)
        for name, value in names.items():
            (public if name == "public" else private).__dict__["moved"] = value
        library_names._module.cache_clear()
        return LibraryNames(FEATURES, "fake.public", "fake.private")

    yield set_version
    library_names._module.cache_clear()


def test_public_names_come_first(version):
    assert version("0.10.2", private="private").moved == "private"
    assert version("0.10.2", public="public").moved == "public"


def test_a_name_that_an_older_version_lacks(version):
    assert refused(getattr, version("0.8.3"), "added") == (
        f"hloom.jit needs fake.private.added, which jax 0.8.3 does not have\n{TESTED}'jax>=0.11.2'"
    )


def test_a_name_that_a_newer_version_dropped(version):
    names = version("99.0", private=len)
    assert names.moved([1]) == 1
    assert refused(getattr, names, "other") == (
        f"running needs fake.private.other, which jax 99.0 does not have\n{TESTED}'jax<={NEWEST}'"
    )


def test_a_function_that_takes_other_arguments_in_a_newer_version(version):
    names = version("99.0", private=lambda jaxpr, *, is_vjp: is_vjp)
    assert names.moved(1, is_vjp=True)
    assert refused(names.moved) == (
        "hloom.jit does not work with jax 99.0: fake.private.moved has other arguments (missing a required argument: "
        f"'jaxpr')\n{TESTED}'jax<={NEWEST}'"
    )


def test_errors_of_a_function_in_a_newer_version_are_its_own(version):
    def fails(_):
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own"):
        version("99.0", private=fails).moved(1)


def test_jax_is_missing(monkeypatch):
    def version(package):
        raise library_names.PackageNotFoundError(package)

    monkeypatch.setattr(library_names, "version", version)
    assert refused(library_names.installed, "jax") == "running needs jax\n  pip install 'hloom[run]'"


@pytest.mark.parametrize(
    ("text", "expected"), [("0.12.0.1", (0, 12, 0, 1)), ("0.13.0rc2", (0, 13, 0)), ("0.10.2.dev5", (0, 10, 2, 5))]
)
def test_numbers(text, expected):
    assert numbers(text) == expected


def test_jit_says_which_name_it_lacks(monkeypatch):
    jitted = hloom.jit(lambda x: x + 1.0, "simplify")
    monkeypatch.setattr(library_names, "version", lambda _: "99.0")
    monkeypatch.setitem(internals().__dict__, "mlir", LibraryNames(jax_internals._FEATURES, "fake.mlir"))
    assert refused(jitted, 1.0).startswith("what hloom does inside jax needs fake.mlir.")


def test_the_range_that_is_tested_holds_the_installed_version():
    assert numbers(OLDEST) <= numbers(jax.__version__)


@pytest.mark.skipif(numbers(jax.__version__) < numbers(OLDEST), reason="what it has is not listed")
@pytest.mark.parametrize("name", [name for name in jax_internals._FEATURES if name != "*"])
def test_versions_that_have_a_name(name):
    """A name that is listed is in a module of ours from the version on that the list says."""
    found = any(name in vars(module) for places in jax_internals._MODULES.values() for module in map(loaded, places))
    assert found == (numbers(jax.__version__) >= numbers(jax_internals._FEATURES[name][1]))


def loaded(name):
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return ModuleType(name)


def test_private_names_are_listed():
    """A name that no public module has, in the oldest version or in this one, says what needs it."""
    used = {
        found
        for file in RUNTIME.glob("*.py")
        if file.name != "xla.py"
        for found in names_used(ast.parse(file.read_text()))
    }
    assert len(used) > 50
    for space, name in used:
        public = [loaded(place) for place in jax_internals._MODULES[space] if "_src" not in place]
        if not any(name in vars(module) for module in public):
            assert name in {*jax_internals._FEATURES, *OTHERWISE}, f"{space}.{name}"


OTHERWISE = {"ir_constants", "ir_tree_registry", "discharge_state2"}
"""Asked for by version only, in `jax_internals.py`: public, or gone, in the others."""


def names_used(tree):
    """The names of jax's modules in a file: of `internals.core.X`, or `core.X` where the file calls it so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (space := space_of(node.value)) in jax_internals._MODULES:
            yield space, node.attr


def space_of(owner):
    if isinstance(owner, ast.Attribute) and ast.unparse(owner.value) in ("internals", "jax_internals()"):
        return owner.attr
    return {"pe": "partial_eval"}.get(owner.id, owner.id) if isinstance(owner, ast.Name) and owner.id in SHORT else None


SHORT = {"ad", "core", "mlir", "pe", "references"}
"""The names of variables that hold such a module."""


def test_jax_and_jaxlib_have_private_names_in_two_files():
    files = {file.name for file in RUNTIME.glob("*.py") if names_private_modules(file.read_text())}
    assert files == {"xla.py", "jax_internals.py"}


def names_private_modules(text):
    words = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    imports = [node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return any(
        isinstance(word, str)
        and word.startswith(("jax._src.", "jaxlib"))
        and " " not in word
        and len(word) > len("jaxlib")
        for word in [*words, *imports]
    )
