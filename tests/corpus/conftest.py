"""The programs import jax under an environment of their own: they are for the child that `cache` starts, not for pytest."""

collect_ignore = ["lowering.py", "programs", "worker.py"]
