"""The files that fill the table of `hloom.evaluate`: importing this one fills it."""

from hloom.dialects.oneflow import (
    attention_evaluation,
    data_movement_evaluation,
    elementwise_evaluation,
    linear_evaluation,
    normalisation_evaluation,
)

FAMILIES = (
    attention_evaluation,
    data_movement_evaluation,
    elementwise_evaluation,
    linear_evaluation,
    normalisation_evaluation,
)
