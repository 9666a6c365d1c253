"""The files that fill the table: importing this one fills it."""

from hloom.evaluator import (
    bitcast,
    collective,
    contraction,
    control_flow,
    conversion,
    custom,
    data_movement,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
    scatter,
    sort,
    windows,
)

FAMILIES = (
    bitcast,
    collective,
    contraction,
    control_flow,
    conversion,
    custom,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
    scatter,
    data_movement,
    sort,
    windows,
)
