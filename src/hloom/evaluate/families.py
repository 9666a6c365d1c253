"""The files that fill the table: importing this one fills it."""

from hloom.evaluate import (
    bitcast,
    collective,
    contraction,
    control,
    convolution,
    custom,
    indexing,
    linalg,
    normalisation,
    ragged,
    reduction,
    scatter,
    shaping,
    sorting,
    windows,
)

FAMILIES = (
    bitcast,
    collective,
    contraction,
    control,
    convolution,
    custom,
    indexing,
    linalg,
    normalisation,
    ragged,
    reduction,
    scatter,
    shaping,
    sorting,
    windows,
)
