"""Jobs of OneFlow's for tests: written in short, rewritten, compared as texts and as numbers."""

from __future__ import annotations

from hloom.dialects import oneflow
from hloom.ir import Module, dtype, verify
from hloom.ir.verify import Level
from hloom.ops import OPS
from hloom.passes import PASSES, apply
from hloom.rewrite import Report, explain


def job(arguments: str, body: str, returned: str) -> str:
    """A job: `%a: tensor<2xf32>`, its ops, and `%b : tensor<2xf32>`."""
    kinds = returned.split(" : ", 1)[1]
    return (
        f"module {{\n  oneflow.job @j({arguments}) -> ({kinds}) {{\n{body}\n    oneflow.return {returned}\n  }}\n}}\n"
    )


def rewritten(name: str, text: str, **options) -> tuple[Module, Report]:
    """What a pass makes of a job, verified."""
    module = oneflow.parse(text)
    assert verify(module).level is Level.HLO
    changed, report = apply(module, PASSES[name].with_options(**options))
    assert verify(changed).level is Level.HLO
    return changed, report


def assert_rewrites(name: str, before: str, after: str, **options) -> None:
    """A pass makes one job of another; the names of values and the order of attributes are as printed."""
    text, wanted = oneflow.to_text(rewritten(name, before, **options)[0]), oneflow.to_text(oneflow.parse(after))
    assert text == wanted, f"{name} made\n{text}\nand not\n{wanted}"


def assert_kept(name: str, text: str, reason: str) -> None:
    """A pass leaves a job as it is, and a rule of its says why at some node."""
    changed, report = rewritten(name, text)
    text = oneflow.to_text(changed)
    assert report.matched == 0, f"{name} made\n{text}"
    assert text == oneflow.to_text(oneflow.parse(text))
    reasons = {why for node in oneflow.parse(text).entry.nodes for _, why in explain(PASSES[name].rules, node)}
    assert any(reason in why for why in reasons), reasons


def lowered(module: Module) -> Module:
    """A job as HLO that takes its masks as bytes, whatever type they are used in."""
    lowered = oneflow.lower(module)
    graph, byte = lowered.entry, dtype("s8")
    for parameter in graph.parameters:
        parameter_type = parameter.type
        if parameter.name.startswith("mask") and parameter_type.dtype is not byte:  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
            users = list(parameter.users)
            graph.set_type(parameter, parameter_type.with_dtype(byte))  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
            wide = graph.add_apply(OPS["convert"], [parameter], parameter_type, before=users[0] if users else None)
            for user in users:
                graph.set_operands(user, [wide if operand is parameter else operand for operand in user.operands])
    return lowered
