"""What plans of programs in the style of packages are forecast to hold and send, beside XLA's executables."""

from __future__ import annotations

from importlib import import_module

import pytest

import hloom

NAMES = ("moe_scan", "mamba_scan", "t5", "bert_dropout", "llama_bf16", "gpt_remat_scan", "dlrm", "lstm", "unet", "vae")


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_forecast_of_a_plan_is_near(name: str):
    pytest.importorskip("flax")
    pytest.importorskip("optax")
    libraries = pytest.importorskip("jaxlib._hlo")
    import_module("tests.analysis.package_programs.planned")
    programs = import_module("tests.analysis.package_programs.registry").PROGRAMS
    function, arguments = programs[name]()
    lowered = function.lower(*arguments).compiler_ir("hlo").as_hlo_module()
    planned = hloom.plan(hloom.parse(lowered.to_string(libraries.HloPrintOptions())), "x=8", seconds=10)
    measured = planned.measure()
    assert planned.best.expected is not None
    assert planned.best.memory == pytest.approx(measured.memory, rel=0.1)
    assert planned.best.expected.sent == pytest.approx(measured.comm_bytes, rel=0.1)
