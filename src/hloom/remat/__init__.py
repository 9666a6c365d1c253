"""Rematerialisation: fits a program into a memory budget by recomputing values instead of keeping them.

To teach it another way of keeping two computations apart, edit `opaque_dependence.py`; what is chosen, `choice.py`; how
memory follows from a choice, `live_ranges.py`.
"""

import sys
from types import ModuleType

from hloom.ir import Module, ModuleLike
from hloom.remat.rematerialization import Rematerialization as Rematerialization
from hloom.remat.rematerialization import remat as remat
from hloom.remat.rematerialization import remat_in_place as remat_in_place
from hloom.remat.rematerialization import rematerialize as rematerialize


class _CallablePackage(ModuleType):
    """The package as a function: the package and what users call, `hloom.remat(module, "160MiB")`, have one name."""

    def __call__(
        self,
        module: ModuleLike,
        budget: int | str | None = None,
        *,
        temporaries: int | str | None = None,
        backend: str = "cpu",
        measure: str = "auto",
    ) -> Module:
        return remat(module, budget, temporaries=temporaries, backend=backend, measure=measure)


sys.modules[__name__].__class__ = _CallablePackage
