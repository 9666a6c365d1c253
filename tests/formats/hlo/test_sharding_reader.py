"""Shardings: HLO's text in, HLO's text out, and where they put which tile, against XLA.

Covers `mesh_reader.py`, `mesh_sharding_reader.py`.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hloom.formats.hlo.sharding_reader import read_sharding
from hloom.ir.devices import ExplicitDevices, IotaDevices, as_iota
from hloom.ir.mesh import AxisRef, HloMesh, mergeable
from hloom.ir.metadata import Metadata
from hloom.ir.sharding import DimensionAxes, Maximal, MeshSharding, ShardGroup, Tiled, TupleSharding, Uniform
from hloom.ir.tile_assignment import (
    assignment,
    device_count,
    equivalent,
    lowered,
    shard_dims,
    tile_dims,
    tile_of,
    with_explicit_devices,
    with_iota_devices,
)
from hloom.text import Cursor, HloomError, ParseError, Source, Unsupported
from tests.helpers.properties import examples

_hlo = pytest.importorskip("jaxlib._hlo")

MODULE = "HloModule m\nENTRY e {{\n ROOT p = f32[8,8,8]{{2,1,0}} parameter(0), sharding={}\n}}"

KEPT = [
    "{replicated}",
    "{manual}",
    "{unknown}",
    "{unreduced}",
    "{maximal device=0}",
    "{maximal device=-1}",
    "{}",
    "{{replicated}}",
    "{{replicated}, {manual}, {unknown}, {unreduced}, {maximal device=1}, /*index=5*/{devices=[2,1,1]<=[2]}}",
    "{devices=[2,1,2]0,1,2,3}",
    "{devices=[2,1,2]3,2,1,0}",
    "{devices=[2,1,2]0,1,2,2}",
    "{devices=[2,1]0,1}",
    "{devices=[2,1,1,2]0,1,2,3 last_tile_dim_replicate}",
    "{devices=[4,2,1]<=[8]}",
    "{devices=[4,2,1]<=[2,4]T(1,0)}",
    "{devices=[1,1,1]<=[1]}",
    "{devices=[4,2,1]<=[16]}",
    "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}",
    "{devices=[2,1,1,2]<=[4] last_tile_dims={manual}}",
    "{devices=[1,1,1,8]<=[8] last_tile_dims={maximal}}",
    "{devices=[2,1,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
    "{devices=[2,2,2]<=[8] last_tile_dims={manual, unreduced, replicated}}",
    "{devices=[1,1,2,4]7,6,5,4,3,2,1,0 last_tile_dims={unreduced}}",
    "{devices=[2,2,2]<=[8] shard_as 1}",
    "{replicated shard_like -1}",
    '{maximal device=1 shard_like 2 metadata={op_name="a"}}',
    '{replicated metadata={op_type="t" op_name="a" source_file="f" source_line=3}}',
    '{replicated metadata={{op_name="a"}, {op_name="b"}}}',
    "{replicated metadata={}}",
    "{mesh['x'=2,'y'=4], [{'x'}, {'y'}, {}]}",
    "{mesh['x'=2,'y'=4], [{'x', ?}, {?}, {}]}",
    "{mesh['x'=2,'y'=4], [{'y':(1)2, 'x', 'y':(2)2}, {}, {}]}",
    "{mesh['x'=2,'y'=4,'z'=2,'w'=2], [{'x'}, {}, {}], replicated={'y'}, unreduced={'z'}, manual={'w'}}",
    "{mesh['x'=2,'y'=4], [], replicated={'x', 'y'}}",
    "{mesh['x'=2,'y'=4], [{}, {}, {}], unreduced={'x', 'y'}}",
    "{mesh['y'=8], [{'y':(1)2}], unreduced={'y':(2)2}, manual={'y':(4)2}}",
    "{mesh['x'=2], [{'x'}], metadata={{op_name=\"a\"}}}",
    "{mesh['x'=2,'y'=4], replicated}",
    "{mesh['x'=2,'y'=4], manual}",
    "{mesh['x'=2,'y'=4], unreduced}",
    "{mesh['x'=2], manual, metadata={{}}}",
    "{mesh[], replicated}",
    "{mesh[], [{}]}",
    "{mesh['a b'=2,'é'=2,''=2], [{'a b'}, {'é'}, {''}]}",
    "{mesh['x'=2,'y'=2], device_ids=(3,1,0,2), [{'x'}]}",
    "{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}]}",
    "{maximal_mesh[device_id=3]}",
    "{{mesh['x'=2], [{'x'}]}, {replicated}}",
]
REWRITTEN = [
    # liberties
    ("{ replicated }", "{replicated}"),
    ("{/*a*/replicated/*b*/}", "{replicated}"),
    ("{replicated // to the end of the line\n}", "{replicated}"),
    ("{device=0 maximal}", "{maximal device=0}"),
    ("{maximal device= 1 device=2}", "{maximal device=2}"),
    ("{maximal devices=[1]3}", "{maximal device=3}"),
    ("{replicated manual last_tile_dim_replicate}", "{replicated}"),
    ("{manual devices=[2]<=[2]}", "{manual}"),
    ("{ devices= [ 2 , 1 , 1 ] 0 , 1 }", "{devices=[2,1,1]0,1}"),
    ("{devices=[2,1,1]0,/*c*/1}", "{devices=[2,1,1]0,1}"),
    ("{devices=[2,1,1]0,9223372036854775808}", "{devices=[2,1,1]0,-9223372036854775808}"),
    ("{devices=[4,2,1] <= [2,4] T (1,0)}", "{devices=[4,2,1]<=[2,4]T(1,0)}"),
    ("{last_tile_dim_replicate devices=[2,1,1,2]<=[4]}", "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}"),
    ("{{replicated},\n /*index=1*/ {manual}}", "{{replicated}, {manual}}"),
    ('{metadata={op_name="a"} shard_as 1 replicated}', '{replicated shard_as 1 metadata={op_name="a"}}'),
    ("{replicated shard_as 1 shard_like 2}", "{replicated shard_as 2}"),
    ("{replicated metadata={op_name='a', op_type=\"t\"}}", '{replicated metadata={op_type="t" op_name="a"}}'),
    ('{replicated metadata={{op_name="a"}} metadata={}}', '{replicated metadata={{op_name="a"}, {}}}'),
    ("{ mesh [ \"x\" = 2 ] , [ { 'x' } , { } ] }", "{mesh['x'=2], [{'x'}, {}]}"),
    ("{mesh['x'=2] [{'x'}]}", "{mesh['x'=2], [{'x'}]}"),
    ("{mesh['x'=2] replicated}", "{mesh['x'=2], replicated}"),
    ("{mesh['x'=4], [{'x' : ( 1 ) 2}]}", "{mesh['x'=4], [{'x':(1)2}]}"),
    ("{mesh['x'=2,'y'=2], [{'1'}]}", "{mesh['x'=2,'y'=2], [{'y'}]}"),
    ("{mesh['1'=4,'0'=2], [{'1'}]}", "{mesh['1'=4,'0'=2], [{'1'}]}"),
    ("{maximal_mesh [ device_id= 3 ]}", "{maximal_mesh[device_id=3]}"),
    # ranges
    ("{devices=[4,2,1]<=[2,4]T(0,1)}", "{devices=[4,2,1]<=[8]}"),
    ("{devices=[2,2,2]<=[2,2,2]T(2,0,1)}", "{devices=[2,2,2]<=[4,2]T(1,0)}"),
    ("{devices=[2,2,2]<=[2,1,2,2]T(1,2,0,3)}", "{devices=[2,2,2]<=[2,2,2]T(1,0,2)}"),
    ("{mesh['x'=2,'y'=2], device_ids=([4]), [{'x'}]}", "{mesh['x'=2,'y'=2], [{'x'}]}"),
    ("{mesh['x'=2,'y'=2], device_ids=([2,2]T(0,1)), [{'x'}]}", "{mesh['x'=2,'y'=2], [{'x'}]}"),
    # subgroups
    ("{devices=[2,1,1,2]1,0,3,2 last_tile_dim_replicate}", "{devices=[2,1,1,2]0,1,2,3 last_tile_dim_replicate}"),
    ("{devices=[2,1,1,1]0,1 last_tile_dim_replicate}", "{devices=[2,1,1]0,1}"),
    ("{devices=[1,1,1,2]0,1 last_tile_dim_replicate}", "{replicated}"),
    ("{devices=[1,1,1]<=[1] last_tile_dim_replicate}", "{replicated}"),
    ("{devices=[2]<=[2] last_tile_dim_replicate}", "{replicated}"),
    ("{devices=[1,1,1,8]<=[8] last_tile_dims={manual}}", "{manual}"),
    ("{devices=[1,1,1,8,1]<=[8] last_tile_dims={manual,replicated}}", "{manual}"),
    ("{devices=[1,1,1,8]<=[8] last_tile_dims={unreduced}}", "{unreduced}"),
    ("{devices=[2,1,1]<=[2] last_tile_dims={}}", "{devices=[2,1,1]<=[2]}"),
    (
        "{devices=[2,1,1,2]<=[4] last_tile_dims={replicated}}",
        "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}",
    ),
    (
        "{devices=[2,1,1,2,2]<=[8] last_tile_dims={replicated} last_tile_dims={manual}}",
        "{devices=[2,1,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}",
    ),
    (
        "{devices=[2,1,1,2,2]<=[8] last_tile_dims={unreduced,manual}}",
        "{devices=[2,1,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, unreduced}}",
    ),
    (
        "{devices=[2,1,1,2,2]<=[8] last_tile_dims={replicated,replicated}}",
        "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}",
    ),
    (
        "{devices=[2,2,1,2,1]<=[8] last_tile_dims={manual,replicated}}",
        "{devices=[2,2,1,2]<=[8] last_tile_dims={manual}}",
    ),
    (
        "{devices=[1,1,2,2,2]7,6,5,4,3,2,1,0 last_tile_dims={replicated,manual}}",
        "{devices=[1,1,2,2,2]5,7,4,6,1,3,0,2 last_tile_dims={manual, replicated}}",
    ),
    (
        "{devices=[1,1,2,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
        "{devices=[1,1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}",
    ),
    (
        '{devices=[1,1,1,8]<=[8] last_tile_dim_replicate metadata={op_name="a"} shard_as 3}',
        '{replicated shard_as 3 metadata={op_name="a"}}',
    ),
    # meshes
    ("{mesh['x'=2,'y'=4], []}", "{mesh['x'=2,'y'=4], replicated}"),
    ("{mesh['x'=2,'y'=4], [], manual={'x', 'y'}}", "{mesh['x'=2,'y'=4], manual}"),
    ("{mesh['x'=2,'y'=4], [], unreduced={'x', 'y'}}", "{mesh['x'=2,'y'=4], unreduced}"),
    ("{mesh['x'=2,'y'=4], [{'x'}], replicated={}}", "{mesh['x'=2,'y'=4], [{'x'}]}"),
    (
        "{mesh['x'=2,'y'=4,'z'=2], [{'x'}], manual={'z'}, metadata={}, unreduced={'y'}}",
        "{mesh['x'=2,'y'=4,'z'=2], [{'x'}], unreduced={'y'}, manual={'z'}, metadata={{}}}",
    ),
    (
        "{mesh['x'=2,'y'=4], [{}], replicated={'x'}, replicated={'y'}}",
        "{mesh['x'=2,'y'=4], [{}], replicated={'x', 'y'}}",
    ),
]
PART = "expected a part of a sharding, found"
REFUSED = [
    ("replicated", 1, "expected '{' to open a sharding, found 'replicated'"),
    ("{", 2, f"{PART} the end of the text"),
    ("{'replicated'}", 2, f"{PART} '''"),
    ("{%replicated}", 2, f"{PART} '%replicated'"),
    ("{replicated,manual}", 12, f"{PART} ','"),
    ("{replicated shard_as1}", 13, f"{PART} 'shard_as1'"),
    ("{replicated foo=1}", 13, f"{PART} 'foo'"),
    ("{replicated shard_as}", 21, "expected an integer, found '}'"),
    ("{maximal}", 2, "a sharding that is maximal takes exactly one device"),
    ("{maximal devices=[2]3,4}", 10, "a sharding that is maximal takes exactly one device"),
    ("{maximal devices=[2]<=[2]}", 10, "a sharding that is maximal takes exactly one device"),
    ("{maximal device = 3}", 10, f"{PART} 'device'"),
    ("{device=0}", 2, "expected devices=[..] or what the sharding is"),
    ("{replicated device=1}", 13, "a sharding that is replicated takes no devices"),
    ("{devices=[2,1,1]0,1 manual}", 2, "a sharding that is manual takes no devices"),
    ("{maximal replicated device=0}", 21, "a sharding that is replicated takes no devices"),
    ("{last_tile_dim_replicate}", 2, "expected devices=[..] or what the sharding is"),
    ("{devices=[1,1,1]0}", 2, "a list of devices must have more than one"),
    ("{devices=[2,1,1]}", 17, "expected a device, found '}'"),
    ("{devices=[]0,1}", 10, "expected at least one size between '[' and ']'"),
    ("{devices=[2,-1,1]0,1}", 13, "expected a non-negative integer, found -1"),
    ("{devices=[2,1,1]0 1}", 19, f"{PART} '1'"),
    ("{devices=[2,1,1]0,1,}", 21, "expected a device, found '}'"),
    ("{devices=[2,1,1]0,99999999999999999999}", 19, "integer 99999999999999999999 does not fit into 64 bits"),
    ("{devices=[2,1,1] < = [2]}", 18, "expected a device, found '<'"),
    ("{devices = [2,1,1]0,1}", 2, f"{PART} 'devices'"),
    ("{devices=[4,2,1]<=[]}", 19, "expected at least one size between '[' and ']'"),
    ("{devices=[4,2,1]<=[2,4]}", 24, "expected 'T' and the permutation of several sizes, found '}'"),
    ("{devices=[4,2,1]<=[8]T(0)}", 22, f"{PART} 'T'"),
    ("{devices=[4,2,1]<=[2,4]T(1)}", 25, "expected a permutation of 0, 1, found (1,)"),
    ("{devices=[4,2,1]<=[2,4]T(2,0)}", 25, "expected a permutation of 0, 1, found (2, 0)"),
    ("{devices=[8]<=[8] device=1}", 19, "device= is for a sharding that is maximal, devices=[..] is given too"),
    (
        "{devices=[2,1,2]<=[4] last_tile_dims={unknown}}",
        39,
        f"expected one of {'maximal, manual, unreduced, replicated'}, found 'unknown'",
    ),
    ("{devices=[2]<=[2] last_tile_dims={manual,manual}}", 2, "2 last tile dims, but only 1 in all"),
    (
        "{devices=[2,2]<=[4] last_tile_dims={manual} last_tile_dim_replicate}",
        2,
        "last_tile_dim_replicate and last_tile_dims= exclude each other",
    ),
    ('{replicated metadata={foo="a"}}', 23, "no metadata field is called 'foo'"),
    ('{replicated metadata={{op_name="a"} {op_name="b"}}}', 37, "expected '}', found '{'"),
    ("{{}}", 3, "expected devices=[..] or what the sharding is"),
    ("{{replicated},}", 15, "expected '{' to open a sharding, found '}'"),
    ("{{replicated} {manual}}", 15, "expected '}' to close the tuple, found '{'"),
    ("{{{replicated}}}", 3, f"{PART} '{{'"),
    ("{mesh[x=2], [{x}]}", 7, "expected an axis name in quotes, found 'x'"),
    ("{mesh['x'=2,], [{'x'}]}", 13, "expected an axis name in quotes, found ']'"),
    ("{mesh['x'=2]}", 13, "expected '[', replicated, unreduced or manual after the mesh, found '}'"),
    ("{mesh['x'=2], unknown}", 15, "expected '[', replicated, unreduced or manual after the mesh, found 'unknown'"),
    ("{mesh['x'=2], replicated metadata={}}", 26, "expected '}' to close the sharding, found 'metadata'"),
    ("{mesh['x'=2], replicated, manual}", 27, "expected 'metadata='"),
    ("{mesh[], manual}", 10, "a sharding over a mesh without axes cannot be manual"),
    ("{mesh['x'=2,'x'=4], replicated}", 13, "axis 'x' is given twice"),
    ("{mesh['x'=2], [{'z'}]}", 17, "the mesh has no axis 'z'"),
    ("{mesh['x'=2], [{'1'}]}", 17, "the mesh has no axis '1'"),
    ("{mesh['x'=2], [{'x' ?}]}", 21, "expected '}', found '?'"),
    ("{mesh['x'=2], [{?, 'x'}]}", 18, "expected '}' after '?', found ','"),
    ("{mesh['x'=2], [{'x',}]}", 21, "expected an axis name in quotes, found '}'"),
    ("{mesh['x'=2], [{'x'},]}", 22, "expected '{', found ']'"),
    ("{mesh['x'=2], [{'x'}] shard_as 1}", 23, "expected ',' or '}', found 'shard_as'"),
    ("{mesh['x'=2], [{'x'}], }", 24, "expected one of replicated=, unreduced=, manual=, metadata="),
    ("{mesh['x'=2], [{}], unreduced=mean{'x'}}", 31, "expected one of sum, max, min or '{', found 'mean'"),
    ("{mesh['x'=2], [{'x'}, {'x'}]}", 24, "'x' overlaps 'x', which is already used"),
    ("{mesh['x'=2], [{'x'}], manual={'x'}}", 32, "'x' overlaps 'x', which is already used"),
    ("{mesh['y'=12], [{'y':(2)3}, {'y':(3)2}]}", 30, "'y':(3)2 overlaps 'y':(2)3, which is already used"),
    ("{mesh['y'=24], [{'y':(2)3}, {'y':(4)2}]}", 30, "'y':(4)2 overlaps 'y':(2)3, which is already used"),
    ("{mesh['y'=4], [{'y':(1)2, 'y':(2)2}]}", 27, "'y':(1)2, 'y':(2)2 must be written as one axis"),
    ("{mesh['y'=4], [{'y':(1)4}]}", 17, "'y':(1)4 is not part of an axis of 4: 1 * 4 does not divide it"),
    ("{mesh['y'=4], [{'y':(2)4}]}", 17, "'y':(2)4 is not part of an axis of 4: 2 * 4 does not divide it"),
    (
        "{mesh['y'=4], [{'y':(1)1}]}",
        17,
        "'y':(1)1 is not part of an axis: the first number is at least 1, the second at least 2",
    ),
    ("{mesh['x'=2,'y'=2], [], manual={'y', 'x'}}", 38, "'x' must stand before 'y': the axes are sorted as in the mesh"),
    (
        "{mesh['y'=8], [], replicated={'y':(4)2, 'y':(1)2}}",
        41,
        "'y':(1)2 must stand before 'y':(4)2: the axes are sorted as in the mesh",
    ),
    ("{mesh['x'=2], device_ids=(), [{'x'}]}", 27, "expected a device, found ')'"),
    ("{mesh['x'=2], device_ids=(0,1), [{'x'}]}", 27, "device_ids in their natural order are not written"),
    ("{mesh['x'=2], device_ids=(1,2), [{'x'}]}", 27, "device_ids must be 0 to 1 in some order"),
    ("{mesh['x'=2], device_ids=(1,0,2), [{'x'}]}", 27, "a mesh of 2 devices needs as many device_ids, found 3"),
    (
        "{mesh['x'=2,'y'=2], device_ids=([2,2]), [{'x'}]}",
        38,
        "expected 'T' and the permutation of several sizes, found ')'",
    ),
    ("{mesh['x'=2,'y'=2], device_ids=([4]T(0)), [{'x'}]}", 36, "expected ')', found 'T'"),
    ("{maximal_mesh[]}", 15, "expected 'device_id='"),
    ("{maximal_mesh[device_id=3], replicated}", 29, "expected 'metadata='"),
]
BELIEVED_BY_XLA = [
    ("{devices=[2,1,1]0,1 devices=[2,1,1]1,0}", "devices= is given twice"),
    ("{devices=[2,1,1]<=[-2]}", "expected a non-negative integer, found -2"),
    ("{devices=[4,2,1]<=[2,4]T(1,1)}", "expected a permutation of 0, 1, found (1, 1)"),
    ("{mesh['x'=-2], [{'x'}]}", "expected a non-negative integer, found -2"),
    ("{mesh['x'=2], foo= [{'x'}]}", "expected '[', replicated, unreduced or manual after the mesh, found 'foo'"),
]
NOT_YET_READ_BY_XLA = [
    ("{mesh['x'=2,'y'=4], [{'x'}], unreduced=max{'y'}}", "{mesh['x'=2,'y'=4], [{'x'}], unreduced=max{'y'}}"),
    ("{mesh['x'=2], [], unreduced= min {'x'}}", "{mesh['x'=2], [], unreduced=min{'x'}}"),
    ("{mesh['x'=2,'y'=4], [{'x'}], unreduced=sum{'y'}}", "{mesh['x'=2,'y'=4], [{'x'}], unreduced={'y'}}"),
]


def read(text: str) -> Any:
    cursor = Cursor(Source(text))
    sharding = read_sharding(cursor)
    assert cursor.position == len(text)
    return sharding


def printed_by_xla(text: str) -> str:
    printed = _hlo.hlo_module_from_text(MODULE.format(text)).to_string()
    return printed.split("sharding=", 1)[1].split("\n", 1)[0]


def accepted_by_xla(texts: list[str]) -> list[bool]:
    """Whether XLA reads each, in a process of its own: some abort it."""
    program = (
        "import json, os, sys\n"
        "from jaxlib import _hlo\n"
        "answers = []\n"
        "for text in json.load(sys.stdin):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)\n"
        "        try:\n"
        "            _hlo.hlo_module_from_text(text)\n"
        "        except Exception:\n"
        "            os._exit(1)\n"
        "        os._exit(0)\n"
        "    answers.append(os.waitpid(child, 0)[1] == 0)\n"
        "print(json.dumps(answers))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([MODULE.format(text) for text in texts]),
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        timeout=120,
        check=True,
    )
    return json.loads(result.stdout)


@pytest.mark.parametrize("text", KEPT)
def test_text_stays(text: str):
    assert str(read(text)) == text == printed_by_xla(text)


@pytest.mark.parametrize(("text", "printed"), REWRITTEN)
def test_text_is_rewritten_as_xla_does(text: str, printed: str):
    assert str(read(text)) == printed == printed_by_xla(text)
    assert read(printed) == read(text)


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


@pytest.mark.parametrize(("text", "printed"), NOT_YET_READ_BY_XLA)
def test_forms_of_2026(text: str, printed: str):
    assert str(read(text)) == printed


def test_xla_agrees_on_what_is_refused():
    refused = [text for text, _, _ in REFUSED]
    believed = [text for text, _ in BELIEVED_BY_XLA]
    future = [text for text, _ in NOT_YET_READ_BY_XLA]
    accepted = dict(zip(refused + believed + future, accepted_by_xla(refused + believed + future), strict=True))
    assert [text for text in refused + future if accepted[text]] == []
    assert [text for text in believed if not accepted[text]] == []


def test_lists_of_the_wrong_length_are_kept_but_mean_nothing():
    """XLA fills up with what is in memory, or writes past its end."""
    for text, places, devices in [
        ("{devices=[2,1,2]0,1,2}", 4, 3),
        ("{devices=[2,1]0,1,2}", 2, 3),
        ("{devices=[4]<=[2]}", 4, 2),
    ]:
        sharding = read(text)
        assert str(sharding) == text
        with pytest.raises(HloomError) as caught:
            assignment(sharding)
        assert caught.value.message == f"{text} has {places} places for {devices} devices"


def test_names_that_xla_prints_but_cannot_read_are_escaped():
    text = r"{mesh['a\'b'=2,'c\\d'=2], [{'a\'b'}, {'c\\d'}]}"
    assert str(read(text)) == text
    assert printed_by_xla(text) == r"{mesh['a'b'=2,'c\d'=2], [{'a'b'}, {'c\d'}]}"


def test_axes_of_size_one_are_kept_where_xla_drops_them():
    text = "{mesh['x'=1,'y'=2], [], replicated={'x'}, manual={'y'}}"
    assert str(read(text)) == text
    assert printed_by_xla(text) == "{mesh['x'=1,'y'=2], manual}"
    assert lowered(read(text)) == Uniform("manual")


def test_cursor_is_left_after_the_value():
    cursor = Cursor(Source(' {replicated}, metadata={op_name="a"}'))
    read_sharding(cursor)
    assert cursor.text[cursor.position :] == ', metadata={op_name="a"}'


def test_values():
    assert read("{replicated}") == Uniform("replicated")
    assert read("{maximal device=1 shard_as 2}") == Maximal(1, ShardGroup("shard_as", 2))
    assert read("{maximal_mesh[device_id=1]}") == Maximal(1, in_mesh=True)
    assert read("{}") == TupleSharding()
    assert read("{devices=[2,1]1,0}") == Tiled((2, 1), ExplicitDevices((1, 0)))
    assert read("{devices=[2,2]<=[4] last_tile_dim_replicate metadata={op_name='a'}}") == Tiled(
        (2, 2), IotaDevices((4,)), ("replicated",), None, (Metadata(op_name="a"),)
    )
    x, y = AxisRef("x"), AxisRef("y", 2, 2)
    assert read("{mesh['x'=2,'y'=4], [{'x', ?}, {}], manual={'y':(2)2}}") == MeshSharding(
        HloMesh(("x", "y"), (2, 4)), (DimensionAxes((x,), is_open=True), DimensionAxes()), manual=(y,)
    )
    assert len({read(text) for text in KEPT}) == len(KEPT)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("{replicated}", True),
        ("{manual}", False),
        ("{maximal device=0}", False),
        ("{devices=[2,1]<=[2]}", False),
        ("{mesh['x'=2], replicated}", True),
        ("{mesh['x'=2], [{?}], replicated={'x'}}", True),
        ("{mesh['x'=2], [{'x'}]}", False),
        ("{mesh['x'=2], manual}", False),
        ("{{replicated}, {replicated}}", True),
        ("{{replicated}, {manual}}", False),
    ],
)
def test_is_replicated(text: str, answer: bool):
    assert read(text).is_replicated is answer


@pytest.mark.parametrize(
    ("text", "count", "tiles"),
    [
        ("{replicated}", None, (1, 1)),
        ("{maximal device=3}", 1, (1, 1)),
        ("{devices=[4,2]<=[8]}", 8, (4, 2)),
        ("{devices=[1,2,4]<=[8] last_tile_dim_replicate}", 8, (1, 2)),
        ("{mesh['x'=2,'y'=4], [{'y':(1)2, 'x'}]}", 8, (4, 1)),
        ("{mesh['x'=2,'y'=4], replicated}", 8, (1, 1)),
        ("{mesh['x'=2,'y'=4], [{}, {'y'}], manual={'x'}}", 8, (1, 4)),
    ],
)
def test_counts(text: str, count: int | None, tiles: tuple[int, ...]):
    assert (device_count(read(text)), tile_dims(read(text), 2)) == (count, tiles)


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        ("{replicated}", assignment, "{replicated} names no devices"),
        ("{devices=[2,1]<=[2]}", lambda s: tile_dims(s, 3), "{devices=[2,1]<=[2]} is for arrays of rank 2, not 3"),
        (
            "{mesh['x'=2], [{'x'}, {}]}",
            lambda s: tile_dims(s, 1),
            "{mesh['x'=2], [{'x'}, {}]} is for arrays of rank 2, not 1",
        ),
        ("{maximal device=3}", lambda s: tile_of(s, 0, 2), "{maximal device=3} gives device 0 no tile"),
        ("{devices=[2,1]<=[2]}", lambda s: tile_of(s, 2, 2), "{devices=[2,1]<=[2]} gives device 2 no tile"),
        ("{devices=[2,1]1,0}", lambda s: tile_of(s, 2, 2), "{devices=[2,1]1,0} gives device 2 no tile"),
        (
            "{mesh['x'=2,'y'=2], device_ids=([4,2]T(1,0)), [{'x'}]}",
            lowered,
            "mesh['x'=2,'y'=2], device_ids=([4,2]T(1,0)) has 4 places for 8 devices",
        ),
    ],
)
def test_questions_without_an_answer(text: str, ask, message: str):
    with pytest.raises(HloomError) as caught:
        ask(read(text))
    assert caught.value.message == message


SAME = [
    ("{devices=[2,2]0,1,2,3}", "{devices=[2,2]<=[4]}", 2),
    ("{devices=[2,2]0,2,1,3}", "{devices=[2,2]<=[2,2]T(1,0)}", 2),
    ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[2,1,2]1,0,3,2 last_tile_dims={replicated}}", 2),
    ("{mesh['x'=2,'y'=2], [{'y'}, {?}]}", "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 2),
    ("{mesh['x'=2,'y'=2], [{'x'}]}", "{mesh['a'=2,'b'=2], [{'a'}, {}], replicated={'b'}}", 2),
    ("{mesh['x'=2,'y'=2], replicated}", "{replicated}", 3),
    ("{mesh['x'=2,'y'=2], manual}", "{manual metadata={}}", 3),
    ("{mesh['x'=2,'y'=2], [], manual={'y'}}", "{devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={manual,replicated}}", 2),
    ("{maximal_mesh[device_id=2]}", "{maximal device=2 shard_as 1}", 1),
]
DIFFERENT = [
    ("{devices=[2,2]0,1,2,3}", "{devices=[2,2]0,1,3,2}", 2),
    ("{devices=[2,1]<=[2]}", "{devices=[1,2]<=[2]}", 2),
    ("{devices=[2,1,2]<=[4] last_tile_dims={manual}}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2),
    ("{replicated}", "{manual}", 2),
    ("{replicated}", "{maximal device=0}", 2),
    ("{maximal device=0}", "{maximal device=1}", 2),
    ("{devices=[2,1]<=[2]}", "{replicated}", 2),
]


@pytest.mark.parametrize(("left", "right", "rank"), SAME)
def test_equivalent(left: str, right: str, rank: int):
    assert equivalent(read(left), read(right), rank)
    assert equivalent(read(right), read(left), rank)


@pytest.mark.parametrize(("left", "right", "rank"), DIFFERENT)
def test_not_equivalent(left: str, right: str, rank: int):
    assert not equivalent(read(left), read(right), rank)


def test_conversions():
    first = read("{devices=[4,2]<=[2,4]T(1,0) shard_as 1}")
    assert str(with_explicit_devices(first)) == "{devices=[4,2]0,4,1,5,2,6,3,7 shard_as 1}"
    assert with_iota_devices(with_explicit_devices(first)) == first
    assert with_iota_devices(read("{devices=[4]0,1,3,2}")) is None
    assert with_iota_devices(read("{devices=[4]1,2,3,4}")) is None
    assert (
        with_iota_devices(read("{replicated}")) == with_explicit_devices(read("{replicated}")) == Uniform("replicated")
    )
    assert (
        str(with_explicit_devices(read("{mesh['x'=2,'y'=2], [{'y'}]}")))
        == "{devices=[2,2]0,2,1,3 last_tile_dim_replicate}"
    )


def test_shard_dims_round_up():
    assert shard_dims(read("{devices=[4,2]<=[8]}"), (10, 8)) == (3, 4)


def test_a_range_needs_a_permutation():
    with pytest.raises(ValueError, match=r"\(1, 1\) is not a permutation of the 2 dimensions"):
        IotaDevices((2, 4), (1, 1))


HOSTILE = [
    "{devices=[1000000000]<=[1000000000]}",
    "{devices=[1000000000,1,2]<=[2,1000000000]T(1,0) last_tile_dim_replicate}",
    "{devices=[1000000000,3,2]<=[3,1000000000,2]T(1,0,2) last_tile_dims={replicated,manual}}",
    "{devices=[90000,40000]<=[60000,60000]T(1,0) last_tile_dim_replicate}",
    "{mesh['x'=1000000000,'y'=1000000000], device_ids=([1000000000,1000000000]T(1,0)), [{'y'}]}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_long_ranges_are_not_expanded(text: str):
    tracemalloc.start()
    sharding = read(text)
    rank = 1 if isinstance(sharding, MeshSharding) else sharding.rank
    assert len(tile_of(sharding, 12345, rank)) == rank
    assert str(sharding) and equivalent(sharding, read(text), rank)
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()
    with pytest.raises(Unsupported, match="devices is not expanded: 16777216 is the limit"):
        assignment(sharding)
    with pytest.raises(Unsupported, match="devices is not written out: 65536 is the limit"):
        with_explicit_devices(sharding)


KINDS = ["maximal", "manual", "unreduced", "replicated"]


@st.composite
def ranges(draw: st.DrawFn, count: int) -> tuple[str, np.ndarray]:
    """A transposed range of so many devices, as text and as numbers."""
    sizes = [1]
    for factor in prime_factors(count):
        sizes = [*sizes, factor] if draw(st.booleans()) else [*sizes[:-1], sizes[-1] * factor]
    order = draw(st.permutations(range(len(sizes))))
    numbers = np.arange(count).reshape(sizes).transpose(order).ravel()
    return f"[{count}]" if len(sizes) == 1 else f"{sizes}T({','.join(map(str, order))})", numbers


@st.composite
def tiled(draw: st.DrawFn) -> tuple[str, int]:
    """A V1 or V2 sharding and the rank of its arrays."""
    tile = draw(st.lists(st.sampled_from([1, 1, 2, 2, 3, 4]), min_size=1, max_size=5))
    count = math.prod(tile)
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=len(tile)))
    last = f" last_tile_dims={{{','.join(kinds)}}}" if kinds else draw(st.sampled_from(["", " last_tile_dims={}"]))
    if kinds == ["replicated"] and draw(st.booleans()):
        last = " last_tile_dim_replicate"
    if count > 1 and draw(st.booleans()):
        devices = ",".join(map(str, draw(st.permutations(range(count)))))
    else:
        devices = "<=" + draw(ranges(count))[0]
    return f"{{devices={tile}{devices}{last}}}", len(tile) - len(kinds)


@st.composite
def meshes(draw: st.DrawFn) -> MeshSharding:
    """A V3 sharding that XLA neither aborts on nor, with one device that is manual and unreduced, gets wrong."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 6, 8]), min_size=1, max_size=3))
    names = ["x", "y z", "0"][: len(sizes)]
    pieces = [piece for name, size in zip(names, sizes, strict=True) for piece in draw(cuts(name, size))]
    homes: list[list[AxisRef]] = [[] for _ in range(draw(st.integers(0, 3)) + 3)]
    for piece in draw(st.permutations(pieces)):
        home = draw(st.integers(0, len(homes)))
        if home < len(homes):
            homes[home].append(piece)
    rank = {piece: index for index, piece in enumerate(pieces)}
    whole = dict(zip(names, sizes, strict=True))
    lists = [
        joined(sorted(home, key=rank.__getitem__) if index < 3 else home, whole) for index, home in enumerate(homes)
    ]
    count = math.prod(sizes)
    devices = None
    if draw(st.booleans()):
        numbers = draw(st.one_of(st.permutations(range(count)), ranges(count).map(lambda drawn: drawn[1].tolist())))
        devices = as_iota(ExplicitDevices(tuple(numbers))) or ExplicitDevices(tuple(numbers))
    assume(count > 1 or not lists[1] or not lists[2])
    dimensions = tuple(DimensionAxes(axes, draw(st.booleans())) for axes in lists[3:])
    return MeshSharding(HloMesh(tuple(names), tuple(sizes), devices), dimensions, *lists[:3])  # pyright: ignore[reportArgumentType]


@st.composite
def cuts(draw: st.DrawFn, name: str, size: int) -> list[AxisRef]:
    """An axis, whole or cut into parts, major to minor."""
    parts, before = [], 1
    for factor in prime_factors(size):
        if parts and draw(st.booleans()):
            parts[-1] = AxisRef(name, parts[-1].pre_size, parts[-1].size * factor)  # pyright: ignore[reportOptionalOperand]
        else:
            parts.append(AxisRef(name, before, factor))
        before *= factor
    return parts if len(parts) > 1 else [AxisRef(name)]


def joined(axes: list[AxisRef], whole: dict[str, int]) -> tuple[AxisRef, ...]:
    """The axes with neighbours merged where they must be."""
    result: list[AxisRef] = []
    for axis in axes:
        if result and mergeable(result[-1], axis):
            last = result.pop()
            axis = AxisRef(axis.name, last.pre_size, last.size * axis.size)  # pyright: ignore[reportOperatorIssue]
            axis = AxisRef(axis.name) if axis.size == whole[axis.name] else axis
        result.append(axis)
    return tuple(result)


def prime_factors(number: int) -> list[int]:
    """Of a number that only 2 and 3 divide."""
    if number == 1:
        return []
    factor = 2 if number % 2 == 0 else 3
    return [factor, *prime_factors(number // factor)]


@examples(75)
@given(tiled())
def test_any_tiled_sharding(case: tuple[str, int]):
    text, rank = case
    sharding = read(text)
    printed = printed_by_xla(text)
    assume(printed != "{devices=[]<=[1]}")  # of a scalar on one device, which it then cannot read
    printed = printed_by_xla(printed)  # {devices=[2,1]<=[2] last_tile_dims={unreduced,maximal}} takes it two readings
    assert str(sharding) == printed
    assert read(str(sharding)) == sharding
    assert equivalent(sharding, with_explicit_devices(sharding), rank)
    theirs = _hlo.HloSharding.from_string(text)
    if isinstance(sharding, Tiled):
        check_tiles(sharding, theirs, rank)


@examples(75)
@given(meshes())
def test_any_mesh_sharding(sharding: MeshSharding):
    text = str(sharding)
    assert read(text) == sharding
    assert printed_by_xla(text) == text or 1 in sharding.mesh.sizes
    theirs = _hlo.HloSharding.v3_to_v2_sharding(_hlo.HloSharding.from_string(text))
    ours = lowered(sharding)
    rank = len(sharding.dimensions)
    assert ours == read(str(theirs))
    assert equivalent(sharding, read(str(theirs)), rank)
    if isinstance(ours, Tiled):
        check_tiles(sharding, theirs, rank)


def check_tiles(sharding: Tiled | MeshSharding, theirs, rank: int):
    """Compare the device array, the tile of every device and the size of a tile with XLA's."""
    array = np.array(theirs.tile_assignment_devices()).reshape(theirs.tile_assignment_dimensions())
    np.testing.assert_array_equal(assignment(sharding), array)
    for index in np.ndindex(array.shape):
        assert tile_of(sharding, int(array[index]), rank) == index[:rank]
    dims = [7, 8, 9, 10, 11][:rank]
    shape = _hlo.Shape.array_shape(np.dtype(np.float32), dims)
    assert shard_dims(sharding, dims) == tuple(theirs.tile(shape).dimensions())
