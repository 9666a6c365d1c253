"""Tables as plain text, which `print` of a table and of a report shows."""

from __future__ import annotations

from hloom.text import plain_table


def test_numbers_are_aligned_to_the_right_and_other_values_are_words():
    rows = [("dot", 12_000, 1.5, True, None), ("add", 7, 20.0, False, "x")]
    assert plain_table(("name", "flops", "time", "fused", "why"), rows).splitlines() == [
        "name   flops  time  fused  why",
        "dot   12,000   1.5   true",
        "add        7  20.0  false  x",
    ]


def test_a_table_without_rows_is_its_heading():
    assert plain_table(("name", "flops"), []) == "name  flops"
