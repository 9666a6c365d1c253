"""Differentiation of HLO modules: gradients, vector-Jacobian and Jacobian-vector products, as modules.

    gradient = hloom.grad(module, wrt=["weights"])

Calls and branches are differentiated in `calls.py`, while loops in `loops.py`, which chooses between stacking all
states, `checkpointing.py`, `elementwise_loops.py` and `last_iteration.py`. To add the derivative of an opcode, write a
rule in its family's file in `rules`.
"""

from hloom.autodiff.emitter import Emitter as Emitter
from hloom.autodiff.emitter import add_reducer as add_reducer
from hloom.autodiff.emitter import flatten as flatten
from hloom.autodiff.emitter import identity_value as identity_value
from hloom.autodiff.emitter import leaf_types as leaf_types
from hloom.autodiff.emitter import unflatten as unflatten
from hloom.autodiff.rules.custom import custom_call as custom_call
from hloom.autodiff.table import RULES as RULES
from hloom.autodiff.table import DerivativeRule as DerivativeRule
from hloom.autodiff.transform import Which as Which
from hloom.autodiff.transform import grad as grad
from hloom.autodiff.transform import jvp as jvp
from hloom.autodiff.transform import parameters_of as parameters_of
from hloom.autodiff.transform import value_and_grad as value_and_grad
from hloom.autodiff.transform import vjp as vjp
from hloom.autodiff.transform import vjp_parts as vjp_parts
from hloom.autodiff.widen import in_double_precision as in_double_precision
