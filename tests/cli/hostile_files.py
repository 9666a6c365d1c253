"""Files that nobody should hand to hloom: empty, endless, packed to burst, nested without end, claiming what they have not.

`FILES` are the ones that any option for a file may get, whatever it expects; `MODULES` are texts and protos of programs.
`LARGE` are the same at the size at which quadratic work or a copy per level would be noticed: for the long sweep.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable

Maker = Callable[[], bytes]
HUGE = 99_999_999_999


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def nested(field: int, depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = message(field, data)
    return data


def npz(**headers: str) -> bytes:
    """An archive of arrays whose headers claim what their data, eight bytes, are not."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, header in headers.items():
            archive.writestr(f"{name}.npy", npy(header))
    return file.getvalue()


def npy(header: str, data: bytes = bytes(8)) -> bytes:
    text = header.encode().ljust(64) + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + data


def claim(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


def archive_of(count: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for entry in range(count):
            archive.writestr(f"a{entry}.npy", b"")
    return file.getvalue()


def bomb(size: int) -> bytes:
    return gzip.compress(bytes(size), 9)


def safetensors(header: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header


def proto_module(*instructions: bytes, tail: bytes = b"") -> bytes:
    """A HloModuleProto of one computation with these instructions."""
    computation = message(1, b"e") + b"".join(message(2, instruction) for instruction in instructions) + number(5, 1) + number(6, 1)
    return message(1, b"m") + message(2, b"e") + message(3, computation) + number(5, 1) + number(6, 1) + tail


def parameter(*dims: int, number_of: int = 0, shape: bytes | None = None) -> bytes:
    described = number(2, 11) + b"".join(number(3, dim) for dim in dims) if shape is None else shape
    return message(1, b"x") + message(2, b"parameter") + message(3, described) + number(9, number_of) + number(35, 1)


def hlo(instruction: str, *before: str) -> bytes:
    lines = "\n".join(["HloModule m", *before, "ENTRY e {", "  x = f32[2] parameter(0)", f"  ROOT y = {instruction}", "}"])
    return lines.encode()


def mlir(body: str) -> bytes:
    return f"module @m {{\n func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n {body}\n return %a : tensor<2xf32>\n }}\n}}".encode()


FILES: dict[str, Maker] = {
    "empty": lambda: b"",
    "one zero": lambda: b"\0",
    "one brace": lambda: b"{",
    "one letter": lambda: b"H",
    "line breaks": lambda: b"\n" * 10_000,
    "zeros": lambda: bytes(100_000),
    "not utf-8": lambda: b"\xff\xfe\xfa" * 1000,
    "utf-16": lambda: "HloModule m".encode("utf-16"),
    "gzip cut": lambda: gzip.compress(b"HloModule m")[:-9],
    "gzip of gzip": lambda: gzip.compress(gzip.compress(gzip.compress(b"HloModule m"))),
    "gzip bomb": lambda: bomb(200 << 20),
    "zstd cut": lambda: b"\x28\xb5\x2f\xfd\x04\x58",
    "json list deep": lambda: b"[" * 100_000,
    "json list closed": lambda: b"[" * 100_000 + b"]" * 100_000,
    "json object deep": lambda: b'{"a":' * 100_000,
    "json integer": lambda: b"9" * 10_000,
    "json field huge": lambda: b'{"stages": 1e999, "best": NaN, "mesh": -Infinity, "version": ' + b"9" * 5000 + b"}",
    "json not finite": lambda: b'{"mesh": NaN, "axes": Infinity, "stages": [NaN], "rules": [Infinity], "specs": {"x": NaN}}',
    "json duplicates": lambda: b'{"mesh": 1, "mesh": {"m": -2}, "mesh": {"m": 99999999999999999999}}',
    "json wrong types": lambda: b'{"mesh": [[[]]], "stages": {}, "rules": 7, "best": [], "version": "x", "specs": []}',
    "json negative": lambda: b'{"mesh": {"m": -2}, "stages": [{"layers": [-5, -9], "devices": [-1]}], "microbatches": -1}',
    "json huge mesh": lambda: b'{"mesh": {"m": 99999999999999}, "specs": {}, "stages": [{"layers": [0, 99999999999999], "devices": [0]}], "microbatches": 99999999999999}',
    "json surrogate": lambda: b'{"\\ud800": "\\udfff", "mesh": {"\\u0000": 2}}',
    "toml deep": lambda: b"a = " + b"[" * 50_000,
    "toml huge": lambda: b"[a]\ntitle='a'\nmemory_bytes=1e999\nmemory_bandwidth=nan\nlaunch_seconds=-inf\n[a.matrix]\nf32=-1\n[a.vector]\nf32=" + b"9" * 4000,
    "zip cut": lambda: archive_of(3)[:-30],
    "zip of many": lambda: archive_of(2_000),
    "npy alone": lambda: npy(claim("(2,)")),
    "npz claims": lambda: npz(x=claim(f"({HUGE}, {HUGE})"), w=claim(f"({HUGE},)"), output_0=claim("(-1,)")),
    "npz negative": lambda: npz(x=claim("(-2, -1)"), w=claim("(2, -1)")),
    "npz rank": lambda: npz(x=claim("(" + "1," * 3_000 + ")")),
    "npz objects": lambda: npz(x=claim("(1,)", "'|O'"), w=claim("(1,)", "[('a', '<f4')]")),
    "npz nested": lambda: npz(x="(" * 9_000),
    "npz integers": lambda: npz(x=claim("(" + "9" * 5000 + ",)")),
    "safetensors claims": lambda: safetensors(b"{}", 2**62),
    "safetensors deep": lambda: safetensors(b"[" * 100_000),
    "safetensors shape": lambda: safetensors(json.dumps({"w": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]}, "x": {"dtype": "F32", "shape": [-1], "data_offsets": [-8, 2**70]}}).encode()),
    "proto length": lambda: b"\x0a" + varint(2**31 - 1) + b"m",
    "proto length wraps": lambda: b"\x0a" + varint(2**64 - 1) + b"m",
    "proto deep": lambda: nested(3, 5_000),
    "proto groups": lambda: b"\x1b" * 50_000,
    "proto repeats": lambda: message(1, b"") * 50_000,
    "mlir bytecode": lambda: b"ML\xefR\x0dStableHLO_v1.0.0\0" + varint(2**40) * 20,
    "page": lambda: b"<!DOCTYPE html><html>" + b"<div>" * 10_000,
    "python": lambda: b"import os\n" + b"(" * 10_000,
}
"""Of no kind, or of another kind than the option expects."""
MODULES: dict[str, Maker] = {
    "huge dimension": lambda: hlo(f"f32[{HUGE}] broadcast(x), dimensions={{}}"),
    "dimension of 5,000 digits": lambda: hlo(f"f32[{'9' * 5000}] negate(x)"),
    "negative dimension": lambda: hlo("f32[-5] negate(x)"),
    "huge product": lambda: hlo(f"f32[{HUGE},{HUGE},{HUGE}] broadcast(x), dimensions={{0}}"),
    "huge parameter": lambda: f"ENTRY e {{ ROOT x = f32[{HUGE}] parameter(0) }}".encode(),
    "huge iota": lambda: hlo(f"f32[{HUGE}] iota(), iota_dimension=0"),
    "rank 5,000": lambda: f"ENTRY e {{ ROOT x = f32[{'1,' * 4999}1] parameter(0) }}".encode(),
    "parameter number": lambda: b"ENTRY e { ROOT x = f32[2] parameter(99999999999999999999) }",
    "parameter number negative": lambda: b"ENTRY e { ROOT x = f32[2] parameter(-1) }",
    "tuple type deep": lambda: b"ENTRY e { ROOT x = " + b"(" * 20_000 + b"f32[]" + b")" * 20_000 + b" parameter(0) }",
    "many operands": lambda: hlo("(" + ", ".join(["f32[2]"] * 20_000) + ") tuple(" + ", ".join(["x"] * 20_000) + ")"),
    "constant deep": lambda: hlo("f32[2] constant(" + "{" * 50_000),
    "constant large number": lambda: hlo("f32[] constant(" + "9" * 50_000 + ")"),
    "constant claims": lambda: hlo(f"f32[{HUGE}] constant({{...}})"),
    "attribute deep": lambda: hlo("f32[2] negate(x), foo=" + "{" * 50_000),
    "string without an end": lambda: hlo('f32[2] negate(x), metadata={op_name="' + "a" * 1_000_000),
    "iota groups": lambda: hlo(f"f32[2] all-reduce(x), replica_groups=[{HUGE},{HUGE}]<=[{HUGE * HUGE}], to_apply=s", "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"),
    "iota sharding": lambda: hlo(f"f32[2] negate(x), sharding={{devices=[{HUGE},{HUGE}]<=[{HUGE},{HUGE}]T(1,0)}}"),
    "permutes": lambda: hlo("f32[2] collective-permute(x), source_target_pairs={" + "{0,1}," * 20_000 + "{1,0}}"),
    "slice": lambda: hlo(f"f32[{HUGE}] slice(x), slice={{[0:{HUGE}:1]}}"),
    "pad": lambda: hlo(f"f32[{HUGE}] pad(x, z), padding={HUGE}_{HUGE}_{HUGE}"),
    "window": lambda: hlo("f32[2] reduce-window(x, x), window={size=" + "x".join(["99999999999"] * 2_000) + "}"),
    "convolution": lambda: hlo(f"f32[2,2] convolution(x, x), window={{size={HUGE} pad={HUGE}_{HUGE} lhs_dilate={HUGE}}}, dim_labels=b0f_0io->b0f"),
    "trips": lambda: hlo('f32[2] while(x), condition=c, body=b, backend_config={"known_trip_count":{"n":"99999999999999999999999"}}', "b { p = f32[2] parameter(0) ROOT q = f32[2] negate(p) }", "c { p = f32[2] parameter(0) ROOT q = pred[] constant(true) }"),
    "calls itself": lambda: hlo("f32[2] call(x), to_apply=e"),
    "layout": lambda: b"ENTRY e { ROOT x = f32[2]{99999999999:T(99999999999,99999999999)E(99999999999999)} parameter(0) }",
    "mesh": lambda: f"HloModule m, entry_computation_layout={{()->f32[{HUGE}]}}, num_partitions=99999999999999, replica_count=-1\nENTRY e {{ ROOT c = f32[2] constant({{1,2}}) }}".encode(),
    "names again": lambda: b"ENTRY e { " + b"x = f32[2] parameter(0) " * 5_000 + b"}",
    "no end of names": lambda: b"ENTRY e { " + b"a" * 1_000_000 + b" = f32[2] parameter(0) }",
    "mlir regions deep": lambda: mlir("scf.execute_region {" * 5_000),
    "mlir attributes deep": lambda: mlir('"a.b"() {a = ' + "[" * 50_000),
    "mlir types deep": lambda: mlir('"a.b"() : () -> ' + "tuple<" * 50_000),
    "mlir dimension": lambda: mlir("%0 = stablehlo.constant dense<0.0> : tensor<99999999999999999999x99999999999xf32>"),
    "stablehlo constant": lambda: mlir("%0 = stablehlo.constant dense<0.0> : tensor<99999999999xf32>"),
    "own mlir deep": lambda: b'module {\n"a.b"() ({' * 20_000,
    "oneflow deep": lambda: b'oneflow.job @j() {\n %0 = "oneflow.relu"(' + b"(" * 50_000,
    "mindir text": lambda: b"# IR entry: @g\nsubgraph @g(%p) {\n  %0 = Tuple(" + b"(" * 50_000,
    "proto dimension": lambda: proto_module(parameter(2**62)),
    "proto negative dimension": lambda: proto_module(parameter(-5)),
    "proto rank": lambda: proto_module(parameter(*[1] * 20_000)),
    "proto parameter number": lambda: proto_module(parameter(2, number_of=2**62)),
    "proto tuple deep": lambda: proto_module(parameter(shape=number(2, 13) + nested(4, 90))),
    "proto operands": lambda: proto_module(parameter(2), message(1, b"t") + message(2, b"tuple") + message(3, number(2, 13)) + number(36, 1) * 50_000 + number(35, 2)),
    "proto identifiers": lambda: proto_module(parameter(2) + number(35, 2**63)),
    "proto literal": lambda: proto_module(message(1, b"c") + message(2, b"constant") + message(3, number(2, 11) + number(3, HUGE)) + message(8, message(1, number(2, 11) + number(3, HUGE))) + number(35, 1)),
    "snapshot": lambda: message(1, message(1, proto_module(parameter(2)))) + message(2, message(1, number(2, 11) + number(3, HUGE))),
    "xplane": lambda: message(1, number(1, 2**63) + message(2, b"/device:GPU:0") + message(3, number(1, 2**63) + message(4, number(1, 7) + number(2, 2**63) + number(3, 2**63)) * 1_000)),
}
"""Programs, and what reads like one for a while."""
LARGE: dict[str, Maker] = {
    "gzip bomb of 4 GB": lambda: bomb(1 << 32),
    "json 100 MB deep": lambda: b"[" * 100_000_000,
    "json objects 1e6 deep": lambda: b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000,
    "zeros 100 MB": lambda: bytes(100_000_000),
    "one line of 100 MB": lambda: b"a" * 100_000_000,
    "zip of 50,000": lambda: archive_of(50_000),
    "proto 1e6 empty messages": lambda: message(3, b"") * 1_000_000,
    "rank 50,000": lambda: f"ENTRY e {{ ROOT x = f32[{'1,' * 49_999}1] parameter(0) }}".encode(),
    "1e6 operands": lambda: hlo("(" + ", ".join(["f32[2]"] * 1_000_000) + ") tuple(" + ", ".join(["x"] * 1_000_000) + ")"),
    "tuple type 1e6 deep": lambda: b"ENTRY e { ROOT x = " + b"(" * 1_000_000 + b"f32[]" + b")" * 1_000_000 + b" parameter(0) }",
    "constant 1e7 deep": lambda: hlo("f32[2] constant(" + "{" * 10_000_000),
    "attribute 1e7 deep": lambda: hlo("f32[2] negate(x), foo=" + "{" * 10_000_000),
    "mlir regions 1e6 deep": lambda: mlir("scf.execute_region {" * 1_000_000),
    "own mlir 1e6 deep": lambda: b'module {\n"a.b"() ({' * 1_000_000,
    "mlir types 1e6 deep": lambda: mlir('"a.b"() : () -> ' + "tuple<" * 1_000_000),
    "mindir deep": lambda: b"# IR entry: @g\nsubgraph @g(%p) {\n  %0 = Tuple(" + b"(" * 5_000_000,
    "proto rank 1e6": lambda: proto_module(parameter(*[1] * 1_000_000)),
    "proto 1e6 operands": lambda: proto_module(parameter(2), message(1, b"t") + message(2, b"tuple") + message(3, number(2, 13)) + number(36, 1) * 1_000_000 + number(35, 2)),
    "page of 100 MB": lambda: b"<!DOCTYPE html>" + b"<div>" * 20_000_000,
}
