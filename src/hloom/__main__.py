"""`python -m hloom`: the program `hloom`, where it is not installed."""

from hloom.cli import main

main(prog_name="hloom")
