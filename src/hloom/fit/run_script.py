"""The script that is written beside a combination's modules: it runs steps and compares them with one device's."""

from __future__ import annotations

RUN_SCRIPT = '''"""Run steps of the program beside this file on DEVICES devices, with random inputs.

    python run.py --steps 3 --check

A pipeline runs on jax's devices; on a CPU set XLA_FLAGS=--xla_force_host_platform_device_count=DEVICES. A sharded
program runs on virtual CPU devices. --check compares the first step with one device's.
"""

import argparse
from pathlib import Path

import hloom

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--check", action="store_true", help="compare the first step with one device's")
options = parser.parse_args()

folder = Path(__file__).resolve().parent
best = hloom.load_fit(folder)
state = {alias.output_index: alias.parameter for alias in best.module.attributes.get("input_output_alias") or ()}
alone = hloom.run(best.module, seed=options.seed)
inputs = list(alone.inputs)
pipeline = None
if best.pipeline is not None:
    pipeline = hloom.pipeline(best.module, best.pipeline, batch=best.batch)
else:
    sharded = hloom.load(folder / "module.hlo")
for step in range(options.steps):
    outputs = pipeline.step(*inputs) if pipeline is not None else hloom.run(sharded, inputs, devices=DEVICES).outputs
    outputs = list(outputs)
    if step == 0 and options.check:
        differences = hloom.compare(outputs, alone.outputs, 1e-3)
        print(*(differences or ["as on one device"]), sep="\\n")
        if differences:
            raise SystemExit(1)
    for index, parameter in state.items():
        inputs[parameter] = outputs[index[0] if index else 0]
print(f"{options.steps} steps of {best.name} on DEVICES devices")
'''


def run_script(devices: int) -> str:
    """The script for so many devices."""
    return RUN_SCRIPT.replace("DEVICES", str(devices))
