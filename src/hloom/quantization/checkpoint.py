"""Files of arrays by name, .npz or .safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hloom.hlo import replacing
from hloom.quantization.safetensors import load_safetensors, save_safetensors
from hloom.runtime import load_arrays, save_arrays
from hloom.text import HloomError

SUFFIXES = (".npz", ".safetensors")


def check_suffix(path: str | Path) -> None:
    """Raise HloomError unless a file's name says which format it has."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise HloomError(f"'{path}' does not end in {' or '.join(SUFFIXES)}")


def load_checkpoint(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file, by name."""
    check_suffix(path)
    return load_safetensors(path) if Path(path).suffix.lower() == ".safetensors" else load_arrays(path)


def save_checkpoint(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays into a file, whole or not at all."""
    check_suffix(path)
    if Path(path).suffix.lower() == ".safetensors":
        save_safetensors(path, arrays)
        return
    with replacing(path) as beside:
        save_arrays(beside, arrays)
