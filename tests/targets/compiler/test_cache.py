"""The cache of compiled programs: what is kept, what is passed over, and its size."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from hloom.targets.compiler import cache
from hloom.targets.compiler.cache import cache_folder, cache_key, keep, read_cached


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path))


def folder() -> Path:
    """The folder that there is in these tests."""
    found = cache_folder()
    assert found is not None
    return found


def test_an_answer_is_read_back():
    key = cache_key({"target": "v5e"}, b"program")
    assert read_cached(key) is None
    keep(key, {"text": "a\ud800b"})
    assert read_cached(key) == {"text": "a\ud800b"}


def test_the_key_is_of_question_and_program():
    keys = {cache_key({"target": "v5e"}, b"a"), cache_key({"target": "v5e"}, b"b"), cache_key({"target": "v6e"}, b"a")}
    assert len(keys) == 3
    assert cache_key({"a": 1, "b": 2}, b"") == cache_key({"b": 2, "a": 1}, b"")


@pytest.mark.parametrize(
    "contents", [b"", b"no gzip", gzip.compress(b"[1]", mtime=0), gzip.compress(b'{"a": 1}', mtime=0)[:-9]]
)
def test_a_damaged_entry_is_passed_over(contents: bytes):
    folder().mkdir()
    (folder() / "key.json.gz").write_bytes(contents)
    assert read_cached("key") is None


def test_a_folder_that_cannot_be_written_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(file))
    keep("key", {"a": 1})
    assert read_cached("key") is None


def test_the_answers_used_least_recently_go_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "MOST_CACHE_BYTES", 100)
    for number, key in enumerate(("first", "second", "third")):
        keep(key, {"a": number})
        os.utime(folder() / f"{key}.json.gz", (number, number))
    keep("fourth", {"a": 4})
    assert read_cached("first") is None
    assert read_cached("fourth") == {"a": 4}


def test_the_folder_follows_the_users_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("HLOOM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "hloom" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "hloom" / "compiled"


def test_without_a_home_folder_nothing_is_kept_and_none_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("HLOOM_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it gives for a user without an account
    monkeypatch.chdir(tmp_path)
    keep("key", {"a": 1})
    assert cache_folder() is None
    assert read_cached("key") is None
    assert list(tmp_path.iterdir()) == []
