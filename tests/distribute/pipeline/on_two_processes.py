"""A pipeline whose stages are on the devices of two processes: each prints what was wrong.

python -m tests.distribute.pipeline.on_two_processes PROCESS PORT
"""

from __future__ import annotations

import os
import sys
import traceback

import jax

from tests.distribute.pipeline import on_eight_devices as programs


def main(process: int, port: int) -> None:
    """Run the steps of a pipeline, and compare what this process has of the results with the whole step."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", 2, process, initialization_timeout=60)
    assert len(jax.devices()) == 4
    programs.one_stage_per_process()
    sys.stdout.write("as the whole step\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # a shutdown would wait for the other process
