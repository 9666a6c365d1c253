"""Replica groups: HLO's text in, HLO's text out, and the devices they stand for, against XLA."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.formats.hlo.value_reader import read_replica_groups
from hloom.ir.devices import IotaDevices
from hloom.ir.mesh import AxisRef, HloMesh
from hloom.ir.replica_groups import ExplicitGroups, IotaGroups, MeshGroups
from hloom.text import Cursor, HloomError, ParseError, Source
from tests.helpers.properties import examples

_hlo = pytest.importorskip("jaxlib._hlo")

MODULE = """HloModule m
add {{
 a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b)
}}
ENTRY e {{
 p = f32[8] parameter(0)
 ROOT r = f32[8] all-reduce(p), replica_groups={}, to_apply=add
}}"""

KEPT = [
    "{}",
    "{{}}",
    "{{0,1},{2,3}}",
    "{{0,1},{2}}",
    "{{0,1},{}}",
    "{{-1,1}}",
    "[2,4]<=[8]",
    "[2,4]<=[4,2]T(1,0)",
    "[1,1]<=[1]",
    "[2,4]<=[16]",
    "mesh['x'=2,'y'=4] {'x'}",
    "mesh['x'=2,'y'=4] {'y','x'}",
    "mesh['x'=2,'y'=4] {'y':(2)2,'x'}",
    "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x'}",
    "mesh['x'=2,'y'=2], device_ids=(3,1,0,2) {'x'}",
]
REWRITTEN = [
    ("{ { 0 , 1 } , /*c*/ { 2 , 3 } }", "{{0,1},{2,3}}"),
    ("{{0,1},\r\n\t{2,3}}", "{{0,1},{2,3}}"),
    ("[ 2 , 4 ] <= [ 4 , 2 ] T ( 1 , 0 )", "[2,4]<=[4,2]T(1,0)"),
    ("[2,4]<=[2,4]T(0,1)", "[2,4]<=[8]"),
    ("[2,4]<=[2,2,2]T(2,0,1)", "[2,4]<=[4,2]T(1,0)"),
    ("[2,4]<=[2,1,4]T(2,1,0)", "[2,4]<=[2,4]T(1,0)"),
    ("mesh[\"x\"=2,'y'=4]{'x'}", "mesh['x'=2,'y'=4] {'x'}"),
    ("mesh['x'=2,'y'=4], {'x'}", "mesh['x'=2,'y'=4] {'x'}"),
    ("mesh [ 'x' = 2 ] { 'x' }", "mesh['x'=2] {'x'}"),
    ("mesh['x'=2,'y'=4] {'1' : ( 1 ) 2}", "mesh['x'=2,'y'=4] {'y':(1)2}"),
    ("mesh['x'=2,'y'=4], device_ids=([8]) {'x'}", "mesh['x'=2,'y'=4] {'x'}"),
]
REFUSED = [
    ("", 1, "expected replica groups, which begin with '{', '[' or 'mesh', found the end of the text"),
    ("0,1", 1, "expected replica groups, which begin with '{', '[' or 'mesh', found '0'"),
    ("meshes", 1, "expected replica groups, which begin with '{', '[' or 'mesh', found 'meshes'"),
    ("{0,1}", 2, "expected '{', found '0'"),
    ("{{0,1},}", 8, "expected '{', found '}'"),
    ("{{0,1,}}", 7, "expected an integer, found '}'"),
    ("{{0 1}}", 5, "expected '}', found '1'"),
    ("{{0,18446744073709551616}}", 5, "integer 18446744073709551616 does not fit into 64 bits"),
    ("[8]<=[8]", 1, "expected [groups,devices per group], found 1 sizes"),
    ("[2,2,2]<=[8]", 1, "expected [groups,devices per group], found 3 sizes"),
    ("[]<=[8]", 1, "expected at least one size between '[' and ']'"),
    ("[2,4]", 6, "expected '<=', found the end of the text"),
    ("[2,4]0,1,2,3,4,5,6,7", 6, "expected '<=', found '0'"),
    ("[2,4]<=", 8, "expected '[', found the end of the text"),
    ("[2,4]<=[2,4]", 13, "expected 'T' and the permutation of several sizes, found the end of the text"),
    ("[2,4]<=[4,2]T(2,0)", 14, "expected a permutation of 0, 1, found (2, 0)"),
    ("[2,4]<=[4,2]T(-1,0)", 15, "expected a non-negative integer, found -1"),
    ("mesh[x=2] {x}", 6, "expected an axis name in quotes, found 'x'"),
    ("mesh['x'=2,] {'x'}", 12, "expected an axis name in quotes, found ']'"),
    ("mesh['x':2] {'x'}", 9, "expected '=' and the size of the axis, found ':'"),
    ("mesh['x'=2,'x'=4] {'x'}", 12, "axis 'x' is given twice"),
    ("mesh['x'=2,'y'=4] {'z'}", 20, "the mesh has no axis 'z'"),
    ("mesh['x'=2,'y'=4] {'2'}", 20, "the mesh has no axis '2'"),
    ("mesh['x'=2,'y'=4] {'x','x'}", 24, "'x' overlaps 'x', which is already used"),
    ("mesh['y'=4] {'y':(1)2,'y':(2)2}", 23, "'y':(1)2, 'y':(2)2 must be written as one axis"),
    (
        "mesh['y'=4] {'y':(0)2}",
        14,
        "'y':(0)2 is not part of an axis: the first number is at least 1, the second at least 2",
    ),
    ("mesh['y'=4] {'y':(1)3}", 14, "'y':(1)3 is not part of an axis of 4: 1 * 3 does not divide it"),
    ("mesh['x'=2] {?}", 14, "expected an axis name in quotes, found '?'"),
    ("mesh['x'=2], device_ids=(0) {'x'}", 26, "a mesh of 2 devices needs as many device_ids, found 1"),
    ("mesh['x'=2], device_ids=(0,2) {'x'}", 26, "device_ids must be 0 to 1 in some order"),
    ("mesh['x'=2], device_ids=(0,1) {'x'}", 26, "device_ids in their natural order are not written"),
    (
        "maximal_mesh[device_id=3] {}",
        1,
        "expected replica groups, which begin with '{', '[' or 'mesh', found 'maximal_mesh'",
    ),
]
BELIEVED_BY_XLA = [
    ("[2,4]<=[4,2]T(1,1)", "expected a permutation of 0, 1, found (1, 1)"),
    ("[2,4]<=[4,2]T(1)", "expected a permutation of 0, 1, found (1,)"),
    ("[-2,4]<=[8]", "expected a non-negative integer, found -2"),
]
NOT_YET_READ_BY_XLA = ["mesh['x'=2,'y'=4] {}", "mesh['x'=1,'y'=4] {'x'}", "mesh[] {}"]
"""Groups of one device: refused today, a collective that does nothing in 2026."""


def read(text: str):
    cursor = Cursor(Source(text))
    groups = read_replica_groups(cursor)
    assert cursor.position == len(text)
    return groups


def printed_by_xla(text: str) -> str:
    printed = _hlo.hlo_module_from_text(MODULE.format(text)).to_string()
    return printed.split("replica_groups=", 1)[1].split(", to_apply=", 1)[0]


@pytest.mark.parametrize("text", KEPT)
def test_text_stays(text: str):
    assert str(read(text)) == text == printed_by_xla(text)


@pytest.mark.parametrize(("text", "printed"), REWRITTEN)
def test_text_is_rewritten_as_xla_does(text: str, printed: str):
    assert str(read(text)) == printed == printed_by_xla(text)


@pytest.mark.parametrize(("text", "column", "message"), REFUSED)
def test_refusals_have_a_place(text: str, column: int, message: str):
    with pytest.raises(ParseError) as caught:
        read(text)
    assert caught.value.message == message
    assert str(caught.value.location) == f"<text>:1:{column}"


@pytest.mark.parametrize(("text", "message"), BELIEVED_BY_XLA)
def test_nonsense_that_xla_reads_is_refused(text: str, message: str):
    with pytest.raises(ParseError, match=re.escape(message)):
        read(text)


def test_xla_refuses_what_we_refuse():
    texts = [text for text, _, _ in REFUSED] + NOT_YET_READ_BY_XLA
    accepted = in_subprocess("accepted", [MODULE.format(text) for text in texts])
    assert [text for text, good in zip(texts, accepted, strict=True) if good] == []


@pytest.mark.parametrize("text", NOT_YET_READ_BY_XLA)
def test_forms_of_2026(text: str):
    groups = read(text)
    assert (str(groups), groups.group_size) == (text, 1)
    assert groups.groups(8) == tuple((device,) for device in range(groups.group_count))


def test_cursor_is_left_after_the_value():
    cursor = Cursor(Source("[2,4]<=[8], to_apply=add"))
    read_replica_groups(cursor)
    assert cursor.text[cursor.position :] == ", to_apply=add"


GROUPS = [
    ("{}", 8, 1, None),
    ("{{0,3},{1,2},{4,5},{7,6}}", 8, 4, 2),
    ("{{0,1,2},{3,4,5,6,7}}", 8, 2, None),
    ("[2,4]<=[8]", 8, 2, 4),
    ("[2,4]<=[4,2]T(1,0)", 8, 2, 4),
    ("[4,2]<=[2,2,2]T(2,1,0)", 8, 4, 2),
    ("mesh['x'=2,'y'=4] {'x'}", 8, 4, 2),
    ("mesh['x'=2,'y'=4] {'x','y'}", 8, 1, 8),
    ("mesh['x'=2,'y'=4] {'y','x'}", 8, 1, 8),
    ("mesh['x'=2,'y'=4] {'y':(1)2}", 8, 4, 2),
    ("mesh['x'=2,'y'=4] {'y':(2)2,'x'}", 8, 2, 4),
    ("mesh['y'=8] {'y':(2)2}", 8, 4, 2),
    ("mesh['x'=2,'y'=2,'z'=2] {'z','x'}", 8, 2, 4),
]


def test_groups_are_those_that_xla_runs():
    """All-gather the numbers of 8 replicas over the groups; sizes must not differ, so that one is left out."""
    runs = [(text, size) for text, _, count, size in GROUPS if size or count == 1]
    gathered = in_subprocess("gathered", [(text, size or 8) for text, size in runs])
    for (text, _), rows in zip(runs, gathered, strict=True):
        groups = read(text).groups(8)
        ours = {device: list(group) for group in groups for device in group}
        assert [ours[device] for device in range(8)] == rows, text


@pytest.mark.parametrize(("text", "devices", "count", "size"), GROUPS)
def test_sizes(text: str, devices: int, count: int, size: int | None):
    groups = read(text)
    assert (groups.group_count, groups.group_size) == (count, size)
    assert len(groups.groups(devices)) == count
    assert sorted(device for group in groups.groups(devices) for device in group) == list(range(devices))


def test_mesh_groups_follow_device_ids():
    assert read("mesh['x'=2,'y'=2], device_ids=(3,1,0,2) {'x'}").groups(4) == ((3, 0), (1, 2))
    assert read("mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x'}").groups(8) == ((0, 1), (2, 3), (4, 5), (6, 7))


def test_a_range_of_the_wrong_length_has_no_groups():
    with pytest.raises(HloomError) as caught:
        read("[2,4]<=[16]").groups(16)
    assert caught.value.message == "[2,4]<=[16] has 8 places for 16 devices"


def test_long_ranges_are_not_expanded():
    groups = read("[1000000000,2]<=[2,1000000000]T(1,0)")
    assert (groups.group_count, groups.group_size) == (1000000000, 2)
    with pytest.raises(HloomError, match="groups of 2,000,000,000 devices are too large"):
        groups.groups(2000000000)


def test_values_are_equal_by_meaning_of_the_range():
    assert read("[2,4]<=[2,2,2]T(2,0,1)") == IotaGroups(2, 4, IotaDevices((4, 2), (1, 0)))
    assert read("{{0,1}}") == ExplicitGroups(((0, 1),))
    assert hash(read("mesh['x'=2] {'x'}")) == hash(MeshGroups(HloMesh(("x",), (2,)), (AxisRef("x"),)))


@st.composite
def ranges(draw: st.DrawFn) -> tuple[str, np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    order = draw(st.permutations(range(len(sizes))))
    count = int(np.prod(sizes))
    groups = draw(st.sampled_from([size for size in range(1, count + 1) if count % size == 0]))
    numbers = np.arange(count).reshape(sizes).transpose(order).reshape(groups, -1)
    return f"[{groups},{count // groups}]<={sizes}T({','.join(map(str, order))})", numbers


@examples(40)
@given(ranges())
def test_any_range(case: tuple[str, np.ndarray]):
    text, numbers = case
    groups = read(text)
    assert str(groups) == printed_by_xla(text)
    assert read(str(groups)) == groups
    assert groups.groups(numbers.size) == tuple(map(tuple, numbers.tolist()))


@examples(25)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), max_size=4))
def test_any_list(listed: list[list[int]]):
    text = str(ExplicitGroups(tuple(map(tuple, listed))))
    assert str(read(text)) == text == printed_by_xla(text)
    assert read(text).listed == tuple(map(tuple, listed))  # pyright: ignore[reportAttributeAccessIssue]


def in_subprocess(question: str, arguments: list) -> list:
    """Ask XLA in a process that may die of it."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM, question],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


_PROGRAM = '''
import json, os, sys
import numpy as np
from jaxlib import _hlo, _jax, xla_client

def accepted(texts):
    """Whether XLA reads each, in a process of its own: some abort it."""
    answers = []
    for text in texts:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                _hlo.hlo_module_from_text(text)
            except Exception:
                os._exit(1)
            os._exit(0)
        answers.append(os.waitpid(child, 0)[1] == 0)
    return answers

def gathered(cases):
    """What each of 8 replicas gets when all their numbers are gathered over the groups."""
    import jax
    devices = jax.devices("cpu")
    answers = []
    for groups, size in cases:
        module = _hlo.hlo_module_from_text(f"""HloModule m, replica_count=8
            ENTRY e {{
              p = u32[] replica-id()
              q = u32[1] reshape(p)
              ROOT r = u32[{size}] all-gather(q), replica_groups={groups}, dimensions={{0}}
            }}""")
        program = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        options = xla_client.CompileOptions()
        for part in (options, options.executable_build_options):
            part.num_replicas, part.num_partitions = 8, 1
            part.device_assignment = xla_client.DeviceAssignment.create(np.arange(8).reshape(8, 1))
        executable = devices[0].client.compile_and_load(program, xla_client.DeviceList(tuple(devices)), options)
        arrays = executable.execute_sharded([]).disassemble_into_single_device_arrays()
        answers.append([np.asarray(array).tolist() for array in arrays[0]])
    return answers

print(json.dumps(globals()[sys.argv[1]](json.load(sys.stdin))))
'''
