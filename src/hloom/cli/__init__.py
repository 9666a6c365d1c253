"""The program `hloom`: one file per subcommand, imported when it runs.

To add a subcommand, write a file with a click command called `command` and add it to `SECTIONS` in `main.py`. Shared
code is in `options.py` (arguments), `input.py` (loading the module, progress), `output.py` (text, JSON, files),
`tables.py` (tables on a terminal) and `plots/` (the roofline, memory over time).
"""

from hloom.cli.interrupt import interrupted

try:
    from hloom.cli.main import main as main
except KeyboardInterrupt:  # Ctrl-C during the quarter of a second that the imports take
    raise interrupted() from None
