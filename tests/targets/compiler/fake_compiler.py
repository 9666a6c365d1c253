"""An interpreter that plays a target's compiler: it answers with a fixed module, or fails in the way that it is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

OPTIMISED = """HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[8,128]{1,0:T(8,128)})->f32[8,128]{1,0:T(8,128)}}

%fused (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %n = f32[8,128]{1,0:T(8,128)} negate(%p)
}

ENTRY %main (x: f32[8,128]) -> f32[8,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %fusion = f32[8,128]{1,0:T(8,128)} fusion(%x), kind=kLoop, calls=%fused, backend_config={"window_config":{"estimated_cycles":"1200"}}
}
"""
ASSIGNMENT = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[8,128]| at ShapeIndex {}:
 value: <1 x @0> (size=4096,offset=0): f32[8,128]{1,0:T(8,128)}
allocation 1: size 4096, output shape is |f32[8,128]|, maybe-live-out:
allocation 2: size 512, thread-local:
allocation 4: size 96, preallocated-temp:
allocation 5: size 8192, color 1, preallocated-temp:
allocation 6: size 4096, constant:
"""
VERSIONS = {"python": "3.11.7", "jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.42", "jax-cuda12-plugin": "0.10.2"}
STATISTICS = {
    "argument_size": 4096,
    "output_size": 4096,
    "alias_size": 1024,
    "temp_size": 96,
    "generated_code_size": 300,
    "host_temp_size": 7,
}
BEHAVIOURS = {
    "success": "answer()",
    "rejects": "write({'error': 'INVALID_ARGUMENT: no\\x1b[31m such thing', 'kind': 'JaxRuntimeError'})",
    "too_old": "write({'error': \"cannot import name 'hlo_to_stablehlo'\", 'kind': 'ImportError'})",
    "unknown_flag": "write({'error': \"INVALID_ARGUMENT: No such compile option: 'xla_y'\"})",
    "out_of_memory": "write({'error': 'RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (56.00G) exceeds available HBM (15.75G).'})",
    "aborts": "print('F1128 17:00:00.123 11 topology.cc:12] Check failed: a == b'); print('    @ 0x1 frame\\n' * 999)\n"
    "sys.stdout.flush(); os.abort()",
    "exits": "print('the last words\\x1b[31m'); sys.exit(3)",
    "silent": "pass",
    "hangs": "time.sleep(60)",
    "prints": "print('x' * 1000 + '\\n', end='') or [print('y' * 99) for _ in range(20000)]; sys.exit(4)",
    "garbage": "open(os.path.join(folder, 'answer.json'), 'wb').write(b'\\xff\\x00{')",
    "no_module": "write({'memory': {}, 'cost': {}, 'seconds': 1, 'compiler': ''})",
    "bad_memory": "text('module.txt', OPTIMISED); write({**ANSWER, 'memory': {'argument_size': -1}})",
    "bad_module": "text('module.txt', 'HloModule a\\x1b[31m\\nENTRY e {'); write(ANSWER)",
    "leaves_a_child": "subprocess.Popen(['sleep', '60']); answer()",
}
_SCRIPT = """#!{python}
import json, os, subprocess, sys, time
folder = sys.argv[-1]
if sys.argv[2] == "-c":
    print(json.dumps({{name: number for name, number in {versions!r}.items() if name in ["python", *sys.argv[4:]]}}))
    sys.exit()
with open({log!r}, "a") as log:
    log.write(open(os.path.join(folder, "request.json")).read() + "\\n")
OPTIMISED, ASSIGNMENT = {optimised!r}, {assignment!r}
ANSWER = {{"memory": {statistics!r}, "cost": {{"flops": 8.0}}, "seconds": 1.5, "compiler": "a fake", "device": "fake"}}

def write(value):
    open(os.path.join(folder, "answer.json"), "w").write(json.dumps(value))

def text(name, contents):
    open(os.path.join(folder, name), "w").write(contents)

def answer():
    text("module.txt", OPTIMISED)
    text("dump/module_0000.jit_step.after_optimizations-buffer-assignment.txt", ASSIGNMENT)
    text("dump/module_0000.jit_step.before_optimizations.txt", "HloModule jit_step")
    write(ANSWER)

{behaviour}
"""


class FakeCompiler:
    """The fake interpreter of a folder, set as that of all platforms; `requests` are those that it got."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._log = folder / "requests.log"
        self.python = folder / "python"
        for name in ("HLOOM_TPU_PYTHON", "HLOOM_GPU_PYTHON", "HLOOM_CPU_PYTHON"):
            monkeypatch.setenv(name, str(self.python))
        monkeypatch.setenv("HLOOM_CACHE_DIR", str(folder / "cache"))
        self.plays("success")

    def plays(self, behaviour: str, versions: dict[str, str] = VERSIONS) -> None:
        """Let it answer by one of BEHAVIOURS."""
        text = _SCRIPT.format(
            python=sys.executable, versions=versions, log=str(self._log), optimised=OPTIMISED, assignment=ASSIGNMENT,
            statistics=STATISTICS, behaviour=BEHAVIOURS[behaviour],
        )  # fmt: skip
        self.python.write_text(text)
        self.python.chmod(0o755)

    @property
    def requests(self) -> list[str]:
        """The requests, as JSON."""
        return self._log.read_text().splitlines() if self._log.exists() else []


def fake_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """A fake compiler in a folder of its own."""
    home = folder / "fake"
    home.mkdir()
    return FakeCompiler(home, monkeypatch)
