"""Where XLA's numbers are compared bit by bit, it compiles as it does for users."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hloom.runtime import worker_client
from tests.helpers import xla_flags


@pytest.fixture(scope="package", autouse=True)
def fusion_emitters() -> Iterator[None]:
    """Run these programs in a worker whose functions are those of XLA's fusion emitters, which the evaluator follows."""
    worker_client.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} {xla_flags.fusion_emitters(True)}".strip())
        yield
        worker_client.close()
