"""Reading and printing undo each other, over generated modules; and MLIR itself prints the same.

Covers `printer.py`, `types.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from hloom.formats import mlir
from hloom.ir import difference, verify
from tests.formats.mlir.modules import modules
from tests.helpers.properties import examples

OTHERWISE = ("func", "oneflow", "affine_map", "!y<", "#x.layout", "0x00FF")
"""What jaxlib's MLIR does not know, prints through aliases, or (raw bytes) decodes."""

SETTINGS = examples(40)


@SETTINGS
@given(modules())
def test_a_printed_module_reads_as_the_same(text):
    module = mlir.parse(text)
    printed = mlir.to_text(module)
    again = mlir.parse(printed)
    assert difference(module, again) is None
    assert mlir.to_text(again) == printed
    assert mlir.to_text(module.clone()) == printed
    if module.graphs:
        verify(module)


@SETTINGS
@given(modules())
def test_mlir_prints_the_same(text):
    ir = pytest.importorskip("jaxlib.mlir.ir")
    if any(spelling in text for spelling in OTHERWISE):
        return
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        try:
            known = ir.Module.parse(text)
        except ir.MLIRError:
            return
        ours = mlir.parse(text)
        if text.startswith("module"):
            assert mlir.to_text(ours) == str(known).rstrip() + "\n"
        printed = known.operation.get_asm(print_generic_op_form=True).rstrip() + "\n"
        assert mlir.to_text(mlir.parse(printed)) == printed
