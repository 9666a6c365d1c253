"""A package whose names are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = '''"""A package."""

from typing import TYPE_CHECKING

from hloom.text import imports_names_lazily

if TYPE_CHECKING or not imports_names_lazily(__name__):
    from lazy.count import ONE as ONE
    from lazy.price import price as price
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "lazy"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "count.py").write_text("ONE = 1\n")
    (package / "price.py").write_text("def price(): return 2\n")
    return tmp_path


def run(folder: Path, code: str) -> str:
    source = Path(__file__).resolve().parents[2] / "src"
    prelude = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(source)!r}]\nimport lazy\n"
    command = [sys.executable, "-I", "-c", prelude + code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_file_is_imported_when_its_name_is_used(folder: Path):
    loaded = "print(sorted(name for name in sys.modules if name.startswith('lazy.')))"
    assert run(folder, loaded) == "[]"
    assert run(folder, f"from lazy import ONE\n{loaded}") == "['lazy.count']"


def test_a_name_goes_before_the_file_of_that_name(folder: Path):
    assert run(folder, "import lazy.price\nprint(lazy.price())") == "2"


def test_every_name_is_listed(folder: Path):
    assert run(folder, "print({'ONE', 'price'} <= set(dir(lazy)))") == "True"


def test_an_unknown_name(folder: Path):
    code = "try: lazy.two\nexcept AttributeError as error: print(error)"
    assert run(folder, code) == "module 'lazy' has no attribute 'two'"


def test_a_package_without_its_source_imports_everything(folder: Path):
    compiled = "import compileall, pathlib; compileall.compile_dir(sys.path[0], legacy=True, quiet=1)"
    run(folder, compiled)
    for path in folder.rglob("*.py"):
        path.unlink()
    assert run(folder, "print('lazy.count' in sys.modules, lazy.ONE, lazy.price())") == "True 1 2"
