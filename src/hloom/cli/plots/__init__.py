"""Plots on a terminal and as pictures: the roofline (`roofline.py`) and memory over a run (`memory.py`).

To add a plot, write a file here with a function `characters` for terminals and a function `svg`, from the parts in
`svg.py`.
"""
