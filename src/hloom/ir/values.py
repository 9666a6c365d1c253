"""Structured attribute values (more than numbers, strings and lists of them); `str` gives HLO's text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window: sizes and counts in elements."""

    size: int = 1
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """What slides over an array in convolution, reduce-window and select-and-scatter.

    >>> str(Window((WindowDimension(2), WindowDimension(3, stride=2))))
    '{size=2x3 stride=1x2}'
    """

    dimensions: tuple[WindowDimension, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"{key}={'x'.join(map(text, self.dimensions))}"
            for key, text, default in _WINDOW_PARTS
            if self.dimensions and (key == "size" or any(text(d) != default for d in self.dimensions))
        ]
        return "{" + " ".join(parts) + "}"


def _padding(dimension: WindowDimension) -> str:
    return f"{dimension.padding_low}_{dimension.padding_high}"


_WINDOW_PARTS: tuple[tuple[str, Callable[[WindowDimension], str], str], ...] = (
    ("size", lambda d: str(d.size), ""),
    ("stride", lambda d: str(d.stride), "1"),
    ("pad", _padding, "0_0"),
    ("lhs_dilate", lambda d: str(d.base_dilation), "1"),
    ("rhs_dilate", lambda d: str(d.window_dilation), "1"),
    ("rhs_reversal", lambda d: str(int(d.reversal)), "0"),
)


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """The role of each dimension of a convolution: one letter or digit per dimension.

    `b` batch, `f` feature, `i` input feature, `o` output feature, digits the spatial dimensions in order, `?` unused.

    >>> labels = ConvolutionDimensions("b01f", "01io", "b01f")
    >>> labels.lhs.index("f"), labels.spatial_rank, str(labels)
    (3, 2, 'b01f_01io->b01f')
    """

    lhs: str
    rhs: str
    output: str

    @property
    def spatial_rank(self) -> int:
        """The number of spatial dimensions."""
        return sum(letter.isdigit() for letter in self.lhs)

    def spatial(self, labels: str) -> tuple[int, ...]:
        """The positions of spatial dimensions 0, 1, ... in one of the three label strings."""
        return tuple(labels.index(str(number)) for number in range(self.spatial_rank))

    def __str__(self) -> str:
        return f"{self.lhs}_{self.rhs}->{self.output}"


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """How one dimension is padded: elements before, after and between; negative ones crop."""

    low: int
    high: int
    interior: int = 0

    def __str__(self) -> str:
        return f"{self.low}_{self.high}" + (f"_{self.interior}" if self.interior else "")


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """The elements [start, limit) of one dimension, every stride-th."""

    start: int
    limit: int
    stride: int = 1

    def __str__(self) -> str:
        return f"[{self.start}:{self.limit}]" if self.stride == 1 else f"[{self.start}:{self.limit}:{self.stride}]"


@dataclass(frozen=True, slots=True)
class OutputAlias:
    """An output of an instruction that shares its buffer with an operand."""

    output_index: tuple[int, ...]
    operand: int
    operand_index: tuple[int, ...]

    def __str__(self) -> str:
        return f"{_index(self.output_index)}: ({self.operand}, {_index(self.operand_index)})"


@dataclass(frozen=True, slots=True)
class InputOutputAlias:
    """An output of the module that shares its buffer with a parameter."""

    output_index: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...]
    kind: str = "may-alias"

    def __str__(self) -> str:
        return f"{_index(self.output_index)}: ({self.parameter}, {_index(self.parameter_index)}, {self.kind})"


@dataclass(frozen=True, slots=True)
class BufferDonor:
    """A parameter's buffer that any output may reuse."""

    parameter: int
    parameter_index: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.parameter}, {_index(self.parameter_index)})"


@dataclass(frozen=True, slots=True)
class Domain:
    """A boundary between two shardings."""

    kind: str
    entry: object
    exit: object

    def __str__(self) -> str:
        return f'{{kind="{self.kind}", entry={self.entry}, exit={self.exit}}}'


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers a profiler attached; `values` are (name, number), `visualizing_index` says which one to show."""

    visualizing_index: int | None = None
    values: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        index = [] if self.visualizing_index is None else [f"visualizing_index={self.visualizing_index}"]
        return "{" + ",".join(index + [f"{name}={value:.6g}" for name, value in self.values]) + "}"


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """How exact an elementwise result must be: a mode, or tolerances."""

    mode: str = ""
    absolute: float = 0.0
    relative: float = 0.0
    units: int = 0

    def __str__(self) -> str:
        if self.mode:
            return f"{{mode={self.mode}}}"
        return f"{{tolerance={{atol={self.absolute:g},rtol={self.relative:g},ulps={self.units}}}}}"


@dataclass(frozen=True, slots=True)
class Sparsity:
    """Structured sparsity of one convolution operand: `size` of every `dimension` group is kept, see XLA."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Verbatim:
    """The text of an attribute that the op's row does not know, kept verbatim."""

    text: str = field()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ProtoFields:
    """Fields of an instruction's message that no attribute holds, as bytes; HLO text has no place for them."""

    data: bytes


PROTO_FIELDS = "proto fields"
"""The name of the attribute that holds them: none that a text can have."""


def _index(index: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, index)) + "}"
