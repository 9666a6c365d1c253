"""Damaged inputs of every kind that is read, through every subcommand that needs no XLA: a campaign.

`python -m tests.damage FIRST COUNT` tries the inputs of these numbers and prints what went wrong, an input to a line;
`python -m tests.damage --show NUMBER` writes one input out. To add a kind of input, add a function to `KINDS` of
`inputs.py`; to add what is done with one, a row to `COMMANDS` there.
"""
