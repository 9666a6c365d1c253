"""`hloom.print_value` inside compiled functions: the program carries a log, which is printed after the run.

Values go as 64-bit patterns into an array of fixed length, each behind the number of the call that prints it; so they
keep their order through loops, branches and recursion, and derivatives do not see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.autodiff import Emitter
from hloom.functions.values import AbstractValue, Array, Const, Fields, Ref, Tuple, Variable
from hloom.ir import TensorType, dtype

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

S64 = dtype("s64")
LENGTH = 4096
"""The maximum number of words in the log of one run; anything beyond is dropped, with a notice."""


@dataclass(frozen=True, slots=True)
class PrintSite:
    """A call that prints: its label, and what it prints: text, and arrays by type."""

    label: str
    parts: tuple[Any, ...]


class Printing:
    """What one program prints."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.sites: list[PrintSite] = []
        self.log = Variable("printed")
        self.position = Variable("printed words")

    def print(self, value: AbstractValue, label: str) -> None:
        """Write a value to the log."""
        interpreter = self.interpreter
        if not self.sites:
            self._begin()
        arrays: list[Array] = []
        template = self._template(value, arrays)
        self.sites.append(PrintSite(label, (template, *((array.dims, array.dtype, array.weak) for array in arrays))))
        emitter = interpreter.emitter
        words = [emitter.reshape(emitter.constant(len(self.sites), S64), (1,))]
        words += [self._words(array) for array in arrays]
        row = words[0] if len(words) == 1 else emitter.op("concatenate", *words, dimensions=(0,))
        assert isinstance(row.type, TensorType)
        size = row.type.dims[0]
        if size > LENGTH:
            interpreter.refuse(f"print_value takes at most {LENGTH - 1} numbers")
        position = interpreter.numbers.convert(
            interpreter.numbers.array(interpreter.store.get(self.position)).node, S64
        )
        log = interpreter.store.get(self.log)
        fits = emitter.compare("LE", position, emitter.constant(LENGTH - size, S64))
        written = emitter.op("dynamic-update-slice", log.node, row, position)
        interpreter.store.set(
            self.log, Array(emitter.op("select", emitter.broadcast(fits, (LENGTH,)), written, log.node))
        )
        interpreter.store.set(self.position, Array(emitter.add(position, emitter.constant(size, S64)), False))

    def _begin(self) -> None:
        """An empty log, bound where the program begins."""
        interpreter = self.interpreter
        first = Emitter(interpreter.module.entry)
        interpreter.store_below(self.position, Const(0))
        interpreter.store_below(self.log, Array(first.zeros(TensorType(S64, (LENGTH,)))))

    def _template(self, value: Any, arrays: list[Array]) -> Any:
        if isinstance(value, Array):
            arrays.append(value)
            return len(arrays) - 1
        if isinstance(value, Tuple):
            return value.cls, None, tuple(self._template(item, arrays) for item in value.items)
        if isinstance(value, Ref):
            fields = self.interpreter.contents(value)
            assert isinstance(fields, Fields)
            return value.cell.cls, fields.keys, tuple(self._template(item, arrays) for item in fields.items)
        return str(value.value) if isinstance(value, Const) else repr(value)

    def _words(self, array: Array) -> Any:
        """The elements as 64-bit words: floats as the bits of f64."""
        interpreter = self.interpreter
        emitter = interpreter.emitter
        node = emitter.reshape(array.node, (array.type.element_count,))
        if array.dtype.is_complex:
            interpreter.refuse("print_value takes no complex numbers", hint="print x.real and x.imag")
        if array.dtype.is_float:
            wide = interpreter.numbers.convert(node, dtype("f64"))
            return emitter.op("bitcast-convert", wide, type=TensorType(S64, (array.type.element_count,)))
        return interpreter.numbers.convert(node, S64)


def printed_lines(sites: Sequence[PrintSite], log: np.ndarray, count: int) -> Iterator[str]:
    """What a run printed, one line each."""
    words = np.asarray(log)
    position = 0
    while position < min(count, LENGTH):
        number = int(words[position])
        if not 0 < number <= len(sites):
            break
        site = sites[number - 1]
        position += 1
        values: list[Any] = []
        template, *types = site.parts
        for dims, element, weak in types:
            size = int(np.prod(dims, dtype=np.int64))
            piece = words[position : position + size]
            position += size
            if element.is_float:
                piece = piece.view(np.float64)
            made = piece.astype(element.numpy).reshape(dims)
            values.append(made.item() if weak else made[()] if not dims else made)
        text = _shown(template, values)
        yield f"{site.label}: {text}" if site.label else text
    if count > LENGTH:
        yield "... and more, which the log does not hold"


def _shown(template: Any, values: Sequence[Any]) -> str:
    return str(_filled(template, values))


def _filled(template: Any, values: Sequence[Any]) -> Any:
    if isinstance(template, int):
        return values[template]
    if isinstance(template, tuple):
        cls, keys, parts = template
        made = [_filled(part, values) for part in parts]
        if cls is dict:
            return dict(zip(keys, made, strict=True))
        return made if cls is list else tuple(made)
    return template
