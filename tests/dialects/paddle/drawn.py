"""Passes that are drawn at random, as data: functions of either API are made of them. Read by Paddle's Python too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Case = dict[str, Any]


def pairs(case: Case, op: Any) -> list[tuple[Callable, Callable]]:
    """Two pairs, the second one the first turned round; `op` is PassDesc.OP of an API."""
    pattern, replacement = case["pattern"], case["replacement"]
    stated = case["conditions"]
    return [
        (function(pattern, op, stated), function(replacement, op, [])),
        (function(replacement, op, stated), function(pattern, op, [])),
    ]


def function(ops: list[dict[str, Any]], op: Any, stated: list[list[Any]]) -> Callable:
    def traced(x, y, z):
        for variable, label, element, number in stated:
            state((x, y, z)[variable].Attr("shape"), y.Attr("shape"), label, element, number)
        known = [x, y, z]
        for said in ops:
            made = getattr(op, said["type"])
            inputs = {slot: [known[index % len(known)] for index in indices] for slot, indices in said["inputs"]}
            if not said["attributes_first"]:
                made(**inputs)
            for name, value in said["attributes"]:
                made.SetAttr(name, value)
            if said["attributes_first"]:
                made(**inputs)
            made.SetOutputs(**dict.fromkeys(said["without"]))
            known += [variables[0] for variables in list(made.Outputs().values())[:1]]
        return known[-1], x

    return traced


def state(dims: Any, others: Any, label: str, element: int, number: int) -> None:
    """One condition on a shape."""
    match label:
        case "element":
            dims[element].EQ(number)
        case "size":
            dims.Size().EQ(number)
        case "whole":
            dims.EQ(others)
        case "mod":
            dims[element].Mod(number).EQ(0)
        case "minus":
            (dims[element] - number).EQ(others[0])
        case "plus":
            (dims.Size() + number).EQ(number)
        case "minus-other":
            (dims[element] - others[element]).EQ(0)


def serialise(folder: Path, op: Any, serialised: Callable[[list, dict], bytes]) -> None:
    """The bytes of all cases of a folder, in hexadecimal, one a line; what cannot be serialised is an empty line."""
    lines = []
    for case in json.loads((folder / "drawn.json").read_text()):
        try:
            lines.append(serialised(pairs(case, op), case["input_specs"]).hex())
        except NotImplementedError:
            lines.append("")
    (folder / "drawn.txt").write_text("\n".join(lines))
