"""Finds the best way to run a step on given devices: sharding, microbatches, recomputation, stages and donation.

To add a kind of combination, edit `sharding_search.py` or `pipeline_search.py`; to change what one is said to take,
`combination_cost.py`.
"""

import sys
from types import ModuleType
from typing import Any

from hloom.fit.combination import CAUSES as CAUSES
from hloom.fit.combination import Combination as Combination
from hloom.fit.combination import DeviceCost as DeviceCost
from hloom.fit.combination import Omission as Omission
from hloom.fit.donation import donate_state as donate_state
from hloom.fit.files import load_fit as load_fit
from hloom.fit.fit import fit as fit
from hloom.fit.result import FitResult as FitResult
from hloom.ir import ModuleLike


class _CallablePackage(ModuleType):
    """The package as a function: the package and what users call, `hloom.fit(module, devices=8)`, have one name."""

    def __call__(self, module: ModuleLike, devices: int, **options: Any) -> FitResult:
        return fit(module, devices, **options)


sys.modules[__name__].__class__ = _CallablePackage
