"""The programs are imported by their table alone: they hold no tests of their own."""

from __future__ import annotations

collect_ignore_glob = ["programs/*"]
