"""Random programs in which the rules on scatter fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.computations import program
from tests.passes.domains.shapes import array_text, comma_separated, sizes


def scatter_of_nothing(random: Random) -> str:
    name, rows, width = random.choice(("f32", "s32")), random.randint(1, 5), random.randint(1, 4)
    return program(
        f"""
        x = {name}[{rows},{width}] parameter(0)
        i = s32[0,1] parameter(1)
        y = {name}[0,{width}] parameter(2)
        ROOT s = {name}[{rows},{width}] scatter(x, i, y), update_window_dims={{1}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add_{name}
        """.replace(",\n          ", ", ")
    )


def scatter_over_everything(random: Random) -> str:
    name, dims = random.choice(("f32", "s32")), sizes(random)
    made = array_text(name, dims)
    return program(
        f"""
        x = {made} parameter(0)
        i = s32[0] parameter(1)
        y = {made} parameter(2)
        ROOT s = {made} scatter(x, i, y), update_window_dims={{{comma_separated(range(len(dims)))}}}, inserted_window_dims={{}},
          scatter_dims_to_operand_dims={{}}, index_vector_dim=0, to_apply={random.choice(("add", "maximum"))}_{name}
        """.replace(",\n          ", ", ")
    )


DOMAINS: dict[str, Callable[[Random], str]] = {
    "scatter-of-nothing": scatter_of_nothing,
    "scatter-over-everything": scatter_over_everything,
}
