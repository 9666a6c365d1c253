"""Ops that only a backend or the host can execute."""

from __future__ import annotations

from hloom.evaluator.table import none

none("custom-call", because="only the backend knows what the target computes")
none("infeed", because="nothing feeds it")
none("outfeed", because="nothing takes it")
