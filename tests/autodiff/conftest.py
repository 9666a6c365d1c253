"""The child that compares the corpus with JAX imports it under an environment of its own: it is not for pytest."""

collect_ignore = ["on_eight_devices.py"]
