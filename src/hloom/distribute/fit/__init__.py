"""Finds the fastest way to run a step on given devices: sharding, microbatches, recomputation, stages and donation.

`fit.py` starts the search. To add a kind of combination, edit `sharding_search.py` or `pipeline_search.py`; to change
its time or memory, `combination_cost.py`.
"""

from hloom.distribute.fit.combination import CAUSES as CAUSES
from hloom.distribute.fit.combination import Combination as Combination
from hloom.distribute.fit.combination import DeviceCost as DeviceCost
from hloom.distribute.fit.combination import Omission as Omission
from hloom.distribute.fit.donation import donate_state as donate_state
from hloom.distribute.fit.files import load_fit as load_fit
from hloom.distribute.fit.fit import fit as fit
from hloom.distribute.fit.result import FitResult as FitResult
