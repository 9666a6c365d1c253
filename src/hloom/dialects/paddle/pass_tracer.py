"""What a function of a pass says, noted down as Paddle's own Python noted it: `PassDesc.OP.matmul_v2(X=x, Y=w)`.

Names, arguments and meaning are those of `paddle.incubate.passes.ir` in Paddle 2.6, so that code written for it runs
here. What goes beyond it: conditions other than EQ, on ops' attributes and on results, `* //` beside `+ -` and Mod,
mapping to a variable. Most of that Paddle's runtime does not honour: `pass_writer.py` says what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any

from hloom.dialects.paddle.protos import converted, natural_type
from hloom.dialects.paddle.rows import attribute_type
from hloom.dialects.paddle.signatures import Signature, known_types, signature
from hloom.rewrite import RuleError
from hloom.text import HloomError

_CURRENT: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


class Tracing:
    """One function of a pass while it runs: its ops and the attributes on which it states conditions.

    `counts` numbers the variables, op type by op type; as in Paddle, all functions of a pass share it.
    """

    def __init__(self, is_pattern: bool, counts: dict[str, int]) -> None:
        self.is_pattern = is_pattern
        self.ops: list[OpHelper] = []
        self.conditions: dict[AttrHelper, None] = {}
        self.counts = counts

    @contextmanager
    def running(self) -> Iterator[None]:
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def unique_name(self, stem: str) -> str:
        number = self.counts[stem] = self.counts.get(stem, -1) + 1
        return f"{stem}_{number}"


def current_tracing() -> Tracing:
    """The function that is being traced; raises RuleError outside of one."""
    current = _CURRENT.get()
    if current is None:
        raise RuleError("ops of PassDesc.OP can be called only in the functions of a pass", hint="see RegisterPass")
    return current


class InputSpec:
    """What is known of an input: its dimensions (-1 or None: any size), element type and name."""

    def __init__(self, shape: Sequence[int | None], dtype: str = "float32", name: str | None = None) -> None:
        self.shape = tuple(-1 if size is None else size for size in shape)
        self.dtype = dtype
        self.name = name


class ParamAttr:
    """An input that is a parameter; what else Paddle's ParamAttr says does not matter to a pass."""

    def __init__(self, name: str | None = None, *_: Any, **__: Any) -> None:
        self.name = name


class AttrHelper:
    """An attribute of a variable or an op, an element of it, its size, or one of these with an operation."""

    def __init__(self, obj: VarHelper | OpHelper, name: str, element_index: int | None = None) -> None:
        self._obj = obj
        self._name = name
        self._element_index = element_index
        self._is_size = False
        self._operation: Any = None
        self._mapped: Any = None
        self._elements: list[AttrHelper] = []
        self._stated: list[tuple[str, Any]] = []

    def __getitem__(self, index: int) -> AttrHelper:
        if not isinstance(index, int):
            raise RuleError(f"an element of {self._name} is asked for by a number, not {index!r}")
        return self._changed(_element_index=index)

    def __iter__(self) -> Iterator[Any]:
        raise RuleError(f"'{self._name}' cannot be iterated over: its length is not known before something matches")

    def Size(self) -> AttrHelper:  # noqa: N802 - Paddle's name
        """How many elements it has."""
        return self._changed(_is_size=True)

    def __sub__(self, value: Any) -> AttrHelper:
        return self._with("kSub", value)

    def __add__(self, value: Any) -> AttrHelper:
        return self._with("kAdd", value)

    def __mul__(self, value: Any) -> AttrHelper:
        return self._with("kMul", value)

    def __floordiv__(self, value: Any) -> AttrHelper:
        return self._with("kDiv", value)

    def Mod(self, value: Any) -> AttrHelper:  # noqa: N802
        """The remainder of a division."""
        return self._with("kMod", value)

    def EQ(self, value: Any) -> None:  # noqa: N802
        """Only where it equals a value or another attribute; said twice, the second time counts, as in Paddle."""
        self._stated = [said for said in self._stated if said[0] != "kEQ"]
        self._condition("kEQ", value)

    def NE(self, value: Any) -> None:  # noqa: N802
        """Only where it differs."""
        self._condition("kNE", value)

    def GT(self, value: Any) -> None:  # noqa: N802
        """Only where it is more."""
        self._condition("kGT", value)

    def GE(self, value: Any) -> None:  # noqa: N802
        """Only where it is no less."""
        self._condition("kGE", value)

    def LT(self, value: Any) -> None:  # noqa: N802
        """Only where it is less."""
        self._condition("kLT", value)

    def LE(self, value: Any) -> None:  # noqa: N802
        """Only where it is no more."""
        self._condition("kLE", value)

    def MappedPattern(  # noqa: N802
        self,
        var: Any = None,
        op: str | None = None,
        index: int = 0,
        name: str | None = None,
        element_index: int | None = None,
    ) -> None:
        """Let it have the value of an attribute of the pattern: of the `index`-th op of a type, or of a variable."""
        if (var is None) == (op is None):
            raise RuleError("MappedPattern takes one of var and op")
        self._mapped = Mapped(var, op, index, name or self._name, element_index)

    def ReusePattern(self, op: str, index: int = 0, name: str | None = None) -> None:  # noqa: N802
        """The same of an op alone; the attribute there has the same name, unless another is given."""
        self.MappedPattern(op=op, index=index, name=name)

    def _changed(self, **changes: Any) -> AttrHelper:
        if self._operation is not None or self._is_size:
            raise RuleError(f"ask '{self._name}' itself for an element or its size, before any operation")
        made = self._element()
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def _element(self) -> AttrHelper:
        """Another helper of the same attribute; in a pass its conditions stand behind those of this one."""
        made = AttrHelper(self._obj, self._name, self._element_index)
        self._elements.append(made)
        return made

    def _with_elements(self) -> Iterator[AttrHelper]:
        yield self
        for element in self._elements:
            yield from element._with_elements()

    def _with(self, operation: str, value: Any) -> AttrHelper:
        if self._operation is not None:
            raise RuleError(f"'{self._name}' takes one operation at most: that is all the format can hold")
        if isinstance(value, AttrHelper) and value._operation is not None:
            raise RuleError(f"'{self._name}' is put beside a computed attribute: the format holds one operation")
        made = self._element()
        made._is_size = self._is_size
        made._operation = (operation, self._checked(value))
        return made

    def _condition(self, operation: str, value: Any) -> None:
        tracing = current_tracing()
        if not tracing.is_pattern:
            raise RuleError(
                f"{operation[1:]} on '{self._name}' stands in a replacement; conditions belong into the pattern"
            )
        self._stated.append((operation, self._checked(value)))
        tracing.conditions[self] = None

    def _checked(self, value: Any) -> Any:
        """What may stand beside it: another attribute, whole numbers beside shapes, numbers and texts beside others."""
        of_variable = isinstance(self._obj, VarHelper)
        allowed = (int,) if of_variable else (bool, int, float, str)
        parts = value if isinstance(value, (list, tuple)) and value else [value]
        fits = all(isinstance(part, allowed) and not (of_variable and isinstance(part, bool)) for part in parts)
        if not (fits or isinstance(value, AttrHelper)):
            raise RuleError(f"'{self._name}' cannot be put beside {value!r}")
        return value


class Mapped:
    """Where in the pattern an attribute of the replacement comes from."""

    def __init__(self, var: Any, op: str | None, index: int, name: str, element_index: int | None) -> None:
        self.var, self.op, self.index, self.name, self.element_index = var, op, index, name, element_index


class VarHelper:
    """A variable: an input of the function, or what an op yields."""

    def __init__(self, name: str, shape: Sequence[int] = (), dtype: str = "float32") -> None:
        self.name = name
        self.shape = tuple(shape)
        self.dtype = dtype
        self._attrs: dict[str, AttrHelper] = {}

    def _attributes(self) -> Iterator[AttrHelper]:
        for attribute in self._attrs.values():
            yield from attribute._with_elements()

    def Attr(self, name: str) -> AttrHelper:  # noqa: N802
        """An attribute of the variable: 'shape'."""
        if name != "shape":
            raise RuleError(f"'{name}' of {self.name} cannot be asked for", hint="what a pass can ask for is 'shape'")
        return self._attrs.setdefault(name, AttrHelper(self, name))


class Slots(dict[str, list]):
    """Variables by slot; Paddle's `op.Outputs()` and `op.Outputs["Out"]` both work."""

    def __call__(self) -> Slots:
        return self


class OpHelper:
    """An op of a pattern or of a replacement."""

    def __init__(self, known: Signature) -> None:
        tracing = current_tracing()
        self._type = known.type
        self._proto = known
        self._index = len(tracing.ops)
        self._attrs: dict[str, AttrHelper] = {}
        self._values: dict[str, Any] = {}
        self._given: dict[str, Any] = {}
        self._inputs: dict[str, list] = {slot.name: [] for slot in known.inputs}
        self._outputs: dict[str, list] = Slots({slot.name: [] for slot in known.outputs})
        self._over: dict[str, VarHelper | None] = {}
        self._is_called = False
        tracing.ops.append(self)

    def __call__(self, *arguments: Any, **inputs: Any) -> OpHelper:
        if arguments:
            raise RuleError(f"{self._type}: give each input by the name of its slot, as in X=x")
        if self._is_called:
            raise RuleError(f"{self._type} is called a second time", hint="PassDesc.OP gives a new op each time")
        self._is_called = True
        for name, given in inputs.items():
            if name not in self._inputs:
                has = ", ".join(self._inputs)
                raise RuleError(f"Operator '{self._type}' does not have input named '{name}'", hint=f"it has {has}")
            values = list(given) if isinstance(given, (list, tuple)) else [given]
            if not values:
                raise RuleError(f"Input '{name}' of operator '{self._type}' cannot be empty")
            self._inputs[name] += [self._operand(name, value) for value in values]
        tracing = current_tracing()
        self._over.clear()
        for values in self._outputs.values():
            values.append(VarHelper(tracing.unique_name(self._type)))
        return self

    def _operand(self, slot: str, value: Any) -> VarHelper:
        if isinstance(value, OpHelper):
            return only_output(value)
        if isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        if not isinstance(value, VarHelper):
            hint = "build patterns of PassDesc.OP; functions of paddle itself cannot be traced here"
            raise RuleError(f"{value!r} is given as {slot} of {self._type} and is not a variable", hint=hint)
        return value

    def Attr(self, name: str) -> AttrHelper:  # noqa: N802
        """An attribute: in a pattern to state conditions on, in a replacement to be mapped."""
        return self._attrs.setdefault(name, AttrHelper(self, name))

    def SetAttr(self, name: str, value: Any) -> None:  # noqa: N802
        """In a pattern: match this value only. In a replacement: have it, be it known or computed from the pattern."""
        if isinstance(value, AttrHelper):
            self.Attr(name)._mapped = value
            return
        known_type = attribute_type(self._type, name)
        try:
            self._values[name] = converted(value, known_type or natural_type(value))
            self._given[name] = value
        except HloomError as error:
            raise RuleError(f"{name} of {self._type}: {error.message}") from None

    def Output(self, name: str) -> list:  # noqa: N802
        """What stands in an output slot."""
        if name not in self._outputs:
            has = ", ".join(self._outputs)
            raise RuleError(f"Operator '{self._type}' does not have output named '{name}'", hint=f"it has {has}")
        return self._outputs[name]

    @property
    def Outputs(self) -> Slots:  # noqa: N802
        """All output slots."""
        return Slots(self._outputs)

    def SetOutputs(self, **outputs: Any) -> None:  # noqa: N802
        """Let output slots be written to given variables; None leaves a slot out."""
        for name, variable in outputs.items():
            self.Output(name)
            self._over[name] = variable


def only_output(op: OpHelper) -> VarHelper:
    """What an op with one output yields; raises RuleError where it has several."""
    variables = [variable for values in op._outputs.values() for variable in values]
    if not op._is_called:
        raise RuleError(f"{op._type} is used before it is called", hint=f"write PassDesc.OP.{op._type}(X=...)")
    if len(op._outputs) != 1 or len(variables) != 1:
        has = ", ".join(op._outputs)
        raise RuleError(
            f"Operator '{op._type}' has multiple outputs, please specify one output variable",
            hint=f".Output(name), of {has}",
        )
    return variables[0]


class _Ops:
    """`PassDesc.OP`: each attribute is a new op of that type."""

    def __getattr__(self, type: str) -> OpHelper:
        if type.startswith("__"):
            raise AttributeError(type)
        known = signature(type)
        if known is None:
            near = ", ".join(get_close_matches(type, known_types(), 3))
            raise AttributeError(
                f"paddle has no op '{type}'"
                + (f"; near: {near}" if near else "")
                + f"; declare_op('{type}', inputs, outputs, attributes) makes a custom op known"
            )
        return OpHelper(known)


class PassDesc:
    """What the functions of a pass build with: `PassDesc.OP.relu(X=x)`."""

    OP = _Ops()
    AttrHelper = AttrHelper
    OpHelper = OpHelper
    VarHelper = VarHelper
