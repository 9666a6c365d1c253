"""MindSpore 2.10.0 itself: its graphs of today are read, printed back byte for byte, and lowered to its numbers.

The interpreter of an environment with MindSpore is HLOOM_MINDSPORE_PYTHON, or /tmp/mindspore-venv/bin/python; see
`scripts/make_mindspore_samples.py` for how to make one.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import hloom
from hloom.dialects import mindir
from tests.dialects.mindir.samples import NETS, NOT_LOWERED, TRAININGS, check_numbers, primitive_cases
from tests.dialects.mindir.test_primitives import CASES, check, with_numpy

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "make_mindspore_samples.py"
VENV = "/tmp/mindspore-venv"
HOW = (
    f"no MindSpore: make an environment with `python3.11 -m venv {VENV} && {VENV}/bin/pip install 'mindspore==2.10.0' "
    "'numpy<2'`, or name its interpreter in HLOOM_MINDSPORE_PYTHON"
)


def made_by_mindspore(script: Path, folder: Path) -> Path:
    """A folder with what MindSpore makes now; skips where there is no MindSpore."""
    python = Path(os.environ.get("HLOOM_MINDSPORE_PYTHON", f"{VENV}/bin/python"))
    if not python.exists():
        pytest.skip(HOW)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MS_DEV_SAVE_GRAPHS")
    }
    version = subprocess.run([python, "-c", "import mindspore"], capture_output=True, text=True, env=environment)
    if version.returncode:
        pytest.skip(f"{python} has none. {HOW}")
    done = subprocess.run(
        [python, str(script), str(folder)], capture_output=True, text=True, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What MindSpore makes of all nets now."""
    return made_by_mindspore(SCRIPT, tmp_path_factory.mktemp("mindspore"))


def test_todays_primitives_yield_mindspores_numbers(tmp_path):
    made_by_mindspore(SCRIPT.with_name("make_mindspore_primitives.py"), tmp_path)
    cases = primitive_cases(tmp_path / "primitives")
    assert len(cases) >= len(CASES)
    for case in cases:
        check(case, with_numpy)


@pytest.mark.parametrize("net", NETS)
def test_todays_graphs_read_print_back_and_yield_mindspores_numbers(folder, net):
    paths = [*folder.glob(f"{net}.*.ir")]
    assert paths
    for path in paths:
        module = hloom.load(path)
        assert mindir.to_text(module) == path.read_text()
        if net != NOT_LOWERED:
            assert check_numbers(net, module, folder) > 0
    model = hloom.load(folder / f"{net}.mindir")
    hloom.verify(model)
    if net != NOT_LOWERED:
        assert check_numbers(net, model, folder) > 0


@pytest.mark.parametrize("net", TRAININGS)
def test_todays_steps_of_training_yield_mindspores_weights(folder, net):
    path = folder / f"{net}.validate.ir"
    module = hloom.load(path)
    assert mindir.to_text(module) == path.read_text()
    assert check_numbers(net, module, folder) > 0
