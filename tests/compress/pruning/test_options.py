"""The options of pruning: their defaults stand once, and they are checked when they are made."""

from __future__ import annotations

from inspect import signature

import pytest

import hloom
from hloom.compress.pruning import PruningOptions, StructuredPruningOptions
from hloom.text import HloomError


def test_signatures_are_those_of_the_options():
    for function, options in ((hloom.prune, PruningOptions), (hloom.prune_structured, StructuredPruningOptions)):
        module, weights, *rest = signature(function).parameters.values()
        assert (module.name, weights.name) == ("module", "weights")
        assert rest == list(signature(options).parameters.values())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PruningOptions(method="luck"), "weights are not scored by 'luck'"),
        (lambda: PruningOptions(within="row"), "scores are not compared within 'row'"),
        (lambda: PruningOptions(method="wanda"), "Wanda needs inputs"),
        (lambda: PruningOptions(calibration=[[]]), "inputs are measured for Wanda only"),
        (lambda: StructuredPruningOptions(2), "2 is not a valid sparsity"),
        (lambda: StructuredPruningOptions(multiple=0), "numbers cannot be multiples of 0"),
        (lambda: StructuredPruningOptions(axes=["rows"]), "there is no axis 'rows'"),
    ],
)
def test_options_that_make_no_sense(make, message: str):
    with pytest.raises(HloomError, match=f"^{message}"):
        make()
