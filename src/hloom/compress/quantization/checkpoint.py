"""Files of arrays by name, .npz or .safetensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from hloom.compress.quantization.parameter_names import ParameterNames
from hloom.compress.quantization.safetensors import load_safetensors, save_safetensors
from hloom.formats.hlo import replacing
from hloom.ir import Module, TensorType
from hloom.runtime import StoredArray, open_arrays, save_arrays
from hloom.text import HloomError

SUFFIXES = (".npz", ".safetensors")


def check_suffix(path: str | Path) -> None:
    """Raise HloomError unless a file's suffix selects a format."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise HloomError(f"'{path}' does not end in {' or '.join(SUFFIXES)}")


def load_checkpoint(path: str | Path, program: Module | None = None) -> dict[str, np.ndarray]:
    """The arrays of a file, by name.

    Raises HloomError, before reading it, for an array named after a program's parameter (or at its position) with more
    elements than the parameter, since an archive of a few bytes may expand to gigabytes.
    """
    check_suffix(path)
    if Path(path).suffix.lower() == ".safetensors":  # which is not packed
        return load_safetensors(path)
    stored = open_arrays(path)
    if program is not None:
        _check_sizes(stored, program)
    return {name: np.asarray(array) for name, array in stored.items()}


def _check_sizes(stored: Mapping[str, StoredArray], program: Module) -> None:
    parameters = program.entry.parameters
    is_listed = all(name == f"arr_{number}" for number, name in enumerate(stored))
    names = ParameterNames(parameters)
    for number, (name, array) in enumerate(stored.items()):
        parameter = None
        if is_listed:
            parameter = parameters[number] if number < len(parameters) else None
        else:
            with suppress(HloomError):  # several parameters share the name: callers that need it report that
                parameter = names.get(name)
        taken = None if parameter is None else parameter.type
        if isinstance(taken, TensorType) and taken.is_static and math.prod(array.shape) > taken.element_count:
            described = f"{array.dtype}{list(array.shape)}"
            raise HloomError(f"{array.path}: array {name} is {described}, the program takes {taken}")


def save_checkpoint(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays into a file, whole or not at all."""
    check_suffix(path)
    if Path(path).suffix.lower() == ".safetensors":
        save_safetensors(path, arrays)
        return
    with replacing(path) as beside:
        save_arrays(beside, arrays)
