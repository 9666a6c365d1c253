"""Write docs/opcodes.md: what hloom supports for every opcode, concern by concern, and the reason for each gap.

python scripts/make_opcode_table.py
"""

from __future__ import annotations

from pathlib import Path

from hloom.analysis import cost_rule
from hloom.autodiff import RULES as DERIVATIVES
from hloom.autodiff import DerivativeRule as Derivative
from hloom.evaluator import TABLE
from hloom.ir import Op
from hloom.ops import OPS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "opcodes.md"
CONCERNS = ("infer", "axes", "evaluate", "flops", "bytes", "effect", "derivative")
YES, SOME, NONE = "yes", "some", "none"

HEAD = """# Opcodes

What does hloom support for each opcode? `scripts/make_opcode_table.py` makes this page from the source; a test keeps it
up to date, and fails if an opcode has neither a rule nor a reason.

| concern | meaning | where |
|---|---|---|
| infer | the result's type, from the operands' types and the attributes | the op's row in `src/hloom/ops` |
| axes | which dimensions move together | the op's row in `src/hloom/ops` |
| evaluate | the value, computed with numpy | the families of `src/hloom/evaluator` |
| flops | operations: `xla` as XLA counts them, `both` with a mathematical count as well | `src/hloom/analysis/rules` |
| bytes | bytes read and written, as for flops | `src/hloom/analysis/rules` |
| effect | its side effect, or none | the op's row in `src/hloom/ops` |
| derivative | a rule; as others (expanded into them); engine (built in); zero; none | `src/hloom/autodiff/rules` |

A number in brackets refers to the reason below the table.
"""


def holes() -> list[str]:
    """The concerns without a rule or a reason, such as `dot: axes`."""
    missing: list[str] = []
    for name, op in OPS.items():
        missing += [f"{name}: {concern}" for concern in CONCERNS if cell(op, concern) == ("", "")]
    return missing


def cell(op: Op, concern: str) -> tuple[str, str]:
    """The table's text and the reason for it; both are empty if there is neither a rule nor a reason."""
    if concern in ("infer", "axes"):
        has_rule, because = getattr(op, concern) is not None, op.because.get(concern, "")
        return (YES, "") if has_rule else (NONE, because) if because else ("", "")
    if concern == "evaluate":
        row = TABLE.get(op.name)
        if row is None:
            return "", ""
        computes = (SOME if row.because else YES) if row.function is not None else NONE
        return (computes, row.because) if computes != NONE or row.because else ("", "")
    if concern == "effect":
        return (op.effect.value if op.effect is not None else NONE), ""
    if concern == "derivative":
        return _derivative(DERIVATIVES.get(op.name))
    rule = cost_rule(op)
    if rule is None:
        return "", ""
    return ("both", rule.because) if rule.mathematical is not None else ("xla", "")


def _derivative(rule: Derivative | None) -> tuple[str, str]:
    if rule is None:
        return "", ""
    if rule.because:
        return ("zero" if rule.is_zero else NONE), rule.because
    if rule.structural:
        return "engine", ""
    return ("rule" if rule.linearize is not None else "as others"), ""


def page() -> str:
    """The whole page."""
    reasons: dict[str, int] = {}
    lines = [HEAD, f"| opcode | {' | '.join(CONCERNS)} |", f"|---|{'---|' * len(CONCERNS)}"]
    for name in sorted(OPS):
        cells = []
        for concern in CONCERNS:
            text, because = cell(OPS[name], concern)
            number = reasons.setdefault(because, len(reasons) + 1) if because else 0
            cells.append(f"{text} [{number}]" if number else text)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    notes = [f"{number}. {because}" for because, number in reasons.items()]
    return "\n".join([*lines, "", "## Reasons", "", *notes, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
