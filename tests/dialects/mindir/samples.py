"""The samples that `scripts/make_mindspore_samples.py` made with MindSpore 2.10.0, and their numbers."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hloom
from hloom import Module
from hloom.dialects import mindir

FOLDER = Path(__file__).parent / "samples"
TEXTS = sorted(path.name for path in FOLDER.glob("*.ir"))
NETS = sorted(path.stem for path in FOLDER.glob("*.npz") if not path.stem.startswith("train_"))
TRAININGS = sorted(path.stem for path in FOLDER.glob("train_*.npz"))
"""Steps of training: each run begins with the weights that the one before has left."""
NOT_LOWERED = "recursion"
"""The net whose recursion is not a tail call."""

Run = tuple[list[np.ndarray], list[np.ndarray]]


def text(name: str) -> str:
    return (FOLDER / name).read_text()


def runs(net: str, names: list[str], updates: Sequence[str] = (), folder: Path = FOLDER) -> Iterator[Run]:
    """For each run the arrays for parameters of these names, and the results that MindSpore gave, then its updates."""
    with np.load(folder / f"{net}.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    weights = {name.removeprefix("weight:"): array for name, array in arrays.items() if name.startswith("weight:")}
    number = 0
    while results := numbered(arrays, f"run_{number}_result_"):
        arguments = iter(numbered(arrays, f"run_{number}_argument_"))
        stem = f"run_{number}_updated:"
        updated = {name.removeprefix(stem): array for name, array in arrays.items() if name.startswith(stem)}
        given = [weights[name] if name in weights else next(arguments) for name in names]
        yield given, [*results, *(updated[name] for name in updates)]
        weights |= updated
        number += 1


def numbered(arrays: dict[str, np.ndarray], stem: str) -> list[np.ndarray]:
    return [arrays[f"{stem}{index}"] for index in range(len(arrays)) if f"{stem}{index}" in arrays]


def check_numbers(net: str, module: Module, folder: Path = FOLDER) -> int:
    """Compare the lowered module's results with MindSpore's, of all runs; how many arrays were compared."""
    names = [re.sub(r"^para[0-9]+_", "", parameter.name) for parameter in module.entry.parameters]
    lowered = mindir.lower(module)
    assert hloom.verify(lowered).level is hloom.Level.HLO
    count = 0
    for arguments, expected in runs(net, names, lowered.attachments.get(mindir.UPDATES, ()), folder):
        outputs = hloom.run(lowered, arguments).outputs
        results = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        assert len(results) == len(expected)
        for result, array in zip(results, expected, strict=True):
            made = np.asarray(result)
            assert (made.dtype, made.shape) == (array.dtype, array.shape)
            np.testing.assert_allclose(made.astype(np.float64), array.astype(np.float64), rtol=2e-5, atol=2e-6)
            count += 1
    return count


@dataclass(frozen=True)
class PrimitiveCase:
    """A primitive's graph as text, its arguments, and its results; none where MindSpore has no kernel for the CPU."""

    name: str
    text: str
    arguments: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]

    @property
    def primitive(self) -> str:
        return re.split(r"[_.]", self.name)[0]


def primitive_cases(folder: Path) -> list[PrimitiveCase]:
    """The cases that `scripts/make_mindspore_primitives.py` wrote, a file for each family."""
    texts = [path.read_text() for path in sorted(folder.glob("*.txt"))]
    return [_primitive_case(part) for text in texts for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]


def _primitive_case(part: str) -> PrimitiveCase:
    name, *lines = part.splitlines(keepends=True)
    arrays: dict[str, list[np.ndarray]] = {"argument": [], "result": []}
    while match := re.match(r"# (argument|result) (\w+) \[([0-9,]*)\] (\S*)", lines[0]):
        dims = [int(size) for size in match[3].split(",") if size]
        arrays[match[1]].append(np.frombuffer(base64.b64decode(match[4]), match[2]).reshape(dims))
        lines = lines[1:]
    return PrimitiveCase(name.strip(), "".join(lines), tuple(arrays["argument"]), tuple(arrays["result"]))
