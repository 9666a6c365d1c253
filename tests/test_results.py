"""What the public functions return: each is one line as its `repr`, printed as text, and HTML in a notebook.

The classes are read off the functions' return types; one that is new fails here until `RESULTS` makes one.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloom
from hloom import ops
from hloom.text import Displayed
from tests.targets.compiler.fake_compiler import fake_compiler

STEP = """HloModule step
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,16] parameter(1)
  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[8,16] tanh(d)
}
"""
LAYERS = """HloModule layers
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,32] parameter(1)
  v = f32[32,4] parameter(2)
  d = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,32] tanh(d)
  ROOT y = f32[8,4] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
LONGEST = 500
"""How many characters a `repr` has at most for so small a module."""
WEIGHTS = (("w", 512, 32), ("v", 128, 4))
_SPLIT = {"stages": [{"layers": [0, 0], "devices": [0]}], "microbatches": 1, "schedule": "1f1b"}


def step() -> hloom.Module:
    return hloom.parse(STEP)


def arrays() -> dict[str, np.ndarray]:
    return {name: np.arange(size, dtype=np.float32).reshape(-1, last) for name, size, last in WEIGHTS}


def dump(folder: Path) -> Path:
    (folder / "module_0001.jit_f.before_optimizations.txt").write_text(STEP)
    (folder / "module_0001.jit_f.0001.simplification.after_cse.before_dce.txt").write_text(STEP)
    (folder / "module_0001.jit_f.cpu_after_optimizations.txt").write_text(STEP)
    return folder


def compiled(folder: Path) -> Any:
    """A program that a fake compiler made."""
    with pytest.MonkeyPatch.context() as patch:
        fake_compiler(folder, patch)
        return hloom.compile(step(), "v5e")


def saved_fit(folder: Path) -> Any:
    return hloom.load_fit(hloom.fit(step(), 1).save(folder / "best"))


RESULTS: dict[str, Callable[[Path], Any]] = {
    "CompiledProgram": compiled,
    "Module": lambda _: step(),
    "Report": lambda _: hloom.opt(step(), ["simplify"])[1],
    "Difference": lambda _: hloom.compare([np.zeros(3)], [np.ones(3)])[0],
    "CostReport": lambda _: hloom.cost(step()),
    "ModuleDiff": lambda _: hloom.diff(step(), step()),
    "DType": lambda _: hloom.dtype("f32"),
    "DumpedModule": lambda folder: hloom.dump_modules(dump(folder))[0],
    "FitResult": lambda _: hloom.fit(step(), 1),
    "Function": lambda _: hloom.function(lambda x: x + 1),
    "FusionReport": lambda _: hloom.fusions(step()),
    "Combination": saved_fit,
    "PartitionedProgram": lambda _: hloom.measure(hloom.plan(step(), "data=2")),
    "MemoryReport": lambda _: hloom.memory(step(), schedule="list"),
    "Minimization": lambda _: hloom.minimize(step(), lambda module: "tanh" in hloom.print(module)),
    "PassTimeline": lambda folder: hloom.pass_timeline(dump(folder)),
    "Pipeline": lambda _: hloom.pipeline(step(), _SPLIT, batch={"x": 0}),
    "Propagation": lambda _: hloom.propagate(step(), ["x:0=data"], "data=2"),
    "PlanResult": lambda _: hloom.plan(step(), "data=2"),
    "Pruning": lambda _: hloom.prune(hloom.parse(LAYERS), arrays(), only=["w", "v"]),
    "StructuredPruning": lambda _: hloom.prune_structured(hloom.parse(LAYERS), arrays(), only=["w", "v"]),
    "Quantization": lambda _: hloom.quantize(hloom.parse(LAYERS), "int8", only=["w", "v"]),
    "Matches": lambda _: hloom.grep(step(), "dot"),
    "Roofline": lambda _: hloom.roofline(step(), "h100"),
    "Timeline": lambda _: hloom.timeline(step(), "h100"),
    "Rule": lambda _: hloom.rule_from(lambda x: ops.negate(ops.negate(x)), lambda x: x),
    "RunResult": lambda _: hloom.run(step()),
    "SaturatedGraph": lambda _: hloom.saturate(step())[1][0],
    "Summary": lambda _: hloom.inspect(step()),
    "Table": lambda _: hloom.table(step()),
    "Verification": lambda _: hloom.verify(step()),
    "PageFile": lambda folder: hloom.view(step(), folder / "page.html"),
    "OomReport": lambda _: hloom.why_oom(step(), memory="1KiB"),
}


def classes_in(annotation: Any) -> Iterator[type]:
    """The classes of ours in a type: `tuple[Module, list[Report]]` has two."""
    if isinstance(annotation, type) and annotation.__module__.startswith("hloom"):
        yield annotation
    for part in (typing.get_origin(annotation), *typing.get_args(annotation)):
        yield from classes_in(part) if part is not None else ()


def public_functions() -> dict[str, Any]:
    values = {name: getattr(hloom, name) for name in dir(hloom)}
    return {name: value for name, value in values.items() if callable(value) and not isinstance(value, type)}


def returned_classes() -> set[type]:
    classes: set[type] = set()
    for value in public_functions().values():
        function = inspect.unwrap(value)
        if inspect.isfunction(function):
            names = vars(sys.modules[function.__module__])
            classes |= set(classes_in(eval(function.__annotations__["return"], names)))
    return classes


def test_the_list_has_every_class_that_a_public_function_returns():
    assert {returned.__name__ for returned in returned_classes()} == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    value = RESULTS[name](tmp_path)
    assert type(value).__name__ == name
    assert isinstance(value, Displayed)
    line, printed = repr(value), str(value)
    assert "\n" not in line
    assert 0 < len(line) <= LONGEST
    assert printed
    assert not line.startswith(f"{name}("), "a dataclass's own repr is all that it holds"
    assert value._repr_html_().startswith(("<details", "<a "))
    assert line in str(value._repr_mimebundle_()["text/plain"]) or name in ("Table", "Rule", "DType")


def test_no_class_that_shows_itself_has_a_dataclass_repr():
    assert public_functions(), "which imports the packages that define them"
    pending: list[Any] = [Displayed]
    for shown in pending:
        pending += [derived for derived in shown.__subclasses__() if derived.__module__.startswith("hloom")]
        assert "__dataclass_params__" not in vars(shown) or not shown.__dataclass_params__.repr, shown
    assert len(pending) > len(RESULTS)
