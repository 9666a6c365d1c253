"""Kernels that wait for others, which free more memory than they take."""

from __future__ import annotations

import pytest

import hloom
from hloom.distribute.remat.kernel_order import Wait, find_waits, write_waits
from hloom.distribute.remat.opaque_dependence import SELECT
from hloom.distribute.remat.stored_values import find_stored_values
from hloom.ir import Module
from hloom.targets.cpu import simulate_buffers
from hloom.testing import assert_equivalent

BIG = "f32[512,512]"
TEXT = f"""HloModule m
ENTRY main {{
  x = {BIG} parameter(0)
  a = f32[8,8] parameter(1)
  g = f32[512,8] parameter(2)
  h = f32[512] parameter(3)
  p = {BIG} dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[8,8] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = {BIG} tanh(p)
  c = f32[8,8] dot(b, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  row = f32[512] dot(e, h), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  f = f32[512,8] dot(g, c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  rows = {BIG} broadcast(row), dimensions={{0}}
  k = {BIG} sine(rows)
  v = f32[512,8] dot(e, f), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  w = f32[512,8] dot(k, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT t = f32[512,8] add(w, v)
}}
"""
"""k is computed while e is still kept for v."""


def prepared() -> Module:
    module = hloom.parse(TEXT)
    module.index_users()
    return module


def test_a_product_that_frees_its_operand_runs_before_what_needs_much():
    module = prepared()
    stored = find_stored_values(module)
    waits = find_waits(stored, stored.peak - 100_000)
    assert waits == [Wait("k", "v")]
    write_waits(module.entry, stored, waits, SELECT)
    assert hloom.verify(module).level.name == "HLO"
    assert simulate_buffers(module.clone()).peak < stored.peak - 900_000
    assert_equivalent(module, hloom.parse(TEXT))


def test_where_it_fits_nothing_waits():
    stored = find_stored_values(prepared())
    assert find_waits(stored, stored.peak) == []


def test_nothing_waits_for_what_is_computed_from_it():
    module = prepared()
    before = hloom.print(module)
    write_waits(module.entry, find_stored_values(module), [Wait("e", "w"), Wait("k", "k")], SELECT)
    assert hloom.print(module) == before


def test_a_refusal_names_the_branches_that_hold_much():
    dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    products = "\n".join(
        f"p{n + 1} = {BIG} dot(p{n}, p0), {dot}\nq{n + 1} = {BIG} sine(p{n + 1})" for n in range(4)
    )
    joined = "\n".join(f"s{n} = {BIG} dot(s{n - 1}, q{n}), {dot}" for n in range(2, 5)).replace("s1", "q1")
    module = hloom.parse(f"""HloModule m
    many {{ p0 = {BIG} parameter(0)
    {products}
    {joined}
    ROOT r = {BIG} negate(s4) }}
    none {{ ROOT p = {BIG} parameter(0) }}
    ENTRY main {{ i = s32[] parameter(0)
                  x = {BIG} parameter(1)
                  y = {BIG} sine(x)
                  c = {BIG} conditional(i, y, y), branch_computations={{many, none}}
                  ROOT z = {BIG} add(c, x) }}""")
    with pytest.raises(hloom.HloomError, match=r"loops and branches that hold much inside: c \(conditional, [\d,]+ bytes"):
        hloom.remat(module, "4MB")
