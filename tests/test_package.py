"""`import hloom`: quick, without its dependencies, with every name it promises."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import hloom

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hloom"
UNUSED_BY_OPT = (
    *("rich", "jax", "hloom.dialects", "hloom.formats.mlir", "hloom.formats.protobuf", "hloom.sharding"),
    *("hloom.distribute", "hloom.runtime", "hloom.inspection.viz", "hloom.analysis.devices", "hloom.passes.hoist"),
)
"""What `hloom opt FILE -p simplify` does not import."""
MOST_MODULES = 525
"""How many modules it imports at most, those of numpy included."""
HEAVY = ("jax", "jaxlib", "numpy", "ml_dtypes", "google", "rich", "click", "rustworkx")


def in_child(code: str) -> str:
    """What a program prints that runs in a new interpreter, with this source tree first on its path."""
    prelude = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n"
    return subprocess.run(
        [sys.executable, "-I", "-c", prelude + code], check=True, capture_output=True, text=True
    ).stdout


def test_import_loads_one_module_of_ours_and_none_of_others():
    code = """
before = set(sys.modules)
import hloom
loaded = {name.partition(".")[0] for name in sys.modules.keys() - before}
print([name for name in sys.modules if name.startswith("hloom")], sorted(loaded - sys.stdlib_module_names - {"hloom"}))
"""
    assert in_child(code) == "['hloom'] []\n"


def test_import_loads_nothing_heavy():
    code = f"import hloom; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert in_child(code) == "[]\n"


def test_the_program_says_how_long_threads_of_blas_wait_before_numpy_is_imported():
    code = """
import os
from hloom.cli import main
sys.argv = ["hloom", "--version"]
try:
    main()
finally:
    print(os.environ["OPENBLAS_THREAD_TIMEOUT"], "numpy" in sys.modules, "hloom.ir" in sys.modules)
"""
    assert in_child(code).endswith("20 False False\n")


def test_reading_printing_and_drawing_do_not_import_jax():
    code = """
import hloom
module = hloom.parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
hloom.print(module), hloom.to_dot(module), hloom.to_json(module), hloom.to_graphml(module)
hloom.inspect(module), hloom.verify(module), hloom.run
print([name for name in sys.modules if name.partition(".")[0] in ("jax", "jaxlib")])
"""
    assert in_child(code) == "[]\n"


def test_constants_are_read_and_printed_without_numpy_ma():
    """np.unique, np.isin and the like import it, which takes longer than reading and printing a small module."""
    code = """
import hloom
numbers = ", ".join(f"{number % 70}.5" for number in range(600))
for dtype in ("f64", "f32", "bf16", "c64"):
    values = numbers.replace(".5,", ".5e+0,") if dtype != "c64" else ", ".join("(1.5, 2e+3)" for _ in range(600))
    for few in (values, ", ".join(values.split(", ")[:6])):
        count = few.count("(") or few.count(",") + 1
        hloom.print(hloom.parse(f"ENTRY e {{ ROOT c = {dtype}[{count}] constant({{{few}}}) }}"))
print("numpy.ma" in sys.modules)
"""
    assert in_child(code) == "False\n"


def test_a_plain_opt_imports_only_what_it_needs(tmp_path: Path):
    path = tmp_path / "three.hlo"
    path.write_text("ENTRY e { x = f32[2] parameter(0) y = f32[2] negate(x) ROOT z = f32[2] negate(y) }")
    code = f"""
import sys
from hloom.cli import main
main(["opt", {str(path)!r}, "-p", "simplify", "-o", {str(tmp_path / "out.hlo")!r}], standalone_mode=False)
print([name for name in {UNUSED_BY_OPT!r} if name in sys.modules], len(sys.modules) < {MOST_MODULES})
"""
    assert in_child(code) == "[] True\n"


@pytest.mark.parametrize("name", dir(hloom))
def test_every_name_is_there(name: str):
    assert getattr(hloom, name) is not None


def test_names_are_those_that_type_checkers_see():
    text = (ROOT / "src" / "hloom" / "__init__.py").read_text()
    seen = set(re.findall(r"^    from hloom\.[\w.]+ import (\w+) as \1$", text, re.MULTILINE))
    assert seen | {"print"} == set(dir(hloom)) - {"__version__"}


def test_names_come_from_the_packages_that_own_them():
    for name, (package, original) in hloom._OWNERS.items():
        owner = import_module(f"hloom.{package}")
        assert getattr(hloom, name) in (getattr(owner, original), owner if package == name else None)


def test_an_unknown_name():
    with pytest.raises(AttributeError, match=r"^module 'hloom' has no attribute 'frobnicate'$"):
        _ = hloom.frobnicate  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(("former", "name"), hloom._FORMER_NAMES.items())
def test_a_former_name_is_the_same_function(former: str, name: str):
    with pytest.warns(DeprecationWarning, match=f"^hloom.{former} is hloom.{name} now$") as warned:
        assert getattr(hloom, former) is getattr(hloom, name)
    assert warned[0].filename == __file__
    assert former not in dir(hloom)


def test_a_star_takes_what_dir_lists():
    taken: dict[str, object] = {}
    exec("from hloom import *", taken)
    assert taken.keys() - {"__builtins__"} == set(dir(hloom)) - {"__version__"}


@pytest.mark.parametrize("name", dir(hloom))
def test_a_public_name_says_what_it_is(name: str):
    held = getattr(hloom, name)
    assert name == "__version__" or not name.startswith("_")
    assert not callable(held) or inspect.getdoc(held)


def offered() -> list[tuple[str, str]]:
    """The names that packages offer: what their `__init__.py` imports as itself."""
    return [
        (".".join(path.parent.relative_to(SOURCE.parent).parts), alias.name)
        for path in SOURCE.rglob("__init__.py")
        for statement in ast.parse(path.read_text()).body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.name == alias.asname
    ]


def test_what_packages_offer_says_what_it_is():
    for package, name in offered():
        held = getattr(import_module(package), name)
        assert not name.startswith("_"), f"{package}.{name}"
        assert (not inspect.isroutine(held) and not inspect.isclass(held)) or inspect.getdoc(held), f"{package}.{name}"


def test_version_is_the_projects():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert hloom.__version__ == project["version"]


def test_the_package_is_typed():
    assert (ROOT / "src" / "hloom" / "py.typed").exists()
