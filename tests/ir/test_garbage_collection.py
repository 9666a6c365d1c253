"""Python's search for reference cycles is paused, and goes on afterwards only if it ran before."""

from __future__ import annotations

import gc

import pytest

from hloom.ir import paused_collection


@pytest.mark.parametrize("is_enabled", [True, False])
def test_cycles_are_searched_for_again_after_an_error_if_they_were_before(is_enabled: bool):
    before = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with pytest.raises(ValueError, match="error"), paused_collection():
            assert not gc.isenabled()
            raise ValueError("error")
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if before else gc.disable)()
