"""The programs import packages that the other tests do without."""

collect_ignore_glob = ["*.py"]
