"""Files are read up to a limit: what is larger, endless, missing or no file is refused with the reason."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from time import sleep

import pytest

from hloom.text import HloomError, read_limited
from hloom.text import files as text_files
from hloom.text.files import read_stream


def test_a_file_of_the_limit_is_read_and_a_larger_one_refused(tmp_path: Path):
    path = tmp_path / "data"
    path.write_bytes(b"12345678")
    assert read_limited(path, 8) == b"12345678"
    with pytest.raises(HloomError) as caught:
        read_limited(path, 7)
    assert caught.value.message == f"cannot read {path}: it is larger than 7 bytes, the limit for such a file"


def test_a_stream_in_memory_has_the_same_limit():
    assert read_stream(io.BytesIO(b"1234"), 4, "x") == b"1234"
    with pytest.raises(HloomError, match="cannot read x: it is larger than 3 bytes"):
        read_stream(io.BytesIO(b"1234"), 3, "x")


def test_a_pipe_that_grows_beyond_the_limit_is_refused():
    reading, writing = os.pipe()
    os.write(writing, b"12345")
    os.close(writing)
    with os.fdopen(reading, "rb") as stream, pytest.raises(HloomError, match="larger than 4 bytes"):
        read_stream(stream, 4, "pipe")


def writes(path: Path, data: bytes, *, after: float = 0.0) -> threading.Thread:
    """Something that opens a named pipe, and writes after a while."""

    def write() -> None:
        with path.open("wb") as pipe:
            sleep(after)
            pipe.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    return writer


@pytest.mark.parametrize("data", [b"", b"1", b"1234567" * 100_000])
def test_a_named_pipe_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(text_files, "WRITER_SECONDS", 1.0)
    writer = writes(path, data, after=0.2)
    assert read_limited(path, 1_000_000) == data
    writer.join()


def test_a_named_pipe_whose_writer_takes_longer_than_one_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(text_files, "WRITER_SECONDS", 0.2)
    writer = writes(path, b"1234", after=0.5)
    assert read_limited(path, 4) == b"1234"
    writer.join()


def test_a_named_pipe_without_a_writer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr(text_files, "WRITER_SECONDS", 0.1)
    with pytest.raises(HloomError) as caught:
        read_limited(path, 10)
    assert caught.value.message == f"cannot read {path}: nothing writes into this pipe"
    assert caught.value.hint == "start what writes into it within 0 s"


def test_a_pipe_among_the_descriptors_is_read_whether_its_writer_has_gone_or_not():
    for data in (b"", b"1234"):
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        assert read_limited(f"/dev/fd/{reading}", 4) == data
        os.close(reading)


def test_a_device_is_no_file():
    with pytest.raises(HloomError) as caught:
        read_limited("/dev/zero", 10)
    assert caught.value.message == "cannot read /dev/zero: it is a device, neither a file nor a pipe"


def test_a_missing_file_names_near_ones(tmp_path: Path):
    (tmp_path / "step.hlo").write_text("")
    with pytest.raises(HloomError) as caught:
        read_limited(tmp_path / "stp.hlo", 10)
    assert caught.value.message == f"cannot read {tmp_path / 'stp.hlo'}: no such file or directory"
    assert caught.value.hint == f"near: {tmp_path / 'step.hlo'}"


def test_a_directory_is_no_file(tmp_path: Path):
    with pytest.raises(HloomError, match="is a directory"):
        read_limited(tmp_path, 10)
