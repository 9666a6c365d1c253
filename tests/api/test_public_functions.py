"""Every public function takes modules, meshes, plans and devices in every form, told by the names of its parameters.

Covers `ir/module_like.py`, `plan_like.py`, `jax_specs.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.analysis import device
from hloom.sharding import Mesh, as_mesh

MODULES = ("module", "program", "source", "before", "after", "left", "right", "target")
"""What parameters are called that take a module."""
NO_MODULES = {
    "difference.carried", "pass_timeline.module", "load.module", "compare.left", "compare.right", "compile.target",
    "memory.target", "fit.target", "plan.target",
}  # fmt: skip
"""Parameters so called that take something else: the name of a module, arrays."""
OF_FUNCTIONS = {"hessian", "jacobian"}
"""What takes functions, and refuses modules with a hint."""
MESH, X, WEIGHTS = "data=2", np.ones((8, 8), np.float32), np.full((8, 8), 0.5, np.float32)


def step(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w).sum()


LOWERED = jax.jit(step, keep_unused=True).lower(X, WEIGHTS)
MODULE = hloom.load(LOWERED)
TEXT = hloom.print(MODULE)
PLAN = hloom.plan(MODULE, MESH)

ARGUMENTS: dict[str, dict[str, Any]] = {
    "auto_shard": {"function": step},
    "jit": {"function": step},
    "opt": {"passes": "simplify"},
    "compile": {"target": "cpu"},
    "draw": {"path": "step.dot"},
    "evaluate": {"inputs": [X, WEIGHTS]},
    "fit": {"devices": 2},
    "grep": {"text": "dot"},
    "microbatch": {"n": 1},
    "minimize": {"predicate": lambda module: True, "steps": 1},
    "page": {"path": "step.html"},
    "measure": {"planned": PLAN},
    "propagate": {"seeds": ["x:0=data"]},
    "prune": {"weights": {"w": WEIGHTS}, "only": ["w"]},
    "prune_structured": {"weights": {"w": WEIGHTS}, "only": ["w"]},
    "quantize": {"only": ["w"]},
    "remat": {"budget": "1GiB"},
    "result_partition_specs": {"tree": X},
    "roofline": {"device": "h100"},
    "timeline": {"device": "h100"},
    "run": {"inputs": [X, WEIGHTS]},
    "save": {"path": "saved.hlo"},
    "view": {"path": "view.html"},
    "partition_specs": {"tree": (X, WEIGHTS)},
    "why_oom": {"memory": "1GiB", "quick": True},
}
"""What functions need beside modules, meshes and plans."""
FAILING = {"pipeline"}
"""Functions that read their module, and have no use for so small a program."""


def functions() -> dict[str, Callable[..., Any]]:
    """The public functions by name, callable packages among them."""
    listed = {name: getattr(hloom, name) for name in hloom._OWNERS}
    return {
        name: function
        for name, function in listed.items()
        if callable(function) and not inspect.isclass(function) and name not in ("rule", "ANY")
    }


def signature(name: str) -> inspect.Signature:
    function = functions()[name]
    return inspect.signature(function)


def parameters(*names: str) -> list[Any]:
    """The functions that have a parameter of one of these names, and the parameter."""
    listed: list[Any] = []
    for name in functions():
        listed += [
            pytest.param(name, parameter, id=f"{name}-{parameter}")
            for parameter in signature(name).parameters
            if parameter in names and f"{name}.{parameter}" not in NO_MODULES
        ]
    return listed


def arguments(name: str) -> dict[str, Any]:
    """Good arguments of a function."""
    given: dict[str, Any] = {}
    for parameter, description in signature(name).parameters.items():
        if parameter in MODULES and f"{name}.{parameter}" not in NO_MODULES:
            if description.default is inspect.Parameter.empty:
                given[parameter] = MODULE
        elif parameter == "mesh":
            given[parameter] = MESH
        elif parameter == "plan":
            given[parameter] = PLAN
    return given | ARGUMENTS.get(name, {})


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


FORMS: dict[str, Callable[[Path], Any]] = {
    "module": lambda folder: MODULE,
    "path": lambda folder: hloom.save(MODULE, folder / "step.hlo"),
    "name": lambda folder: str(hloom.save(MODULE, folder / "step.hlo.gz")),
    "text": lambda folder: TEXT,
    "stablehlo": lambda folder: LOWERED.as_text(),
    "stablehlo file": lambda folder: written(folder / "step.mlir", LOWERED.as_text()),
    "bytes": lambda folder: TEXT.encode(),
    "lowered": lambda folder: LOWERED,
    "compiled": lambda folder: LOWERED.compile(),
    "exported": lambda folder: jax.export.export(jax.jit(step))(X, WEIGHTS),
}
QUICK = ("cost", "memory", "inspect", "print", "verify", "evaluate", "grad", "diff", "run", "to_json", "equal")
"""Functions that are tried with every form; the others with a path, which all of them read as `as_module` does."""


@pytest.mark.parametrize("form", list(FORMS))
def test_every_form_of_a_module(form: str, tmp_path: Path):
    made = FORMS[form](tmp_path)
    for name in QUICK:
        given = {key: value for key, value in arguments(name).items() if key != "target"}
        asked = next(parameter for parameter in signature(name).parameters if parameter in MODULES)
        if form in ("compiled", "exported"):
            given.pop("inputs", None)
            if name in ("evaluate", "grad"):  # inputs have other names and numbers there, and fusions no derivative
                continue
        positional = [made] if asked == "target" else []
        functions()[name](*positional, **given | ({} if positional else {asked: made}))


@pytest.mark.parametrize(("name", "parameter"), parameters(*MODULES))
def test_a_path_is_a_module(name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    path = hloom.save(MODULE, tmp_path / "step.hlo")
    monkeypatch.setattr("webbrowser.open", lambda *_: True)
    given = arguments(name)
    given[parameter] = str(path)
    positional = [given.pop(parameter)] if parameter == "target" else []
    if name in OF_FUNCTIONS | FAILING | {"auto_shard", "from_stablehlo"}:
        with pytest.raises(hloom.HloomError):
            functions()[name](*positional, **given)
        return
    functions()[name](*positional, **given)


@pytest.mark.parametrize("wrong", [3, object()], ids=["int", "object"])
@pytest.mark.parametrize(("name", "parameter"), parameters(*MODULES, "mesh", "plan", "device", "passes"))
def test_what_is_none_of_them_is_refused(name: str, parameter: str, wrong: Any):
    given = {**arguments(name), parameter: wrong}
    positional = [given.pop(parameter)] if parameter == "target" else []
    with pytest.raises(hloom.HloomError):
        functions()[name](*positional, **given)


@pytest.mark.parametrize(("name", "parameter"), parameters(*MODULES, "mesh", "plan", "passes"))
def test_none_is_refused_where_something_is_needed(name: str, parameter: str):
    description = signature(name).parameters[parameter]
    if description.default is not inspect.Parameter.empty and name != "auto_shard":
        pytest.skip("it may be left out")
    given = {**arguments(name), parameter: None}
    positional = [given.pop(parameter)] if parameter == "target" else []
    with pytest.raises(hloom.HloomError):
        functions()[name](*positional, **given)


MESHES = (Mesh(("data",), (2,)), "data=2", {"data": 2})


@pytest.mark.parametrize(
    "mesh", [*MESHES, jax.sharding.AbstractMesh((2,), ("data",))], ids=["mesh", "text", "dict", "jax"]
)
def test_every_form_of_a_mesh(mesh: Any):
    assert str(hloom.plan(MODULE, mesh).plan.mesh) == "data=2"


def test_meshes_of_sizes_alone():
    assert str(as_mesh("2x4")) == "x=2,y=4" and str(as_mesh("8")) == "x=8"


@pytest.mark.parametrize("mesh", [{"data": 0}, {"data": "2"}, {2: 2}, {"data": True}, "2x", "x", ""])
def test_what_is_no_mesh(mesh: Any):
    with pytest.raises(hloom.HloomError):
        hloom.plan(MODULE, mesh)


def test_every_form_of_a_plan(tmp_path: Path):
    path = PLAN.save(tmp_path / "plan.json")
    expected = hloom.partition_specs(PLAN.plan, (X, WEIGHTS))
    for plan in (PLAN, path, str(path), PLAN.to_json()):
        assert hloom.partition_specs(plan, (X, WEIGHTS)) == expected
        assert hloom.shardy_stablehlo(plan, MODULE) == hloom.shardy_stablehlo(PLAN.plan, MODULE)
        assert hloom.plan(MODULE, MESH, like=plan).plan.parameters == PLAN.plan.parameters


def test_a_device_is_one_or_its_name():
    assert hloom.roofline(TEXT, device("h100")).seconds == hloom.roofline(TEXT, "h100").seconds


@pytest.mark.parametrize("name", list(functions()))
def test_no_parameter_is_called_on(name: str):
    assert "on" not in signature(name).parameters


@pytest.mark.parametrize("derive", [hloom.hessian, hloom.jacobian])
def test_second_derivatives_of_modules(derive: Callable[..., Any]):
    with pytest.raises(hloom.HloomError, match=r"jvp\(grad\(module\)\)"):
        derive(MODULE)
    assert hloom.jvp(hloom.grad(MODULE, wrt="w")).entry.root is not None


def test_options_that_only_functions_or_modules_have():
    with pytest.raises(hloom.HloomError, match="grad of a module has no option 'has_aux'\n  it has wrt, of, stop"):
        hloom.grad(MODULE, has_aux=True)
    with pytest.raises(hloom.HloomError, match="vjp of a module takes the module and wrt"):
        hloom.vjp(MODULE, X, WEIGHTS)  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize("compute", [hloom.run, hloom.evaluate])
def test_one_array_is_not_taken_apart(compute: Any):
    with pytest.raises(hloom.HloomError, match="inputs are one array, not a list of them"):
        compute(
            "ENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT z = f32[2] add(x, y) }",
            np.ones((2, 2), "f4"),
        )


def test_two_runs_are_compared_as_they_are():
    run = hloom.run(TEXT, [X, WEIGHTS])
    assert hloom.compare(run, hloom.evaluate(TEXT, [X.tolist(), WEIGHTS])) == []
    assert hloom.compare(run, [np.zeros((), np.float32)])
    with pytest.raises(
        hloom.HloomError, match=r"expected arrays to compare, not str\n  [^!]*hloom\.diff compares modules"
    ):
        hloom.compare("step.hlo", "step.hlo")  # pyright: ignore[reportArgumentType]


def test_what_is_nearly_right_says_what_is():
    with pytest.raises(hloom.HloomError, match=r"parse takes HLO text, not PosixPath\n  hloom\.load reads files"):
        hloom.parse(Path("step.hlo"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(hloom.HloomError, match="grad of a function has no option 'argnums'\n  it has wrt and has_aux"):
        hloom.grad(step, argnums=1)
    with pytest.raises(hloom.HloomError, match="cannot plan for '2' devices"):
        hloom.fit(TEXT, "2")  # pyright: ignore[reportArgumentType]
    assert hloom.roofline(TEXT).device.name == "h100"
