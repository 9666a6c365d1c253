"""The program `hloom`: one file per subcommand, found when it is asked for.

To add a subcommand, write a file with a click command called `command` and name it in `COMMANDS` of `main.py`; what
all share is in `options.py` (arguments), `reading.py` (the module, progress) and `writing.py` (tables, files).
"""

from hloom.cli.main import main as main
