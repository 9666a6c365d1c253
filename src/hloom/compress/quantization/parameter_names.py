"""The names of an entry parameter: HLO's, its number, and the path in JAX's pytree."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from hloom.analysis import pytree_path
from hloom.ir import Node, Parameter, TensorType
from hloom.text import HloomError, names_meant, near_names

_MOST_CHARACTERS = 1000
"""Names longer than this contain no keys."""
_WRITTEN_KEY = re.compile(r"__(?P<key>.+?)__(?=_|$)|_(?P<index>\d+)_(?=_|$)")


def path_of(parameter: Node) -> tuple[str, ...]:
    """Its keys from the argument on: ('params', 'layers', '0', 'w'); only the name if JAX gives none.

    Without metadata the name has them, JAX's params['layers'][0]['w'] as params__layers___0___w__.
    """
    op_name = parameter.metadata.op_name if parameter.metadata is not None else None
    return pytree_path(op_name) if op_name else _path_in_name(parameter.name)


def _path_in_name(name: str) -> tuple[str, ...]:
    written = re.sub(r"\.\d+$", "", name[: _MOST_CHARACTERS + 1])
    first = _WRITTEN_KEY.search(written, 1)
    if first is None or not written.endswith("_") or len(name) > _MOST_CHARACTERS:
        return pytree_path(name)
    keys, end = [written[: first.start()]], first.start()
    while end < len(written):
        step = _WRITTEN_KEY.match(written, end)
        if step is None:
            return pytree_path(name)
        keys.append(step["key"] or step["index"])
        end = step.end()
    return tuple(keys)


def names_of(parameter: Parameter) -> dict[str, None]:
    """The names by which it may be called, the most exact first."""
    op_name = parameter.metadata.op_name if parameter.metadata is not None else None
    path = path_of(parameter)
    names = [parameter.name, *([op_name] if op_name else []), str(parameter.number)]
    for keys in (path, path[1:]):
        if keys:
            names += [".".join(keys), "/".join(keys)]
    return dict.fromkeys(names)


class ParameterNames:
    """Parameters by any of their names."""

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        self._by_name: dict[str, list[Parameter]] = {}
        self._by_number = {parameter.number: parameter for parameter in parameters}
        for parameter in self._by_number.values():
            for name in names_of(parameter):
                self._by_name.setdefault(name, []).append(parameter)

    def get(self, name: str | int) -> Parameter | None:
        """The parameter of a name or number, or None; raises HloomError where several have the name."""
        key = str(name).removeprefix("%")
        candidates = self._by_name.get(key) or [
            parameter for meant in names_meant(key, self._by_name) for parameter in self._by_name[meant]
        ]
        candidates = list(dict.fromkeys(candidates))
        exact = [parameter for parameter in candidates if parameter.name == key]
        if len(exact or candidates) > 1:
            called = ", ".join(parameter.name for parameter in candidates)
            raise HloomError(f"'{name}' may be any of the parameters {called}", hint="give one of these names")
        return (exact or candidates or [None])[0]

    def __getitem__(self, name: str | int) -> Parameter:
        """The parameter with this name or number; raises HloomError, with similar names, if there is none."""
        parameter = self.get(name)
        if parameter is None:
            raise HloomError(f"the program has no parameter '{name}'", hint=near_names(str(name), self._by_name))
        return parameter

    def keys(
        self, arrays: Iterable[str], numbers: Collection[int], needed: Iterable[int] | None = None
    ) -> dict[int, str]:
        """By number the keys of the arrays for the parameters of some numbers.

        Raises HloomError where one is named twice, or a `needed` one (by default all) is missing.
        """
        keys: dict[int, str] = {}
        for key in arrays:
            parameter = self.get(key)
            if parameter is None or parameter.number not in numbers:
                continue
            if parameter.number in keys:
                raise HloomError(f"'{keys[parameter.number]}' and '{key}' both name the parameter {parameter.name}")
            keys[parameter.number] = key
        missing = [self._by_number[n].name for n in (numbers if needed is None else needed) if n not in keys]
        if missing:
            raise HloomError(
                f"there is no array for {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}",
                hint=near_names(missing[0], arrays) or "arrays are named as parameters are, or by their paths",
            )
        return keys

    def all(self, names: Sequence[str | int]) -> list[Parameter]:
        """The parameters of some names."""
        return [self[name] for name in names]


def checked_array(name: str, type_: TensorType, array: Any) -> np.ndarray:
    """A parameter's array; raises HloomError if it has another shape or type."""
    values = np.asarray(array)
    if values.shape != type_.dims or values.dtype != type_.dtype.numpy:
        raise HloomError(f"{name} is {values.dtype}[{','.join(map(str, values.shape))}], the program takes {type_}")
    return values
