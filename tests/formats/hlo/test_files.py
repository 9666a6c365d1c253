"""`load` and `save`: every kind of source, every suffix, limits, and what is said of what cannot be read.

Covers `file_io.py`, `compression.py`, `dump_directory.py`, `jax_program.py`.
"""

from __future__ import annotations

import builtins
import errno
import gzip
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import zstandard

from hloom.formats import protobuf as protobuf
from hloom.formats.hlo import (
    ForeignText,
    Limits,
    PrintOptions,
    SeveralModules,
    dump_modules,
    load,
    parse,
    print_module,
    save,
    to_text,
    write_folder,
    write_whole,
)
from hloom.formats.hlo import file_io as storage_module
from hloom.formats.hlo.proto import read_proto, write_proto
from hloom.ir import Module, equal
from hloom.text import HloomError, ParseError, Unsupported, read_limited

TEXT = """HloModule negation, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

ENTRY e {
  x = f32[2]{0} parameter(0)
  ROOT y = f32[2]{0} negate(x)
}
"""
PLAIN = parse(TEXT)
ROOT = Path(__file__).resolve().parents[3]
DATA = TEXT.encode()


def refused(source: object, **options: object) -> HloomError:
    with pytest.raises(HloomError) as caught:
        load(source, **options)  # type: ignore[arg-type]
    return caught.value


class Piped:
    """A standard input that holds some bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


# Sources


@pytest.mark.parametrize(
    "data",
    [DATA, gzip.compress(DATA), zstandard.compress(DATA), b"\xef\xbb\xbf" + DATA, TEXT.encode("utf-16")],
    ids=["text", "gzip", "zstd", "byte order mark", "utf-16"],
)
@pytest.mark.parametrize(
    "name", ["step.hlo", "step.txt", "step.gz", "step", "step.pb", "HloModule", "a{b}.hlo", "x = y"]
)
def test_contents_say_what_a_file_is(tmp_path: Path, data: bytes, name: str):
    path = tmp_path / name
    path.write_bytes(data)
    assert equal(load(path), PLAIN)
    assert equal(load(str(path)), PLAIN)
    assert equal(load(data), PLAIN)


def test_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", Piped(gzip.compress(DATA)))
    module = load("-")
    assert equal(module, PLAIN)
    assert module.source_name == "<stdin>"


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "ENTRY e { ROOT x = f32[2] parameter(0) }",
        "f { ROOT x = f32[2] parameter(0) }",
        "x = f32[2] add(a, b)",
        "%x = f32[2] add(f32[2] %a, f32[2] %b)",
        "ROOT x = f32[] add(a, b)",
        "// a comment\nx = f32[] add(a, b)",
    ],
)
def test_text(text: str):
    assert load(text).source_name == "<text>"


def test_a_line_that_names_a_file_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x = f32[] add(a, b)").write_text(TEXT)
    assert equal(load("x = f32[] add(a, b)"), PLAIN)


def test_a_module_is_itself():
    assert load(PLAIN) is PLAIN


def test_bytes_views():
    assert equal(load(bytearray(DATA)), PLAIN)
    assert equal(load(memoryview(DATA)), PLAIN)


def test_the_source_is_in_errors(tmp_path: Path):
    path = tmp_path / "bad.hlo"
    path.write_text("ENTRY e {\n  ROOT x = f32[2] parameter(0\n}\n")
    error = refused(path)
    assert isinstance(error, ParseError)
    assert str(error).splitlines()[0].startswith(f"{path}:3:1: ")


def test_strict_passes_through():
    text = "ENTRY e { ROOT y = f32[2] negate(nowhere) }"
    assert [unresolved.name for unresolved in load(text).unresolved] == ["nowhere"]
    assert isinstance(refused(text, strict=True), ParseError)


# Protos


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("name", ["step.hlo.pb", "step.pb.gz", "step", "step.txt"])
def test_protos(tmp_path: Path, pack, name: str):
    path = tmp_path / name
    path.write_bytes(pack(write_proto(PLAIN)))
    module = load(path)
    assert equal(module, PLAIN)
    assert module.source_name == str(path)


@pytest.mark.parametrize("name", ["a.pb", "a.hlo.pb", "a.pb.gz", "a.hlo.pb.zst"])
def test_saving_protos(tmp_path: Path, name: str):
    assert equal(load(save(PLAIN, tmp_path / name)), PLAIN)


def test_bytes_that_are_no_proto(tmp_path: Path):
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00")
    assert refused(path).message == f"{path}: these 8 bytes are not HloModuleProto, HloProto or HloSnapshot"


# What is refused


def test_a_missing_file(tmp_path: Path):
    (tmp_path / "step.hlo").write_text(TEXT)
    error = refused(str(tmp_path / "stpe.hlo"))
    assert error.message == f"cannot read {tmp_path / 'stpe.hlo'}: no such file or directory"
    assert error.hint == f"near: {tmp_path / 'step.hlo'}"


def test_a_missing_directory(tmp_path: Path):
    assert refused(tmp_path / "none" / "step.hlo").hint is None


def test_no_path_and_no_text():
    assert refused("jit_f").message == "cannot read jit_f: no such file or directory"
    assert "embedded null" in refused(Path("a\0b")).message


@pytest.mark.parametrize("empty", ["", "  ", b"", b"\n\n"])
def test_nothing(empty: object):
    assert refused(empty).message == "expected HLO, found an empty text"


def test_other_objects():
    assert refused(3).message == "cannot load a module from int"
    error = refused(lambda x: x)
    assert error.message == "cannot load a module from function"
    assert error.hint == "for a function, load jax.jit(f).lower(...)"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("module @jit_f {\n  func.func public @main() {\n  }\n}\n", "MLIR"),
        ('#loc1 = loc("x")\nmodule @jit_f {\n}\n', "MLIR"),
        ("module attributes {mhlo.num_partitions = 1 : i32} {\n}\n", "MLIR"),
        ("module {\n}\n", "MLIR"),
        ('"builtin.module"() ({\n}) : () -> ()\n', "MLIR"),
        ('hlo_module {\n  name: "f"\n}\n', "a proto in text form"),
        ("digraph G {\n  a -> b;\n}\n", "a drawing for Graphviz"),
        ("<!DOCTYPE html>\n<html>\n", "a page or a picture"),
    ],
)
def test_what_is_not_hlo_is_named(text: str, what: str):
    assert refused(text).message == f"this is {what}, not HLO text"


@pytest.mark.parametrize("name", ["module-1", "module.5", "modules"])
def test_what_only_begins_like_mlir_is_damaged_hlo(name: str):
    error = refused(f"{name}\n\nENTRY e {{\n  ROOT a = f32[2] parameter(0)\n}}\n")
    assert not isinstance(error, ForeignText)


def test_a_computation_called_module_is_hlo():
    assert load("module {\n  ROOT x = f32[2] parameter(0)\n}\n").entry.name == "module"


# Limits

ENDLESS = Path("/dev/zero")


@pytest.mark.skipif(not ENDLESS.is_char_device(), reason="no such device here")
def test_a_device_is_refused(monkeypatch: pytest.MonkeyPatch):
    assert refused(ENDLESS).message == "cannot read /dev/zero: it is a device, neither a file nor a pipe"
    with ENDLESS.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert refused("-").message == "cannot read the standard input: it is a device, neither a file nor a pipe"


def test_a_pipe_is_read_to_a_limit(tmp_path: Path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(DATA,))
    writer.start()
    assert equal(load(path), PLAIN)
    writer.join()
    writer = threading.Thread(target=path.write_bytes, args=(DATA,))
    writer.start()
    with pytest.raises(HloomError, match="it is larger than 10 bytes"):
        read_limited(path, 10)
    writer.join()


def test_a_file_is_read_to_a_limit(tmp_path: Path):
    path = tmp_path / "step.hlo"
    path.write_bytes(DATA)
    assert read_limited(path, len(DATA)) == DATA
    with pytest.raises(HloomError, match=f"it is larger than {len(DATA) - 1:,} bytes, the limit for such a file"):
        read_limited(path, len(DATA) - 1)


# Packing


def test_damaged_data(tmp_path: Path):
    path = tmp_path / "step.hlo.gz"
    path.write_bytes(gzip.compress(DATA)[:-9])
    expected = "the compressed data are damaged: Compressed file ended before the end-of-stream marker was reached"
    assert refused(path).message == f"{path}: {expected}"
    assert refused(b"\x1f\x8b garbage").message.startswith("<bytes>: the compressed data are damaged: ")
    assert refused(b"\x28\xb5\x2f\xfd garbage").message.startswith("<bytes>: the compressed data are damaged: ")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_data_that_grow_too_much(pack):
    packed = pack(b" " * 3_000_000 + DATA)
    assert equal(load(packed), PLAIN)
    assert equal(load(packed, limits=Limits(bytes=3_100_000, ratio=1e9, free=0)), PLAIN)
    for limits, size in ((Limits(bytes=1000), "1,000"), (Limits(ratio=2, free=5), f"{2 * len(packed):,}")):
        error = refused(packed, limits=limits)
        assert error.message == f"<bytes>: {len(packed):,} compressed bytes become more than {size}"
        assert error.hint and "limits=hloom.Limits(" in error.hint


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_data_that_grow_too_much_are_refused_early(pack):
    data = 4000 * pack(bytes(8_000_000))
    error = refused(data, limits=Limits(free=1_000_000))
    taken = int(error.message.split()[1].replace(",", ""))
    assert taken < len(data) / 2, error.message


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("data", [b"", DATA, os.urandom(300_000)], ids=["nothing", "text", "noise"])
def test_data_that_were_cut_are_refused(pack, data: bytes):
    """A file that was not copied as a whole is not a smaller program."""
    packed = pack(data)
    for cut in {1, 2, 3, 4, len(packed) // 2}:
        assert "the compressed data are damaged" in refused(packed[:-cut]).message, cut


def test_several_packed_pieces_are_one_text():
    halves = DATA[:30], DATA[30:]
    assert equal(load(b"".join(map(gzip.compress, halves))), PLAIN)
    assert equal(load(b"".join(map(zstandard.compress, halves))), PLAIN)


def test_zstandard_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    real = builtins.__import__

    def without(name: str, *arguments, **keywords):
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    packed = zstandard.compress(DATA)
    monkeypatch.setattr(builtins, "__import__", without)
    for attempt in (lambda: load(packed), lambda: save(PLAIN, tmp_path / "x.hlo.zst")):
        with pytest.raises(Unsupported) as caught:
            attempt()
        assert str(caught.value) == "reading and writing .zst needs zstandard\n  pip install 'hloom[zst]'"
    assert equal(load(gzip.compress(DATA)), PLAIN)


# Dumps


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A directory as XLA writes it: jit_f at four stages, jit_g at two, jit_h.12 at one, and what is not a module."""
    names = """
        module_0004.jit_f.before_optimizations.txt
        module_0004.jit_f.0001.simplification.after_dce.before_algsimp.txt
        module_0004.jit_f.0000.sharding-removal.after_pipeline-start.before_dce.txt
        module_0004.jit_f.cpu_after_optimizations.txt
        module_0004.jit_f.cpu_after_optimizations-buffer-assignment.txt
        module_0004.jit_f.cpu_after_optimizations-memory-usage-report.txt
        module_0004.jit_f.debug_options
        module_0004.jit_f.__compute_module.ir-no-opt.ll
        module_0006.jit_g.before_optimizations.txt
        module_0006.jit_g.sm_8.0_gpu_after_optimizations.txt
        module_0008.jit_h.12.before_optimizations.txt.gz
    """
    for name in names.split():
        module, stage = name.split(".")[1], name.removesuffix(".gz").removesuffix(".txt").partition(".jit_")[2]
        text = (
            f'HloModule {module}, frontend_attributes={{stage="{stage}"}}\nENTRY e {{ ROOT x = f32[] parameter(0) }}\n'
        )
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "module_0004.jit_f").mkdir()
    return tmp_path


def test_dump_modules(dump: Path):
    assert [(dumped.label, dumped.stage) for dumped in dump_modules(dump)] == [
        ("module_0004.jit_f", "before_optimizations"),
        ("module_0004.jit_f", "0000.sharding-removal.after_pipeline-start.before_dce"),
        ("module_0004.jit_f", "0001.simplification.after_dce.before_algsimp"),
        ("module_0004.jit_f", "cpu_after_optimizations"),
        ("module_0006.jit_g", "before_optimizations"),
        ("module_0006.jit_g", "sm_8.0_gpu_after_optimizations"),
        ("module_0008.jit_h.12", "before_optimizations"),
    ]


@pytest.mark.parametrize(
    ("module", "stage", "file"),
    [
        ("jit_f", None, "module_0004.jit_f.before_optimizations.txt"),
        ("jit_f", "before_optimizations", "module_0004.jit_f.before_optimizations.txt"),
        ("jit_f", "after_optimizations", "module_0004.jit_f.cpu_after_optimizations.txt"),
        ("module_0004", "0001", "module_0004.jit_f.0001.simplification.after_dce.before_algsimp.txt"),
        ("jit_g", "gpu_after_optimizations", "module_0006.jit_g.sm_8.0_gpu_after_optimizations.txt"),
        ("module_0008.jit_h.12", None, "module_0008.jit_h.12.before_optimizations.txt.gz"),
    ],
)
def test_choosing_from_a_dump(dump: Path, module: str, stage: str | None, file: str):
    loaded = load(dump, module=module, stage=stage)
    assert loaded.source_name == str(dump / file)
    assert loaded.name == file.split(".")[1]


def test_several_modules_are_listed(dump: Path):
    (dump / "module_0006.jit_g.before_optimizations.txt").write_text(TEXT + "// " + 1000 * "long ")
    error = refused(str(dump))
    largest = len(TEXT) + 5003
    sizes = [max(path.stat().st_size for path in dump.glob(f"*.{name}*.txt*")) for name in ("jit_f", "jit_h")]
    assert str(error) == "\n".join(
        (
            f"{dump} holds 3 modules: name one, as in '{dump}/module_0006.jit_g', the largest",
            f"  {largest:,} bytes  module_0006.jit_g: before_optimizations, sm_8.0_gpu_after_optimizations",
            f"  {sizes[0]:5} bytes  module_0004.jit_f: before_optimizations, cpu_after_optimizations, 2 passes between",
            f"  {sizes[1]:5} bytes  module_0008.jit_h.12: before_optimizations",
            f"  hloom inspect {dump} counts instructions and FLOPs of the largest",
        )
    )
    assert isinstance(error, SeveralModules)
    assert (error.modules[0].label, error.modules[0].size) == ("module_0006.jit_g", largest)


@pytest.mark.parametrize("name", ["jit_f", "module_0004", "module_0004.jit_f"])
def test_a_module_of_a_dump_named_by_path(dump: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    assert load(dump / name).name == "jit_f"
    assert load(f"{dump}/{name}", stage="after_optimizations").source_name.endswith("cpu_after_optimizations.txt")
    monkeypatch.chdir(dump)
    assert load(Path(name)).name == "jit_f"


def test_a_link_out_of_a_dump_is_refused(tmp_path: Path):
    outside, inside = tmp_path / "secret.hlo", tmp_path / "dump"
    inside.mkdir()
    outside.write_text(TEXT)
    (inside / "step.hlo").symlink_to(outside)
    error = refused(inside)
    assert error.message == f"{inside / 'step.hlo'} is a symbolic link out of the directory, to {outside}"
    assert error.hint == "name that file itself to read it"
    assert equal(load(inside / "step.hlo"), PLAIN)
    (inside / "real.hlo").write_text(TEXT)
    (inside / "alias.hlo").symlink_to("real.hlo")
    assert equal(load(inside, module="alias"), PLAIN)
    (tmp_path / "link").symlink_to(inside)
    assert equal(load(tmp_path / "link", module="real"), PLAIN)


def test_no_such_module_or_stage(dump: Path):
    error = refused(dump, module="jit_i")
    assert error.message == f"{dump} holds no module 'jit_i'"
    assert error.hint == "near: jit_g, jit_f, jit_h.12"
    error = refused(dump, module="jit_g", stage="0007")
    assert error.message == "module_0006.jit_g has no stage '0007'"
    assert error.hint == "stages: before_optimizations, sm_8.0_gpu_after_optimizations"
    (dump / "module_0006.jit_g.cpu_after_optimizations.txt").write_text(TEXT)
    error = refused(dump, module="jit_g", stage="after_optimizations")
    assert error.message == "module_0006.jit_g has 2 stages 'after_optimizations'"
    assert error.hint == "stages: cpu_after_optimizations, sm_8.0_gpu_after_optimizations"


def test_one_module_needs_no_name(tmp_path: Path):
    for stage in ("before_optimizations", "cpu_after_optimizations"):
        (tmp_path / f"module_0000.jit_f.{stage}.txt").write_text(TEXT)
    assert load(tmp_path).source_name.endswith("before_optimizations.txt")


def test_a_directory_of_plain_files(tmp_path: Path):
    (tmp_path / "step.hlo").write_text(TEXT)
    (tmp_path / "notes.md").write_text("not a module")
    assert equal(load(tmp_path), PLAIN)
    (tmp_path / "other.hlo.gz").write_bytes(gzip.compress(DATA))
    assert equal(load(tmp_path, module="other"), PLAIN)
    assert refused(tmp_path).message == f"{tmp_path} holds 2 modules: name one, as in '{tmp_path}/step', the largest"


def test_an_empty_directory(tmp_path: Path):
    error = refused(tmp_path)
    assert str(error) == f"{tmp_path} holds no HLO\n  XLA writes it with XLA_FLAGS=--xla_dump_to=DIR"


def test_module_of_what_is_no_directory(tmp_path: Path):
    path = tmp_path / "step.hlo"
    path.write_text(TEXT)
    expected = "it is not a directory, so module= and stage= (--module, --stage) have nothing to choose from"
    assert refused(path, module="x").message == f"cannot read {path}: {expected}"
    assert refused(TEXT, stage="x").message == "module= and stage= (--module, --stage) choose from a directory, and this is not one"


# Saving


@pytest.mark.parametrize("name", ["a.hlo", "a.txt", "a.hlo.gz", "a.txt.zst", "A.HLO", "b.c.hlo"])
def test_saved_modules_load(tmp_path: Path, name: str):
    path = save(PLAIN, tmp_path / name)
    assert path == tmp_path / name
    assert equal(load(path), PLAIN)
    assert os.listdir(tmp_path) == [name]


def test_the_same_module_is_saved_as_the_same_bytes(tmp_path: Path):
    for suffix in (".gz", ".zst"):
        one, other = (save(PLAIN, tmp_path / f"{number}.hlo{suffix}").read_bytes() for number in range(2))
        assert one == other


def test_saving_with_options(tmp_path: Path):
    path = save(PLAIN, tmp_path / "a.hlo", PrintOptions.short_parsable())
    assert path.read_text() == print_module(PLAIN, PrintOptions.short_parsable())


@pytest.mark.parametrize("name", ["a", "a.json", "a.gz", "a.hlo.bz2"])
def test_other_suffixes(tmp_path: Path, name: str):
    with pytest.raises(Unsupported) as caught:
        save(PLAIN, tmp_path / name)
    assert caught.value.message == f"cannot save into '{name}': the suffix does not name a format"
    assert caught.value.hint == "the suffixes are .hlo, .txt, .pb, each also followed by .gz or .zst"
    assert not os.listdir(tmp_path)


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.hlo"
    path.write_text("before")

    def full(self: Path, data: bytes) -> int:
        with open(self, "wb") as stream:
            stream.write(data[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage_module.Path, "write_bytes", full)
    with pytest.raises(HloomError) as caught:
        save(PLAIN, path)
    assert caught.value.message == f"cannot write {path}: no space left on device"
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.hlo"]


def test_writing_keeps_modes_and_links(tmp_path: Path):
    path = tmp_path / "a.hlo"
    path.write_text("before")
    path.chmod(0o640)
    (tmp_path / "link.hlo").symlink_to(path)
    write_whole(tmp_path / "link.hlo", "after")
    assert (tmp_path / "link.hlo").is_symlink()
    assert path.read_text() == "after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_writing_to_what_is_no_file(tmp_path: Path):
    assert write_whole("/dev/null", "gone") == Path("/dev/null")
    with pytest.raises(HloomError, match=f"^cannot write {tmp_path}: is a directory$"):
        write_whole(tmp_path, "text")
    with pytest.raises(HloomError, match=r"no such file or directory$"):
        write_whole(tmp_path / "none" / "a.hlo", "text")


# Text by name


def test_forms():
    assert to_text(PLAIN) == print_module(PLAIN)
    assert to_text(PLAIN, "short") == print_module(PLAIN, PrintOptions.short_parsable())
    assert to_text(PLAIN, "canonical") == print_module(PLAIN, PrintOptions.canonical())
    assert to_text(PLAIN, PrintOptions(percent=False)) == print_module(PLAIN, PrintOptions(percent=False))
    assert to_text(PLAIN, "ir").startswith("# module: negation\n")


def test_another_form():
    with pytest.raises(Unsupported) as caught:
        to_text(PLAIN, "mlir")
    assert str(caught.value) == "no form of text is called 'mlir'\n  the forms are hlo, short, canonical, ir"


# What jax makes


class Computation:
    """What has XLA's method for its proto."""

    def as_serialized_hlo_module_proto(self) -> bytes:
        return b"\x0a\x01f"


class Compiled:
    """A compiled program of some modules."""

    def __init__(self, count: int) -> None:
        self.count = count

    def runtime_executable(self) -> Compiled:
        return self

    def hlo_modules(self) -> list[Computation]:
        return [Computation()] * self.count


class Lowered:
    """A lowered program."""

    def compiler_ir(self, dialect: str) -> Computation:
        assert dialect == "hlo"
        return Computation()


class Traced:
    """A traced program."""

    jaxpr = None

    def lower(self) -> Lowered:
        return Lowered()


@pytest.mark.parametrize("source", [Computation(), Compiled(1), Lowered(), Traced()])
def test_lowerings_are_read_from_their_protos(source: object, monkeypatch: pytest.MonkeyPatch):
    read: list[bytes] = []

    def read_proto(data: bytes, name: str) -> Module:
        read.append(data)
        return Module()

    monkeypatch.setattr("hloom.formats.hlo.proto.read_proto", read_proto)
    assert load(source).source_name == f"<{type(source).__name__}>"
    assert read == [b"\x0a\x01f"]


def test_lowerings_of_several_modules():
    assert refused(Compiled(2)).message == "a compiled program of 2 modules: one is expected"


def test_programs_of_jax_itself():
    """Lowered, compiled, traced; a constant of 20 elements, which jax's text would leave out, is whole."""
    code = """
import jax, numpy as np, hloom
table = np.arange(20, dtype=np.float32) ** 3 % 7
traced = jax.jit(lambda x: x * table).trace(np.ones(20, np.float32))
lowered = traced.lower()
for source in (traced, lowered, lowered.compile(), lowered.compiler_ir("hlo")):
    module = hloom.load(source)
    values = [node.value for node in module.nodes() if node.opcode == "constant"]
    print(type(source).__name__, module.name, [value.is_elided for value in values if value.type.dims == (20,)])
"""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    names = ("Traced", "Lowered", "Compiled", "XlaComputation")
    assert done.stdout.splitlines() == [f"{name} jit__lambda [False]" for name in names], done.stderr


def test_a_saved_proto_keeps_what_the_module_carries(tmp_path):
    plain = parse("HloModule a ENTRY e { x = f32[2]{0} parameter(0) ROOT y = f32[2]{0} negate(x) }")
    proto = protobuf.HloProto(hlo_module=protobuf.HloModuleProto.FromString(write_proto(plain)))
    proto.buffer_assignment.logical_buffers.add(id=1, size=8)
    module = read_proto(proto.SerializeToString())
    save(module, tmp_path / "x.pb")
    assert load(tmp_path / "x.pb").attachments["buffer_assignment"].logical_buffers[0].size == 8


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path):
    folder = write_folder(tmp_path / "new", {"a.hlo": "one", "b.json": "two"})
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a.hlo": "one", "b.json": "two"}
    (tmp_path / "empty").mkdir()
    assert write_folder(tmp_path / "empty", {"a": "1"}) == tmp_path / "empty"
    for name, message in (("new", "is not empty"), ("new/a.hlo", "is a file"), ("none/x", "no such file or directory")):
        with pytest.raises(HloomError, match=message):
            write_folder(tmp_path / name, {"a": "1"})
    with pytest.raises(HloomError, match="cannot write"):
        write_folder(tmp_path / "half", {"a": "1", "no/such": "2"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"]


def test_a_file_system_that_is_read_alone_is_said_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """There, not even a missing file can be removed: the system would name the file beside the target."""

    def refuse(path: object, *arguments: object, **options: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(HloomError) as caught:
        write_whole(tmp_path / "m.hlo", "text")
    assert str(caught.value) == f"cannot write {tmp_path / 'm.hlo'}: read-only file system"


def test_a_file_that_may_only_be_read_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.hlo"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(HloomError, match=f"^cannot write {path}: the file may only be read$"):
        write_whole(path, "new")
    assert path.read_text() == "old" and [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("stream", [None, io.StringIO("text")], ids=["closed", "in memory"])
def test_no_standard_input(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None):
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(HloomError, match="cannot read the standard input: it is closed"):
        load("-")
