"""Rematerialisation: fits a program into a memory budget by recomputing values instead of keeping them.

To add another way to keep two computations of a value apart, edit `opaque_dependence.py`; to change which values are
recomputed, `choice.py`; how memory follows from a choice, `live_ranges.py`.
"""

from hloom.distribute.remat.rematerialization import Rematerialization as Rematerialization
from hloom.distribute.remat.rematerialization import remat as remat
from hloom.distribute.remat.rematerialization import remat_in_place as remat_in_place
from hloom.distribute.remat.rematerialization import rematerialize as rematerialize
