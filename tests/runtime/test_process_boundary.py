"""Bytes that may make jaxlib die reach it in the worker alone, and where jax's own programs run.

Covers `xla.py`, `worker.py`, `stablehlo_reader.py`, `shardy.py`; `pyproject.toml` says who may import the last two.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxlib import _hlo, _jax, _profile_data, _profiler  # pyright: ignore[reportAttributeAccessIssue]

import hloom

SOURCE = Path(hloom.__file__).parent
ENTRIES = {
    "hlo_module_from_text",
    "mlir_module_to_xla_computation",
    "hlo_to_stablehlo",
    "mhlo_to_stablehlo",
    "xla_computation_to_mlir_module",
    "deserialize_portable_artifact",
    "refine_polymorphic_shapes",
    "XlaComputation",
    "from_serialized_hlo_module_proto",
    "from_proto",
    "from_string",
    "ParseFromString",
    "compilation_environments_from_serialized_proto",
    "compile_and_load",
    "deserialize_executable",
    "deserialize_using_proto",
    "compiler_ir",
    "pprof_profile_to_json",
    "register_hlo_module_transformation",
    "make_hlo_program",
    "make_plugin_program",
    "make_colocated_python_program",
    "ProfileData",
    "from_serialized_xspace",
    "from_text_proto",
    "text_proto_to_serialized_xspace",
    "from_file",
    "aggregate_profiled_instructions",
    "get_fdo_profile",
    "get_profiled_instructions_proto",
    "ProfilerSession",
    "deserialize",
    "deserialize_and_load",
}
"""The names by which jaxlib, and jax above it, are given programs, shardings, profiles and other bytes."""
PARSERS = {"Module", "Attribute", "Type", "Operation", "PassManager", "AffineMap", "Location"}
"""The classes of jaxlib's MLIR whose `parse` takes text or bytecode; so do those that end in Attr or Type."""
PARSING = {"parse", "parseFile"}
NO_FUNCTION = "outside functions"
"""Where what a module does when it is imported, and its lambdas, are listed."""
NOT_PROGRAMS = {"key_value_set_bytes", "blocking_key_value_get_bytes", "key_value_dir_get_bytes", "export"}
"""Bytes for other processes, and a profile that jax has recorded in this one."""
WORKER_FILES = {"runtime/worker.py", "runtime/stablehlo_reader.py", "runtime/shardy.py"}
SHARED_FILES = {"runtime/xla.py", "runtime/lowered_shardings.py"}
"""What both processes use: their callers are looked at."""
IN_PROCESS = {
    ("runtime/lowering.py", "call_module"): "a verified module, which jax compiles in this process next",
    ("runtime/lowering.py", "_changed"): "a verified module, which jax compiles in this process next",
    ("runtime/lowering.py", "_hlo_of"): "a program that jax has just lowered",
    ("runtime/lowering.py", "_embed"): "a program that jax has just lowered, or the one made of it",
    ("runtime/library_calls.py", "_module_of"): "a program that jax has just traced",
    ("runtime/function_lowering.py", "_lowered"): "a program that jax has just traced",
    ("runtime/inside_jit.py", "_registered"): "a verified module, which jax compiles in this process next",
    ("formats/hlo/jax_program.py", "proto_of"): "a program that jax has in this process",
    ("targets/compiler/compiler_process.py", "_compile"): "a process of its own, which compiles one program",
    ("targets/compiler/compiler_process.py", "_write_general_dots"): "the same process: an attribute, no program",
    ("runtime/runner.py", "stablehlo_function"): "a script of its own, which compiles the program in its process",
    ("runtime/runner.py", "lower"): "its inner function",
}


def test_jaxlib_has_no_further_entry():
    """A function of jaxlib that takes bytes is among those that the next test looks for."""
    owners = (_hlo, _jax, _jax.mlir, _jax.ifrt_programs, _profile_data, _profiler)
    entries = {name for owner in owners for name in _functions_of_bytes(owner)}
    assert len(entries) > 15
    assert entries <= ENTRIES | NOT_PROGRAMS


def test_who_hands_bytes_to_jaxlib():
    handing = set(_handing())
    outside = {(file, name) for file, name in handing if file not in WORKER_FILES | SHARED_FILES}
    assert outside == set(IN_PROCESS)
    assert {file for file, _ in handing} >= WORKER_FILES - {"runtime/worker.py"}


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ("def f(data): return hlo.XlaComputation(data)", "f"),
        ("async def f(data): return ir.Module.parseFile(data)", "f"),
        ("def f(data): return ir.DenseElementsAttr.parse(data)", "f"),
        ("def f(data): return _profile_data.ProfileData(data)", "f"),
        ("READ = lambda data: export.deserialize(data)", NO_FUNCTION),
        ("class C:\n    read = staticmethod(mlir.hlo_to_stablehlo)", NO_FUNCTION),
        ("def f(data=ir.Module.parse('module {}')): return data", NO_FUNCTION),
    ],
)
def test_every_position_is_looked_at(source: str, position: str):
    assert list(_users(ast.parse(source), set(), is_shared=False)) == [position]


@pytest.mark.parametrize("file", sorted(WORKER_FILES))
def test_the_worker_alone_loads_its_files(file: str):
    module = "hloom." + file.removesuffix(".py").replace("/", ".")
    importers = {name for name, tree in _trees() if module in _imports(tree)}
    assert importers <= {"runtime/worker.py"}


def _functions_of_bytes(owner: object, depth: int = 0) -> Iterator[str]:
    for name in dir(owner):
        member = getattr(owner, name, None)
        signatures = [str(signature[0]) for signature in getattr(member, "__nb_signature__", None) or ()]
        if not name.startswith("__") and any("bytes" in text.partition("->")[0].partition("(")[2] for text in signatures):
            yield name
        if isinstance(member, type) and depth == 0 and not name.startswith("__"):
            yield from _functions_of_bytes(member, 1)


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if "hloom.runtime" in text or "jax" in text or path.is_relative_to(SOURCE / "runtime"):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(text)


def _imports(tree: ast.Module) -> set[str]:
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            named |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return named


def _handing() -> Iterator[tuple[str, str]]:
    """Functions that hand bytes to jaxlib, themselves or through one of the shared files, as (file, function)."""
    trees = dict(_trees())
    names: set[str] = set()
    while True:  # until no further function of the shared files is found
        places = {(file, name) for file, tree in trees.items() for name in _users(tree, names, file in SHARED_FILES)}
        shared = {name for file, name in places if file in SHARED_FILES}
        if shared <= names:
            yield from places
            return
        names |= shared


def _users(tree: ast.Module, names: set[str], is_shared: bool) -> Iterator[str]:
    """The functions of a file that use an entry of jaxlib's, or a function of these names of the shared files."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("hloom.runtime.xla", "hloom.runtime.lowered_shardings")
        for alias in node.names
    }
    plain = names if is_shared else names & imported
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    inside: set[ast.AST] = set()
    for function in functions:
        body = [node for statement in function.body for node in ast.walk(statement)]
        inside |= set(body)
        if any(_hands(node, plain, names) for node in body):
            yield function.name
    if any(_hands(node, plain, names) for node in ast.walk(tree) if node not in inside):
        yield NO_FUNCTION


def _hands(node: ast.AST, plain: set[str], names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in plain
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    if node.attr in PARSING:
        return owner in PARSERS or owner.endswith(("Attr", "Type"))
    return node.attr in ENTRIES or (owner == "xla" and node.attr in names)
