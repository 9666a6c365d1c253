"""The options of a quantisation with their defaults: the keywords of `quantize`, and what `hloom quantize` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from hloom.compress.quantization.calibration import CLIPPINGS, PERCENTILE
from hloom.ops import PRODUCTS
from hloom.text import HloomError

OPCODES = (*PRODUCTS, "gather")
"""The instructions whose weights may be quantised."""
ACTIVATIONS = ("dynamic", "static")
"""When the range of activations is known: as the program runs, or before, from inputs."""
GRANULARITIES = ("tensor", "channel", "group")
"""Which elements share a scale: a whole weight, those summed up for one element of the result, or a group of these."""
FORMAT = "int8"
"""The format of weights where nothing else is said."""
SEARCH = "search"
"""What `smoothing` is where the best alpha of each activation is looked for."""

Keywords = ParamSpec("Keywords")
Options = TypeVar("Options")
Module = TypeVar("Module")
Arrays = TypeVar("Arrays")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectionOptions:
    """Which weights are meant.

    Those of instructions of `opcodes` in whose op_name, or in the weight's own, `scope` is found, a regular expression,
    and that have at least `least` elements; or `only` those named.
    """

    opcodes: Sequence[str] = OPCODES
    scope: str | None = None
    only: Sequence[str | int] | None = None
    least: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class QuantizationOptions(SelectionOptions):
    """How to quantise: weights, KV caches, activations; `quantize` says what each option means.

    Raises HloomError for options that do not go together.
    """

    weights: str | Mapping[str, str] | None = FORMAT
    _: KW_ONLY
    per: str | None = None
    group: int | None = None
    symmetric: bool = True
    cache: str | Mapping[str, str] | None = None
    activations: str | None = None
    calibration: Sequence[Sequence[Any]] = ()
    clipping: str = CLIPPINGS[0]
    percentile: float = PERCENTILE
    smoothing: float | str | None = None
    straight_through: bool = False

    def __post_init__(self) -> None:
        if self.weights is None and (self.cache is None or self.activations is not None):
            raise HloomError(
                "no weights are quantised" + (": activations are with them" if self.activations is not None else "")
            )
        if self.clipping not in CLIPPINGS:
            raise HloomError(f"ranges are not chosen by '{self.clipping}'", hint=f"there are {', '.join(CLIPPINGS)}")
        if not 0 < self.percentile <= 100:
            raise HloomError(
                f"{self.percentile} is not a valid percentile", hint="give a number above 0, and up to 100"
            )
        if self.straight_through and self.activations is None:
            raise HloomError(
                "straight_through is for products of narrow types: dequantised weights have derivatives as they are",
                hint="activations='dynamic', or --activations dynamic",
            )
        if self.smoothing is not None:
            self._check_smoothing(self.smoothing)
        elif self.calibration and self.activations != "static":
            raise HloomError(
                "inputs are measured for static activations, and for smoothing",
                hint="activations='static', or --activations static",
            )

    def _check_smoothing(self, smoothing: float | str) -> None:
        if self.activations is None:
            raise HloomError(
                "smoothing is for products of narrow types: weights alone need none",
                hint="activations='static', or --activations static",
            )
        if not self.calibration:
            raise HloomError(
                "smoothing needs inputs to measure activations on",
                hint="calibration=[arrays, ...], or --calibrate X.npz",
            )
        if isinstance(smoothing, str) and smoothing != SEARCH:
            raise HloomError(f"'{smoothing}' is not a smoothing option", hint="give a number from 0 to 1, or 'search'")
        if not isinstance(smoothing, str) and not 0 <= smoothing <= 1:
            raise HloomError(
                f"{smoothing} is not a valid smoothing alpha", hint="give a number from 0 to 1, or 'search'"
            )


class KeywordsOf(Generic[Keywords, Options]):
    """A decorator for a function whose last parameter is an options object: callers give its fields as keywords.

    So names, types and defaults are stated once, in the options, for people and for type checkers.
    """

    def __init__(self, options: Callable[Keywords, Options]) -> None:
        self.options: Callable[..., Any] = options

    @overload
    def __call__(
        self, function: Callable[[Module, Options], Result]
    ) -> Callable[Concatenate[Module, Keywords], Result]: ...

    @overload
    def __call__(
        self, function: Callable[[Module, Arrays, Options], Result]
    ) -> Callable[Concatenate[Module, Arrays, Keywords], Result]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        own = signature(function)
        *first, _ = own.parameters.values()
        shown = own.replace(parameters=[*first, *signature(self.options).parameters.values()])

        @wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            try:
                given = shown.bind(*arguments, **keywords).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(*(given.pop(one.name) for one in first), self.options(**given))

        called.__signature__ = shown  # pyright: ignore[reportAttributeAccessIssue]
        return called
