"""OneFlow's fusions and foldings, as declared rules: one subject per file, each offered as a pass by name.

To add one, declare a rule in the file of its subject (with `rows=OPS`) and list its pass here; what a rule computes
beyond arithmetic is a native function in `native_functions.py`, called by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloom.dialects.oneflow.passes.addition import FUSE_ADD_N, FUSE_BIAS_ADD_GELU
from hloom.dialects.oneflow.passes.attention import FUSE_ATTENTION
from hloom.dialects.oneflow.passes.batch_norm import FUSE_NORMALIZATION
from hloom.dialects.oneflow.passes.casts import remove_cast_to_same_type
from hloom.dialects.oneflow.passes.convolution import FOLD_BATCH_NORM, fold_pad_into_conv
from hloom.dialects.oneflow.passes.dropout import fuse_bias_add_dropout, fuse_bias_add_dropout_with_mask
from hloom.dialects.oneflow.passes.gated_linear_unit import FUSE_GLU
from hloom.dialects.oneflow.passes.scaled_triangle import FUSE_SCALE_TRIL
from hloom.passes import Pass, register_pass, rules_pass
from hloom.rewrite import Rule

RULES: dict[str, tuple[Rule, ...]] = {
    "fuse-attention-inference": FUSE_ATTENTION,
    "fuse-glu": FUSE_GLU,
    "fuse-bias-add-gelu": FUSE_BIAS_ADD_GELU,
    "fuse-normalization-add-relu": FUSE_NORMALIZATION,
    "fuse-add-n": FUSE_ADD_N,
    "fold-pad-into-conv": (fold_pad_into_conv,),
    "fold-batch-norm-into-conv": FOLD_BATCH_NORM,
    "remove-cast-to-same-type": (remove_cast_to_same_type,),
    "fuse-scale-tril": FUSE_SCALE_TRIL,
}
"""The rules of each pass but that of dropout, which takes a seed."""

DROPOUT = "fuse-bias-add-dropout"
SEED = ("seed",)


def dropout_rules(seed: int | None = None) -> tuple[Rule, ...]:
    """The rules of `fuse-bias-add-dropout` for a seed."""
    return (fuse_bias_add_dropout(seed), fuse_bias_add_dropout_with_mask(seed))


def all_rules(seed: int | None = None) -> tuple[Rule, ...]:
    """The rules of all passes, for a seed."""
    return (*dropout_rules(seed), *(rule for rules in RULES.values() for rule in rules))


def _offer(
    name: str, summary: str, rules: Sequence[Rule] | Callable[..., Sequence[Rule]], options: Sequence[str] = ()
) -> Pass:
    return register_pass(name, summary, rules_pass(name, rules).run, options)


_offer(DROPOUT, "bias_add and dropout as one op and a mask; --seed gives the first mask's seed", dropout_rules, SEED)
for _name, _rules in RULES.items():
    _offer(_name, _rules[0].statement.strip().split("\n")[0], _rules)
_offer("oneflow", "all fusions and foldings of OneFlow's ops; --seed gives the first mask's seed", all_rules, SEED)
