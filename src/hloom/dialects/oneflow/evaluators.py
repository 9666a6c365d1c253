"""The files that fill the table of `hloom.evaluate`: importing this one fills it."""

from hloom.dialects.oneflow import (
    attention_values,
    linear_values,
    normalisation_values,
    pointwise_values,
    shaping_values,
)

FAMILIES = (pointwise_values, shaping_values, normalisation_values, linear_values, attention_values)
