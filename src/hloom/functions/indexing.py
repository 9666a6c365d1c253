"""`x[i]`, `x[i] = v` and `del x[i]`: of arrays with NumPy's rules and checked bounds, and of containers."""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.builtin_functions import missing_item
from hloom.functions.container_classes import is_container, is_list, is_mapping, is_sequence, plain_class
from hloom.functions.overlaps import OVERWRITES, as_it_goes, shares_elements
from hloom.functions.values import (
    PREDICATE,
    S32,
    AbstractValue,
    Array,
    Const,
    Fields,
    Method,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    described,
    index_parts,
    is_moving,
    is_none,
    is_slice,
)
from hloom.functions.windows import window_of

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


class _Whole(AbstractValue):
    """An array of the owner's shape, of which only the elements at the index are assigned."""

    __slots__ = ("value",)

    def __init__(self, value: AbstractValue) -> None:
        self.value = value


def _has_elements(value: AbstractValue) -> bool:
    """Whether a value is an array, or a sequence that becomes one, and no single number."""
    return isinstance(value, (Tuple, Ref)) or (isinstance(value, Array) and bool(value.dims))


class Indexing:
    """The indexing of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def get(self, owner: AbstractValue, index: AbstractValue, *, is_checked: bool = True) -> AbstractValue:
        """`owner[index]`"""
        interpreter = self.interpreter
        if isinstance(owner, ValueChoice):
            return interpreter.control.choices(owner, lambda value: self.get(value, index))
        if isinstance(index, ValueChoice):
            return interpreter.control.choices(index, lambda value: self.get(owner, value))
        owner, index = interpreter.current(owner), interpreter.current(index)
        if isinstance(owner, Array):
            return self._of_array(owner, index, is_checked)
        if isinstance(owner, Method) and owner.name == "at":
            return Method(Tuple((owner.owner, index)), "at[]")
        if isinstance(owner, Tuple):
            return self._of_sequence(owner, owner.items, index)
        if isinstance(owner, Ref):
            if is_mapping(owner.cell.cls):
                if isinstance(index, Array) and not index.dims and index.literal is None:
                    return self._of_mapping(owner, index)
                key = interpreter.static(index, "the key of a dict")
                held = interpreter.contents(owner).get(key)
                return missing_item(interpreter, owner, key) if held is None else held
            if is_sequence(owner.cell.cls):
                return self._of_sequence(owner, interpreter.contents(owner).items, index)
            method = interpreter.members.class_attribute(owner, "__getitem__")
            if method is not None:
                return interpreter.calls.call(method, [index], {})
        if isinstance(owner, Const):
            if not hasattr(type(owner.value), "__getitem__"):
                interpreter.raise_error(TypeError, f"{described(owner)} is not subscriptable")
            key = self._plain(index)
            with interpreter.errors_raised():
                return interpreter.embed(owner.value[key])
        if isinstance(owner, Series) and owner.rule != "range":
            name = interpreter.classes.class_of(owner).__name__
            interpreter.raise_error(TypeError, f"'{name}' object is not subscriptable")
        if isinstance(owner, Series):
            if owner.rule == "range" and not (is_slice(index)):
                return interpreter.members.item(owner, self._in_bounds(index, interpreter.members.length(owner)))
            if owner.rule == "range" and all(isinstance(part, Const) for part in owner.parts):
                chosen = range(*(part.value for part in owner.parts))[self._plain(index)]  # type: ignore[attr-defined]
                return Series("range", (Const(chosen.start), Const(chosen.stop), Const(chosen.step)))
            return self._of_sequence(owner, tuple(interpreter.iterators.items(owner)), index)
        interpreter.raise_error(TypeError, f"{described(owner)} is not subscriptable")

    def _plain(self, index: AbstractValue) -> Any:
        if is_slice(index):
            return slice(*(self.interpreter.static(part, "a bound of a slice") for part in index.items))
        return self.interpreter.static(index, "an index")

    def _in_bounds(self, index: AbstractValue, length: int | Array) -> AbstractValue:
        """A number of the run as an index from the start, checked."""
        interpreter = self.interpreter
        operators, emitter = interpreter.operators, interpreter.emitter
        size: AbstractValue = length if isinstance(length, Array) else Const(length)
        if isinstance(index, Array):
            if index.dims or not (index.dtype.is_integer or index.dtype is PREDICATE):
                interpreter.raise_error(TypeError, f"an index must be an integer or a slice, not {described(index)}")
            index = Array(interpreter.numbers.convert(index.node, interpreter.numbers.of_python[int]), True)
        if isinstance(index, Const):
            operator.index(index.value)
        if isinstance(index, Const) and isinstance(size, Const):
            number = operator.index(index.value)
            if not -size.value <= number < size.value:
                interpreter.raise_error(IndexError, "index out of range")
            return Const(number % size.value)
        below = operators.compare("<", index, size)
        above = operators.compare(">=", index, operators.unary("-", size))
        interpreter.check(
            emitter.elementwise("and", interpreter.numbers.array(below).node, interpreter.numbers.array(above).node),
            IndexError,
            "index out of range",
        )
        made = interpreter.numbers.array(index)
        wrapped = interpreter.numbers.array(operators.binary("+", index, size))
        negative = emitter.compare("LT", made.node, emitter.like(0, made.node))
        return Array(emitter.select(negative, interpreter.numbers.convert(wrapped.node, made.dtype), made.node), True)

    def _of_sequence(self, owner: AbstractValue, items: Sequence[AbstractValue], index: AbstractValue) -> AbstractValue:
        interpreter = self.interpreter
        if is_slice(index):
            if isinstance(owner, Ref) and plain_class(owner.cell.cls) is deque:
                interpreter.raise_error(TypeError, "sequence index must be integer, not 'slice'")
            chosen = items[self._plain(index)]
            return Tuple(tuple(chosen)) if isinstance(owner, Tuple) else interpreter.new_list(chosen)
        number = index
        if isinstance(number, Array) and number.literal is not None and not number.dims:
            number = Const(number.literal.item())
        if isinstance(number, Const):
            with interpreter.errors_raised():
                return items[operator.index(number.value)]
        if not isinstance(number, Array) or number.dims or number.dtype.is_float:
            interpreter.raise_error(TypeError, f"indices must be integers or slices, not {described(index)}")
        if not items:
            interpreter.raise_error(IndexError, "index out of range")
        position = self._in_bounds(number, len(items))
        assert isinstance(position, Array)
        tag = interpreter.numbers.convert(position.node, S32)
        if len(items) == 1:
            return items[0]
        return interpreter.control.switch(tag, [lambda item=item: item for item in items])

    def _of_mapping(self, owner: Ref, index: Array) -> AbstractValue:
        """The item of a dict under a number that only the run knows; KeyError where no key equals it."""
        interpreter = self.interpreter
        emitter = interpreter.emitter
        if plain_class(owner.cell.cls) not in (dict, OrderedDict):
            interpreter.static(index, f"the key of a {plain_class(owner.cell.cls).__name__}")
        fields = interpreter.contents(owner)
        rows = [(key, item) for key, item in fields.pairs
                if isinstance(key, (bool, int, float, np.number))]  # fmt: skip
        tag, is_there = emitter.constant(0, S32), emitter.constant(False, PREDICATE)
        for number, (key, _) in enumerate(rows):
            is_equal = interpreter.numbers.compare("==", index, Const(key))
            assert isinstance(is_equal, Array)
            tag = emitter.select(is_equal.node, emitter.constant(number, S32), tag)
            is_there = emitter.elementwise("or", is_there, is_equal.node)
        interpreter.check(is_there, KeyError, "no key of the dict equals the number")
        if not rows:
            interpreter.raise_error(KeyError, "the dict has no key that is a number")
        return interpreter.control.switch(tag, [lambda item=item: item for _, item in rows])

    # Arrays

    def _of_array(self, owner: Array, index: AbstractValue, is_checked: bool) -> AbstractValue:
        interpreter = self.interpreter
        if owner.weak or not owner.dims:
            if isinstance(index, Tuple) and not index.items and index.cls is tuple:
                return owner
            parts = index_parts(index)
            known = [part.value for part in parts if isinstance(part, Const)]
            if not owner.weak and len(known) == len(parts) and all(part in (None, Ellipsis) for part in known):
                return interpreter.library.subscript(owner, known)
            interpreter.raise_error(
                TypeError if owner.weak else IndexError,
                f"{described(owner)} is not subscriptable: it has no dimensions",
            )
        window = window_of(interpreter, owner, index) if self._has_moving_bounds(index) else None
        if window is not None:
            return self._of_array(window.part, window.index, is_checked)
        parts = self.parts(owner, index)
        if is_checked:
            self._check(owner, parts)
        if any(isinstance(part, Array) and part.dtype is PREDICATE and part.literal is None for part in parts):
            interpreter.refuse(
                "the shape would depend on data: how many elements a mask selects only the run knows",
                hint="use numpy.where(mask, x, 0), or assign through the mask",
            )
        if owner.identity is not owner:  # of a view that was changed since, no more than what is needed is read
            owner, parts = interpreter.views.outermost(owner, parts)
        return interpreter.views.indexed(interpreter.library.subscript(owner, parts), owner, parts)

    def parts(self, owner: Array, index: AbstractValue) -> list[Any]:
        """The parts of an index: Python objects, and arrays that the run knows."""
        interpreter = self.interpreter
        parts: list[Any] = []
        for part in index_parts(index):
            if is_list(part):
                part = interpreter.library.as_array(part)
            if isinstance(part, Tuple) and part.cls is not slice:
                part = interpreter.library.as_array(part)
            if isinstance(part, Array):
                if part.dtype.is_float or part.dtype.is_complex:
                    interpreter.raise_error(IndexError, "arrays used as indices must be of integer (or boolean) type")
                known = part.literal
                if known is not None and not known.shape and not part.identity.is_boxed:
                    parts.append(known.item())
                else:
                    parts.append(part if known is None else known)
            elif isinstance(part, Tuple):
                parts.append(self._slice(owner, part))
            elif isinstance(part, Const) and (
                part.value is None or part.value is Ellipsis or isinstance(part.value, (int, np.integer, bool, slice))
            ):
                parts.append(part.value)
            else:
                interpreter.raise_error(
                    IndexError, f"only integers, slices, None, ... and arrays index an array, not {described(part)}"
                )
        return parts

    def _slice(self, owner: Array, part: Tuple) -> slice:
        bounds: list[Any] = []
        for bound in part.items:
            if is_moving(bound):
                self.interpreter.refuse(
                    "the bounds of a slice must be known when the program is compiled: its length is part of the type",
                    hint="jax.lax.dynamic_slice takes a start that only the run knows",
                )
            bounds.append(self.interpreter.static(bound, "a bound of a slice"))
        if bounds[2] == 0:
            self.interpreter.raise_error(ValueError, "slice step cannot be zero")
        return slice(*bounds)

    def _check(self, owner: Array, parts: Sequence[Any]) -> None:
        """Check that each number is within its dimension."""
        interpreter = self.interpreter
        emitter = interpreter.emitter
        taken = sum(
            part.type.rank if isinstance(part, Array) and part.dtype is PREDICATE else
            np.ndim(part) if isinstance(part, np.ndarray) and part.dtype == bool else 1
            for part in parts if part is not None and part is not Ellipsis
        )  # fmt: skip
        if taken > owner.type.rank:
            interpreter.raise_error(
                IndexError, f"too many indices for array: it has {owner.type.rank} dimensions, but {taken} were indexed"
            )
        axis = 0
        for part in parts:
            if part is None:
                continue
            if part is Ellipsis:
                axis += owner.type.rank - taken
                continue
            if isinstance(part, Array) and part.dtype is PREDICATE:
                axis += part.type.rank
                continue
            size = owner.dims[axis]
            message = f"index is out of bounds for axis {axis} with size {size}"
            if isinstance(part, Array):
                node = part.node
                low, high = emitter.like(-size, node), emitter.like(size, node)
                if part.dtype.name.startswith("u"):
                    low = emitter.like(0, node)
                if np.iinfo(part.dtype.numpy).max < size:
                    continue
                inside = emitter.elementwise("and", emitter.compare("GE", node, low), emitter.compare("LT", node, high))
                if part.dims:
                    made = interpreter.numbers.array(interpreter.library.call(np.all, [Array(inside)], {}))
                    inside = made.node
                interpreter.check(inside, IndexError, message)
            elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
                if not -size <= part < size:
                    interpreter.raise_error(
                        IndexError, f"index {part} is out of bounds for axis {axis} with size {size}"
                    )
            elif isinstance(part, np.ndarray) and part.dtype != bool and part.size:
                is_inside = -size <= part.min() and part.max() < size
                if not is_inside:
                    interpreter.raise_error(IndexError, message)
            axis += 1

    def set(self, owner: AbstractValue, index: AbstractValue, value: AbstractValue) -> None:
        """`owner[index] = value`"""
        interpreter = self.interpreter
        owner, index, value = (interpreter.current(given) for given in (owner, index, value))
        if isinstance(owner, Array):
            self._set_array(owner, index, value)
            return
        if isinstance(owner, Ref):
            if is_mapping(owner.cell.cls):
                key = interpreter.static(index, "the key of a dict")
                interpreter.change(owner, interpreter.contents(owner).changed(key, value))
                return
            if is_sequence(owner.cell.cls):
                self._set_list(owner, index, value)
                return
            method = interpreter.members.class_attribute(owner, "__setitem__")
            if method is not None:
                interpreter.calls.call(method, [index, value], {})
                return
        interpreter.raise_error(TypeError, f"{described(owner)} does not support item assignment")

    def _set_list(self, owner: Ref, index: AbstractValue, value: AbstractValue) -> None:
        interpreter = self.interpreter
        items = list(interpreter.contents(owner).items)
        if is_slice(index):
            items[self._plain(index)] = list(interpreter.iterators.items(value))
        elif isinstance(index, Const):
            with interpreter.errors_raised():
                items[operator.index(index.value)] = value
        else:
            position = self._in_bounds(index, len(items))
            if isinstance(position, Const):
                items[position.value] = value
            else:
                for number, item in enumerate(items):
                    truth = interpreter.operators.truth(interpreter.operators.compare("==", position, Const(number)))
                    assert not isinstance(truth, bool)
                    items[number] = interpreter.control.choose(truth, lambda: value, lambda item=item: item)
        interpreter.change(owner, Fields(None, tuple(items)))

    def _set_array(self, owner: Array, index: AbstractValue, value: AbstractValue) -> None:
        interpreter = self.interpreter
        if owner.weak:
            interpreter.raise_error(TypeError, f"{described(owner)} does not support item assignment")
        interpreter.views.check_changeable(owner, "the elements of this array cannot be assigned")
        if self._has_moving_bounds(index):
            has_elements = _has_elements(value)
            window = window_of(interpreter, owner, index) if has_elements else None
            if window is None:
                self._set_within(owner, index, value)
            else:
                self._set_array(window.part, window.index, value)
            return
        parts = self.parts(owner, index)
        self._check(owner, parts)
        masks = [part for part in parts if isinstance(part, Array) and part.dtype is PREDICATE]
        if masks:
            if len(parts) > 1:
                interpreter.refuse("a mask next to other indices cannot be assigned through", hint="use numpy.where")
            self._set_masked(owner, masks[0], value)
            return
        if shares_elements(interpreter, owner, value):
            part = self._part_assigned(owner, index, parts, value)
            if part is None:
                return
            value = part
        given = self._given(owner, value)
        target, parts = interpreter.views.outermost(owner, parts)
        interpreter.change_array(target, interpreter.library.update(target, parts, given))

    def _part_assigned(
        self, owner: Array, index: AbstractValue, parts: Sequence[Any], value: AbstractValue
    ) -> AbstractValue | None:
        """What is assigned where some of it may be elements of the array itself; None where it has been assigned."""
        interpreter = self.interpreter
        if any(isinstance(part, np.ndarray) and part.dtype == bool and part.shape == owner.dims for part in parts):
            interpreter.refuse(OVERWRITES, hint="copy() the right side first")
        target = self.get(owner, index, is_checked=False)
        if not isinstance(target, Array) or target.identity.view is None:
            return value
        if isinstance(value, Array):
            return as_it_goes(interpreter, target, value)
        if interpreter.library.as_array(value).dims != target.dims:
            return value
        for number, item in enumerate(list(interpreter.iterators.items(value))):  # NumPy assigns one after the other
            self.set(target, Const(number), item)
        return None

    def _given(self, owner: Array, value: AbstractValue) -> Array:
        """The assigned value, converted to the array's type."""
        interpreter = self.interpreter
        given = interpreter.numbers.array(
            value if isinstance(value, (Array, Const)) else interpreter.library.as_array(value)
        )
        if given.dtype.is_complex and not owner.dtype.is_complex:
            interpreter.raise_error(TypeError, "a complex number cannot be assigned to an element of a real array")
        return Array(interpreter.numbers.convert(given.node, owner.dtype))

    def augment(self, owner: Array, index: AbstractValue, symbol: str, operand: Callable[[], AbstractValue]) -> None:
        """`owner[index] op= operand`: elements and copies are read before the operand is computed, views after it."""
        is_moving = self._has_moving_bounds(index)
        if is_moving or (isinstance(index, Array) and index.dtype is PREDICATE and index.literal is None):
            before = owner if is_moving else Array(owner.node)
            right = operand()
            if is_moving and _has_elements(right):
                self._augment_part(owner, index, self.get(owner, index), symbol, right)
                return
            self.set(owner, index, _Whole(self.interpreter.operators.binary(symbol, before, right)))
            return
        left = self.get(owner, index)
        self._augment_part(owner, index, left, symbol, operand())

    def _augment_part(
        self, owner: Array, index: AbstractValue, left: AbstractValue, symbol: str, right: AbstractValue
    ) -> None:
        operators = self.interpreter.operators
        if isinstance(left, Array) and left.identity.view is not None:
            operators.augmented(symbol, left, right)
            return
        self.set(owner, index, operators.binary(symbol, left, right))

    def _has_moving_bounds(self, index: AbstractValue) -> bool:
        parts = index_parts(index)
        return any(
            is_slice(part)
            and any(is_moving(bound) for bound in part.items)
            for part in parts
        )  # fmt: skip

    def _set_masked(self, owner: Array, mask: Array, value: AbstractValue) -> None:
        """Assign where a mask holds: one number, or what a whole array of the owner's shape has there."""
        interpreter = self.interpreter
        whole = value.value if isinstance(value, _Whole) else None
        if whole is None:
            whole = value if isinstance(value, (Array, Const)) else interpreter.library.as_array(value)
            if isinstance(whole, Array) and whole.dims:
                interpreter.refuse(
                    "how many elements a mask selects only the run knows: assign one number, or use numpy.where"
                )
        if mask.dims != owner.dims[: mask.type.rank]:
            interpreter.raise_error(
                IndexError, f"a mask of shape {mask.dims} does not fit an array of shape {owner.dims}"
            )
        spread = interpreter.emitter.broadcast(mask.node, owner.dims, tuple(range(mask.type.rank)))
        element = interpreter.numbers.as_type(interpreter.numbers.array(whole, owner.dtype), owner.type)
        interpreter.change_array(owner, Array(interpreter.emitter.select(spread, element, owner.node)))

    def _set_within(self, owner: Array, index: AbstractValue, value: AbstractValue) -> None:
        """Assign to slices whose bounds only the run knows: a number, where positions are within the bounds."""
        interpreter = self.interpreter
        emitter, operators = interpreter.emitter, interpreter.operators
        parts = list(index_parts(index))
        if any(isinstance(part, Const) and part.value in (None, Ellipsis) for part in parts) or len(parts) > len(
            owner.dims
        ):
            interpreter.refuse("this index cannot be assigned to with bounds that only the run knows")
        element = interpreter.numbers.of_python[int]
        mask: Any = None
        for axis, part in enumerate(parts):
            size = owner.dims[axis]
            position = Array(emitter.iota(element, owner.dims, axis))
            if is_slice(part):
                start, stop, step = part.items
                if not (isinstance(step, Const) and step.value in (None, 1)):
                    interpreter.refuse("a slice with bounds that only the run knows has no step")
                tests = []
                for bound, symbol in ((start, ">="), (stop, "<")):
                    if is_none(bound):
                        continue
                    wrapped = interpreter.numbers.array(bound, element)
                    negative = emitter.compare("LT", wrapped.node, emitter.like(0, wrapped.node))
                    moved = emitter.add(wrapped.node, emitter.like(size, wrapped.node))
                    tests.append(
                        operators.compare(symbol, position, Array(emitter.select(negative, moved, wrapped.node)))
                    )
            else:
                tests = [operators.compare("==", position, self._in_bounds(part, size))]
            for test in tests:
                assert isinstance(test, Array)
                mask = test.node if mask is None else emitter.elementwise("and", mask, test.node)
        whole = value.value if isinstance(value, _Whole) else value
        if not isinstance(value, _Whole):
            if not isinstance(whole, (Array, Const)):
                whole = interpreter.library.as_array(whole)
            if isinstance(whole, Array) and whole.dims:
                interpreter.refuse(
                    "an array cannot be assigned to a slice whose length only the run knows", hint="assign a number"
                )
        made = interpreter.numbers.as_type(interpreter.numbers.array(whole, owner.dtype), owner.type)
        interpreter.change_array(owner, Array(made if mask is None else emitter.select(mask, made, owner.node)))

    def delete(self, owner: AbstractValue, index: AbstractValue) -> None:
        """`del owner[index]`"""
        interpreter = self.interpreter
        if not isinstance(owner, Ref) or not is_container(owner.cell.cls):
            interpreter.raise_error(TypeError, f"{described(owner)} does not support item deletion")
        fields = interpreter.contents(owner)
        if is_mapping(owner.cell.cls):
            key = interpreter.static(index, "the key of a dict")
            if fields.get(key) is None:
                interpreter.raise_error(KeyError, repr(key))
            interpreter.change(owner, fields.without(key))
            return
        items = list(fields.items)
        with interpreter.errors_raised():
            del items[self._plain(index)]
        interpreter.change(owner, Fields(None, tuple(items)))
