"""Equality saturation: explores all forms of a program that rules can produce, and extracts the cheapest.

    cheaper, graphs = hloom.saturate(module, cost="bytes")

To let it find more, add rules to the families in `passes/rules/explore_*.py`, or pass rules of your own; to change how
the cheapest form is chosen, edit `extraction.py`.
"""

from hloom.passes.saturation.saturation import COSTS as COSTS
from hloom.passes.saturation.saturation import SaturatedGraph as SaturatedGraph
from hloom.passes.saturation.saturation import saturate as saturate
