"""Axes that divide nothing: what is sent is predicted as XLA's partitioner sends it."""

from __future__ import annotations

import pytest

from hloom.api.plan import plan
from hloom.formats.hlo import parse

GRADIENT = parse("""ENTRY e {
  x = f32[600,512] parameter(0)
  y = f32[600,1024] parameter(1)
  ROOT d = f32[512,1024] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}""")


@pytest.mark.parametrize(("mesh", "kinds"), [("x=3", {"all-gather", "all-to-all"}), ("x=4", {"reduce-scatter"})])
def test_partial_sums_are_scattered_in_even_parts_only(mesh: str, kinds: set[str]):
    planned = plan(GRADIENT, mesh, pins={"x": "[x,-]", "y": "[x,-]", "d": "[x,-]"})
    measured = planned.measure()
    assert set(measured.comm_bytes_by_opcode) == kinds
    assert planned.best.expected is not None
    assert planned.best.expected.sent == pytest.approx(measured.comm_bytes)


def test_one_device_is_measured_too():
    assert plan(GRADIENT, "x=1").measure().comm_bytes == 0
