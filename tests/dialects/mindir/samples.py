"""The samples that `scripts/make_mindspore_samples.py` made with MindSpore 2.10.0."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "samples"
TEXTS = sorted(path.name for path in FOLDER.glob("*.ir"))
NETS = sorted(path.stem for path in FOLDER.glob("*.npz"))


def text(name: str) -> str:
    return (FOLDER / name).read_text()


def arrays(net: str) -> dict[str, np.ndarray]:
    """Arguments, weights and results of a net, by their names."""
    with np.load(FOLDER / f"{net}.npz") as archive:
        return {name: archive[name] for name in archive.files}
