"""Every error of reading: its place, line and column, and its text.

Covers `reserved_words.py`.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import hloom.formats.hlo
import hloom.ir
from hloom.formats.hlo import parse
from hloom.text import Cursor, HloomError, ParseError

HEADER = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n"

INSTRUCTIONS = [
    ("b = f32[4] all-to-all-done()", "5:14: all-to-all-done: async-done takes 1 operand, not 0"),
    ("b = ((f32[4]), f32[4]) add-start(x)", "5:26: add-start: add takes 2 operands, not 1"),
    ("b = f32[2] constant(1, 2)", "5:24: expected ')', found ','"),
    ("b = f32[2,2] constant({1, 2})", "5:26: expected '{': f32[2,2] has rank 2"),
    ("b = f32[2] constant({1, 2", "7:1: expected ')', found the end of the text"),
    ("b = f32[2] constant(})", "5:23: expected a value of f32[2], found '}'"),
    ("b = f32[2] constant({1})", "5:25: expected 2 elements in dimension 0 of f32[2], found 1"),
    ("b = f32[2] constant({{1}})", "5:24: too many '{' for f32[2], which has rank 1"),
    ("b = f32[2,2] constant({{...}})", "5:27: '...' stands only directly inside the outermost braces"),
    ("b = f32[] constant((1, 2))", "5:22: '(' begins a complex number, but the elements are f32"),
    ("b = c64[] constant((1, x))", "5:26: expected a number as a part of a complex number"),
    ("b = c64[] constant(1)", "5:22: expected '(', as c64 has two parts"),
    ("b = f32[] constant(true)", "5:22: 'true' is not a value of f32"),
    ("b = s32[] constant(1.5)", "5:22: expected an integer for s32, found '1.5'"),
    ("b = f32[2] constant({1, 2, 3})", "5:30: more than 2 elements in dimension 0 of f32[2]"),
    ("b = f32[] constant(99999999999999999999)", "5:22: integer 99999999999999999999 does not fit into 64 bits"),
    ("b = f64[] constant(1e999)", "5:22: 1e999 is out of range even for f64"),
    ("b = f32[] constant(nan(0x0))", "5:22: a NaN's payload is between 0x1 and 0xfffffffffffff"),
    ("b = s8[] constant(300)", "5:21: value 300 is out of range for s8: [-128, 127]"),
    ("b = f16[] constant(1e9)", "5:22: value 1e+09 is out of range for f16: [-65504, 65504]"),
    ("b = bf16[] constant(nan(0xfffff))", "5:23: this NaN payload does not fit into bf16: at most 0x7f"),
    ("b = f32[9999999999,9] constant(1)", "5:34: f32[9999999999,9] takes too much memory"),
    ("b = f32[9999999999,9999999999] parameter(1)", "5:7: f32[9999999999,9999999999] has more bytes than 63 bits count"),
    ("b = f32[9999999999,9999999999,0] constant({...})", "5:45: f32[9999999999,9999999999,0] is larger than numpy's arrays can be"),
    ("b = f32[4]{0:L(0)} parameter(1)", "5:17: a layout pads to a multiple of at least 1 element"),
    ("b = f32[4] call(x), to_apply=e", "3:1: computations call each other in a circle, e -> e: HLO has no recursion"),
    ("b = f32[] constant(x)", "5:22: expected a value of f32[], found 'x'"),
    ("b = c64[2] constant({1, 2})", "5:24: expected '(', as c64 has two parts"),
    ("b = c64[2] constant((1, 2))", "5:23: expected '{': c64[2] has rank 1"),
    ("b = f32[4] add-start(x, x)", "5:14: add-start needs a type ((operands), outputs, ...)"),
    ('b = f32[4] negate(x), origin={{"x"}}, origin={{"x"}}', "5:41: attribute 'origin' is given twice"),
    ("b = f32[4] negate(x), control-predecessors={}", "5:46: expected the name of an instruction"),
    ("b = f32[4] negate(f32[5] x)", "5:28: operand x is declared as f32[5], but it is f32[4]"),
    (
        "b = f32[4] all-to-all(x), replica_groups=0",
        "5:44: expected replica groups, which begin with '{', '[' or 'mesh', found '0'",
    ),
    ("b = f32[4] all-to-all(x), replica_groups=[2]<=[2]", "5:44: expected [groups,devices per group], found 1 sizes"),
    ("b = f32[4] " + "negate(" * 10_003, "5:70014: operands nest deeper than 10000"),
    ("b = f32[4] negate(x), backend_config={{{", "5:40: this '{' is never closed"),
    ("b = token[] outfeed(x, x), outfeed_shape=b(b(f32[]))", "5:46: a buffer holds an array, not a buffer or tuple"),
    ("b = f32[4] negate(x, x)", "5:14: negate takes 1 operand, not 2"),
    ("b = f32[4] while(), condition=f, body=f", "5:14: while takes 1 operand, not 0"),
    ("b = f32[4] abs(f32[4] negate())", "5:18: negate takes 1 operand, not 0"),
    ("b = f32[4] foo(x), speed={{{1", "5:28: expected '}' before the end of the text"),
    ("b= f32[4] negate(x)", "5:3: a space is needed between 'b' and '='"),
    ("x = f32[4] negate(x)", "5:3: 'x' is already defined in e"),
    ("b = f32[4] negate(c)\n  c = f32[4] negate(x)", "6:3: 'c' is used in e before it is defined here"),
    ("b = f32[4] negate(x#0)", "5:21: x is f32[4]: it has no element 0"),
    ("b = f32[4] parameter(-1)", "5:24: a parameter's number cannot be -1"),
    ("b = constant(1)", "5:16: a constant needs a type"),
    ("ROOT b = f32[4] negate(x)\n  ROOT c = f32[4] negate(x)", "6:3: e has a second ROOT; the first is b"),
    ("b = f32[4] add(x x)", "5:20: expected ',' or ')' among the operands, found 'x'"),
    ("1 = f32[4] negate(x)", "5:3: expected an instruction's name, found '1'"),
    ("b f32[4] negate(x)", "5:5: expected '=' after the name 'b', found 'f32'"),
    ("b = f32[4] Negate(x)", "5:14: expected an opcode and '(', found 'Negate'"),
    ("b = f32[4] add(x, 1)", "5:21: expected an operand, found '1'"),
    ("b = token[] constant(1)", "5:24: a constant cannot be of type token[]"),
    ("b = f32[?] constant(1)", "5:23: a constant cannot be of type f32[?], whose size is unbounded"),
    (
        "b = f32[" + "1," * 70 + "1] constant(1)",
        "5:163: a constant has at most 64 dimensions, f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] has 71",
    ),
    ('b = f32[] custom-call(), custom_call_target="f", literal=' + "(" * 1001, "5:1060: tuples nest deeper than 1000"),
    ("b = (f32[], f32[]) constant((1))", "5:33: expected a value of f32[], found ')'"),
    ("b = (f32[]) constant(1)", "5:24: expected '(' before a tuple's elements, found '1'"),
    ("b = f32[4] negate(x), sharding={maximal_mesh[device=3]}", "5:48: expected 'device_id='"),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2], odd}",
        "5:48: expected '[', replicated, unreduced or manual after the mesh, found 'odd'",
    ),
    ("b = f32[4] negate(x), sharding={mesh[], manual}", "5:43: a sharding over a mesh without axes cannot be manual"),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2], [], unreduced=avg{'x'}}",
        "5:62: expected one of sum, max, min or '{', found 'avg'",
    ),
    ("b = f32[4] negate(x), sharding={mesh['x'=2], replicated, odd}", "5:60: expected 'metadata='"),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2], [], odd={}}",
        "5:52: expected one of replicated=, unreduced=, manual=, metadata=",
    ),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2,'y'=2], [], replicated={'y','x'}}",
        "5:74: 'x' must stand before 'y': the axes are sorted as in the mesh",
    ),
    ("b = f32[4] negate(x), sharding={mesh['x'=2], [{?,'x'}]}", "5:51: expected '}' after '?', found ','"),
    ("b = f32[4] negate(x), sharding={mesh[x=2], []}", "5:40: expected an axis name in quotes, found 'x'"),
    ("b = f32[4] negate(x), sharding={devices=[]0,1}", "5:43: expected at least one size between '[' and ']'"),
    (
        "b = f32[4] negate(x), sharding={devices=[2,2]<=[2,2]T(0,0)}",
        "5:56: expected a permutation of 0, 1, found (0, 0)",
    ),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2], device_ids=(0,1,2), []}",
        "5:60: a mesh of 2 devices needs as many device_ids, found 3",
    ),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2], device_ids=(1,2), []}",
        "5:60: device_ids must be 0 to 1 in some order",
    ),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2], device_ids=(0,1), []}",
        "5:60: device_ids in their natural order are not written",
    ),
    ("b = f32[4] negate(x), sharding={mesh['x'=2], [{'y'}]}", "5:50: the mesh has no axis 'y'"),
    ("b = f32[4] negate(x), sharding={mesh['x'=2], [{'x'}, {'x'}]}", "5:57: 'x' overlaps 'x', which is already used"),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=8], [{'x':(1)2, 'x':(2)2}]}",
        "5:60: 'x':(1)2, 'x':(2)2 must be written as one axis",
    ),
    ("b = f32[4] negate(x), sharding={mesh['x'=2,'x'=2], []}", "5:46: axis 'x' is given twice"),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=8], [{'x':(3)2}]}",
        "5:50: 'x':(3)2 is not part of an axis of 8: 3 * 2 does not divide it",
    ),
    ("b = f32[4] negate(x), sharding={devices=[2]0,1 devices=[2]0,1}", "5:50: devices= is given twice"),
    (
        "b = f32[4] negate(x), sharding={devices=[2]0,1 last_tile_dims={odd}}",
        "5:66: expected one of maximal, manual, unreduced, replicated, found 'odd'",
    ),
    (
        "b = f32[4] negate(x), sharding={replicated devices=[2]0,1}",
        "5:46: a sharding that is replicated takes no devices",
    ),
    ("b = f32[4] negate(x), sharding={maximal}", "5:35: a sharding that is maximal takes exactly one device"),
    ("b = f32[4] negate(x), sharding={last_tile_dim_replicate}", "5:35: expected devices=[..] or what the sharding is"),
    (
        "b = f32[4] negate(x), sharding={devices=[2]0,1 device=1}",
        "5:50: device= is for a sharding that is maximal, devices=[..] is given too",
    ),
    ("b = f32[4] negate(x), sharding={devices=[1]0}", "5:35: a list of devices must have more than one"),
    (
        "b = f32[4] negate(x), sharding={devices=[2]0,1 last_tile_dim_replicate last_tile_dims={manual}}",
        "5:35: last_tile_dim_replicate and last_tile_dims= exclude each other",
    ),
    (
        "b = f32[4] negate(x), sharding={devices=[2]0,1 last_tile_dims={manual,replicated}}",
        "5:35: 2 last tile dims, but only 1 in all",
    ),
    ("b = f32[4] negate(x), sharding={odd}", "5:35: expected a part of a sharding, found 'odd'"),
    ("b = f32[4] negate(x), sharding=replicated", "5:34: expected '{' to open a sharding, found 'replicated'"),
    (
        "b = f32[4] get-tuple-element(x), index=99999999999999999999",
        "5:42: integer 99999999999999999999 does not fit into 64 bits",
    ),
    ("b = f32[4] negate(x), sharding={devices=[-1]0}", "5:44: expected a non-negative integer, found -1"),
    ("b = f32[4] call(x), to_apply=f, is_composite=1", "5:48: expected true or false, found '1'"),
    ("b = f32[4] call(x), to_apply=f, is_composite=yes", "5:48: expected true or false, found 'yes'"),
    ('b = f32[4] custom-call(x), custom_call_target="\\q"', "5:49: bad string: unknown escape '\\q'"),
    ("b = f32[4] negate(x), origin=x", "5:32: expected '{', found 'x'"),
    ("b = f32[4] negate(x), backend_config=1", "5:40: expected a string or '{', found '1'"),
    ("b = f32[4] get-tuple-element(x), index=x", "5:42: expected an integer, found 'x'"),
    ("b = f32[4] custom-call(x), custom_call_target=f", "5:49: expected a string, found 'f'"),
    ("b = f32[4] transpose(x), dimensions={0,}", "5:42: expected an integer, found '}'"),
    ("b = f32[4] transpose(x), dimensions={0 1}", "5:42: expected '}', found '1'"),
    ("b = f32[4] transpose(x), dimensions 0", "5:28: expected an attribute's name and '=', found 'dimensions'"),
    ("b = f32[4] negate(x),", "6:1: expected an attribute's name and '=', found '}'"),
    ("b = f32[4]{0:P(f32[4])} negate(x)", "5:17: physical shapes P(...) are not supported, here as in XLA"),
    ("b = f33[4] negate(x)", "5:7: no element type is called 'f33'"),
    ("b = f32[-4] negate(x)", "5:11: a dimension cannot be -4"),
    ("b = f32[4]{1} negate(x)", "5:13: layout {1} is not a permutation of the dimensions 0 to 0"),
    ("b = f32[]{0} negate(x)", "5:12: a scalar's layout names no dimension"),
    ("b = f32[4]{0:*(f33)} negate(x)", "5:18: no element type is called 'f33'"),
    ("b = (f32[4] f32[4]) tuple(x, x)", "5:15: expected ',' or ')' in a tuple type, found 'f32'"),
    ("b = " + "(" * 1201, "5:7: tuple types nest deeper than 1200"),
    ("b = f32[4]{0:Q(1)} negate(x)", "5:16: expected a part of a layout, found 'Q'"),
    ("b = f32[4]{0:S(1)T(2)} negate(x)", "5:24: 'T' stands too late in this layout; the order is D T L # * E S SC P M"),
    ("b = f32[a] negate(x)", "5:11: expected a dimension, found 'a'"),
    ("b = f32[4]{0:S()} negate(x)", "5:18: expected a non-negative integer, found ')'"),
    ("b = f32[4]{0:D(Q)} negate(x)", "5:18: expected dimension level types (D, C, S or H), found 'Q'"),
    ("b = f32[4] reduce-window(x, x), window={stride=2}, to_apply=f", "5:42: a window needs size="),
    ("b = f32[4] pad(x, x), padding=0_0_-1", "5:33: interior padding cannot be negative"),
    ("b = f32[4] slice(x), slice={[1]}", "5:34: a slice is [start:limit] or [start:limit:stride]"),
    ("b = f32[4] dot(x, x), operand_precision={low}", "5:44: no precision is called 'low'"),
    (
        "b = f32[4] negate(x), statistics={visualizing_index=2,a=1}",
        "5:36: visualizing_index=2 does not name one of the 1 statistics",
    ),
    ("b = f32[4] tanh(x), result_accuracy={accuracy=1}", "5:49: expected mode= or tolerance=, found 'accuracy'"),
    ("b = f32[4] tanh(x), result_accuracy={tolerance={tol=1}}", "5:51: no tolerance is called 'tol'"),
    ("b = f32[4] negate(x), origin={{x}}", "5:32: 'x' needs quotes: origin={{\"name\" {index}}}"),
    ("b = pred[4] compare(x, x), direction=eq", "5:40: 'eq' is not one of EQ, NE, GE, GT, LE, LT"),
    ("b = f32[4] foo(x), speed=,", "5:28: expected a value, found ','"),
    ("b = f32[4] reduce-window(x, x), window={size=2 size=2}, to_apply=f", "5:50: 'size' is given twice"),
    (
        "b = f32[4] reduce-window(x, x), window={size=2 stride=2x2}, to_apply=f",
        "5:42: 'stride' does not fit a window of rank 1",
    ),
    (
        "b = f32[4] convolution(x, x), dim_labels=b0f_0ib->b0f",
        "5:44: expected labels such as b01f_01io->b01f, found 'b0f_0ib-'",
    ),
    ("b = f32[4] convolution(x, x), dim_labels=b0f_0io->b1f", "5:44: output labels 'b1f' need b, f and 1 digits once"),
    (
        'b = f32[4] domain(x), domain={kind="sharding", kind="sharding"}',
        "5:50: 'kind' cannot stand here; a domain has kind, entry and exit, each once",
    ),
    ("b = f32[4] tanh(x), result_accuracy={mode=best}", "5:45: no accuracy mode is called 'best'"),
    ('b = f32[4] negate(x), frontend_attributes={a="1",a="2"}', "5:52: 'a' is given twice"),
    ("b = f32[4] foo(x), speed={1]", "5:30: ']' closes or opens nothing here"),
    ("b = f32[4] convolution(x, x), dim_labels=b0f", "5:44: expected labels such as b01f_01io->b01f, found 'b0f'"),
    ("b = f32[4] reduce-window(x, x), window={size=a}, to_apply=f", "5:48: expected numbers such as 3x3, found 'a'"),
    (
        "b = f32[4] reduce-window(x, x), window={sizes=2}, to_apply=f",
        "5:43: expected size=, stride=, pad=, lhs_dilate=, rhs_dilate= or rhs_reversal=, found 'sizes'",
    ),
    ("b = f32[4] pad(x, x), padding=1", "5:33: expected padding such as 0_1x2_3, found '1'"),
    ("b = f32[4] batch-norm-inference(x,x,x,x,x), epsilon=e, feature_index=0", "5:55: expected a number, found 'e'"),
    ("b = f32[4] negate(x), frontend_attributes={a=b}", "5:48: expected a string, found 'b'"),
    ("b = f32[4] negate(x), sharding={replicated metadata={op_name=x}}", "5:64: expected a string, found 'x'"),
    ("b = f32[4] negate(x), sharding={replicated metadata={odd=1}}", "5:56: no metadata field is called 'odd'"),
    (
        'b = f32[4] negate(x), sharding={replicated metadata={op_name="a" op_name="b"}}',
        "5:68: metadata field 'op_name' is given twice",
    ),
    ('b = f32[4] negate(x), sharding={replicated metadata={op_name="\\q"}}', "5:64: bad string: unknown escape '\\q'"),
    (
        "b = f32[4] negate(x), sharding={replicated metadata={source_line=9223372036854775808}}",
        "5:68: integer 9223372036854775808 does not fit into 64 bits",
    ),
    ("b = f32[4] negate(x), sharding={replicated metadata={source_line=x}}", "5:68: expected an integer, found 'x'"),
    (
        "b = f32[4] negate(x), sharding={replicated metadata={profile_type={99999999999999999999}}}",
        "5:69: an integer here does not fit into 64 bits",
    ),
    (
        "b = f32[4] reduce-window(x, x), window={size=99999999999999999999}, to_apply=e",
        "5:42: a number of this window does not fit into 64 bits",
    ),
    (
        "b = f32[4] pad(x, x), padding=99999999999999999999_0",
        "5:33: a number of this padding does not fit into 64 bits",
    ),
    (
        "b = f32[4] tanh(x), result_accuracy={tolerance={atol=0,rtol=0,ulps=1e30}}",
        "5:50: ulps=1e+30 does not fit into 64 bits",
    ),
]
"""Instructions behind `x = f32[4] parameter(0)` in a tolerant reading: where and what."""

STRICT_INSTRUCTIONS = [
    ("nan =  f32[4] negate(x)", "5:3: 'nan' is a reserved word; as a name it needs a %"),
    (
        'b = ((f32[4]), f32[4]) custom-call-start(x), custom_call_target="f"\n  c = f32[4] negate-done(b)',
        "6:14: negate-done ends custom-call-start",
    ),
    ("b = f32[4] negate-done(x)", "5:14: negate-done ends nothing asynchronous"),
    ("b = f32[4] negate(x), speed=1", "5:25: negate has no attribute 'speed'"),
    ("b = f32[4] negate(y)", "5:21: nothing before this is called 'y' in e"),
    (
        "t = (f32[4]) parameter(1)\n  b = f32[4] negate(t#0)",
        "6:22: elements of tuples as operands ('name#0') are newer than what XLA's parser reads here",
    ),
    ("b = negate(y, y)", "5:14: nothing before this is called 'y' in e"),
    ("b = f32[4] foo(x)", "5:14: no opcode is called 'foo'"),
    ("b = add(x, s32[4] z)", "5:21: nothing before this is called 'z' in e"),
    (
        "z = s32[4] parameter(1)\n  b = add(x, z)",
        "6:7: add: the operands must have the same element type, but are f32[4] and s32[4]",
    ),
    ("nan = f32[4] negate(x)", "5:3: 'nan' is a reserved word; as a name it needs a %"),
    ("f32 = f32[4] negate(x)", "5:3: 'f32' is a type and cannot be an instruction's name"),
    ("__b = f32[4] negate(x)", "5:3: names that begin with two underscores are reserved: '__b'"),
    ("%f32 = f32[4] negate(x)", "5:3: 'f32' is a type and cannot be an instruction's name"),
    ("b = f32[4] call(x), to_apply=nan", "5:32: 'nan' is a reserved word; as a name it needs a %"),
    ("b = f32[4] negate(x, x)", "5:14: negate takes 1 operand, not 2"),
    ("b = f32[4] add(x)", "5:14: add takes 2 operands, not 1"),
    ("b = iota(), iota_dimension=0", "5:7: iota needs its type written before it"),
    ("b = f32[4] negate(x), metadata={odd=1}", "5:3: in its metadata: no metadata field is called 'odd'"),
    ("b = f32[4] parameter(2)", "5:3: parameter numbers of e must be 0 to 1, each once: 1 is missing"),
    ("b = f32[4] parameter(0)", "5:3: parameter numbers of e must be 0 to 1, each once: 0 is given twice"),
    ("b = f32[4] call(x), to_apply=f", "5:32: no computation before this is called 'f'"),
    ("b = f32[5] reshape(x)", "5:3: reshape from f32[4] to f32[5] changes the number of elements"),
    ("b = f32[4] tuple(x)", "5:3: a tuple of 1 operands cannot have the type f32[4]"),
    ("b = (f32[4], f32[4]) tuple(x)", "5:3: a tuple of 1 operands cannot have the type (f32[4], f32[4])"),
    (
        "b = f32[4] conditional(x, x)",
        "5:3: conditional needs branch_computations, or true_computation and false_computation",
    ),
    ("b = f32[4] conditional(x), branch_computations={}", "5:3: conditional needs at least one branch"),
    ("b = f32[2,4] broadcast(x)", "5:3: broadcast needs the attribute 'dimensions' unless its operand is a scalar"),
    ("b = f32[8] concatenate(x, x), dimensions={0,1}", "5:3: dimensions={0,1} must name one dimension"),
    ("b = f32[1] dynamic-slice(x, x, x), dynamic_slice_sizes={1}", "5:3: x has rank 1, but there are 2 start indices"),
    (
        "b = f32[4] async-start(x), calls={ a = f32[4] parameter(0) }",
        "5:14: async-start must have a type ((operands), outputs, ...), not f32[4]",
    ),
    ("b = f32[4] async-done(x)", "5:3: x is neither async-start nor async-update"),
    ("b = f32[4] infeed(x)", "5:3: this must yield a tuple that is not empty, not f32[4]"),
    ("b = parameter(1)", "5:17: a parameter needs a type"),
    ("b = f32[4] recv-done(x)", "5:3: x must be a tuple that is not empty, not f32[4]"),
    (
        "b = (f32[4]) scan(x), dimensions={0}, num_carries=2, to_apply={ a = f32[4] parameter(0) }",
        "5:16: num_carries=2 does not fit 1 operands",
    ),
    (
        'b = f32[4] domain(x), domain={kind="odd", entry={replicated}, exit={replicated}}',
        "5:3: domains are of the kind 'sharding', not 'odd'",
    ),
    (
        "b = f32[4] collective-permute(x), source_target_pairs={{0,1,2}}",
        "5:3: source_target_pairs must be pairs, not (0, 1, 2)",
    ),
    (
        "b = f32[4] collective-permute(x), source_target_pairs={{0,1}}, slice_sizes={{1}}",
        "5:3: collective-permute with slice_sizes takes 4 operands, not 1",
    ),
    ("b = get-tuple-element(x), index=0", "5:7: x is f32[4]: it has no element 0"),
    (
        'b = f32[4] custom-call(x), custom_call_target="f", operand_layout_constraints={}',
        "5:3: operand_layout_constraints must be 1, one per operand, not 0",
    ),
    (
        'b = f32[4] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[5]{0}}',
        "5:3: operand_layout_constraints: f32[5]{0} does not fit x",
    ),
    ("b = f32[4] negate(x), outer_dimension_partitions={1}", "5:3: outer_dimension_partitions was read in 2020 only"),
    ("b = f32[4] parameter(1), parameter_replication={true,false}", "5:3: parameter_replication needs 1 values, not 2"),
    (
        "b = f32[4] negate(x), sharding={mesh['x'=2], [], unreduced=max{'x'}}",
        "5:3: unreduced=max is newer than what XLA's parser reads here",
    ),
    (
        "b = (f32[4], s32[4]) topk(x), k=4, is_stable=true",
        "5:3: topk with these attributes is of another year: XLA's parser of today does not read it",
    ),
    (
        "b = f32[4] tuple-select(x, x, x)",
        "5:3: tuple-select with these attributes is of another year: XLA's parser of today does not read it",
    ),
    (
        "b = f32[] reduce(x, x, x), dimensions={0}, to_apply={ a = f32[] parameter(0) }",
        "5:13: reduce takes at least 2 operands and then 2 at a time, not 3",
    ),
    ("b = f32[4] dot(x, x), control-predecessors={y}", "5:47: nothing before this is called 'y' in e"),
]
"""The same in strict mode."""

MODULES = [
    ("", "1:1: expected HLO, found an empty text"),
    ("// nothing\n", "2:1: expected HLO, found an empty text"),
    ("HloModule", "1:10: expected the module's name, found the end of the text"),
    ("HloModule m", "1:12: expected a computation, found the end of the text"),
    ("HloModule m, a", "1:14: expected a header attribute and '=', found 'a'"),
    ("HloModule m, replica_count=1, replica_count=1\n", "1:31: header attribute 'replica_count' is given twice"),
    ("HloModule m\n\nENTRY e {", "3:9: the computation e is never closed"),
    ("HloModule m\n\nENTRY e {\n}", "3:10: the computation e has no instructions"),
    (
        "HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n}\n\nENTRY f {\n  x = f32[] parameter(0)\n}\n",
        "7:1: a second ENTRY; the first is e",
    ),
    (
        "HloModule m\n\ne {\n  x = f32[] parameter(0)\n}\n\ne {\n  x = f32[] parameter(0)\n}\n",
        "7:1: a computation 'e' is already defined",
    ),
    (
        "HloModule m\n\nStackFrames\n1 {file_location_id=1 odd=1}\n\nENTRY e {\n  x = f32[] parameter(0)\n}\n",
        "4:23: field 'odd' cannot stand here",
    ),
    ("HloModule m, entry_computation_layout={f32[]->f32[]}\n", "1:45: expected the parameters' types in parentheses"),
    ("HloModule m, input_output_alias={ {}: (0, {}, odd) }\n", "1:47: expected may-alias or must-alias, found 'odd'"),
    ("HloModule m, buffer_donor={ (-1, {}) }\n", "1:30: expected a parameter's number, found -1"),
    (
        "HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n  y = f32[] "
        + "call(x), to_apply={ x = f32[] parameter(0) y = f32[] " * 61,
        "5:3211: computations nest deeper than 60",
    ),
    ("HloModule m\n\ne (x f32[]) -> f32[] {\n", "3:23: the computation e is never closed"),
    ("HloModule m\n\ne () {\n", "3:6: expected '->', found '{'"),
    ("HloModule m\n\ne -> {\n", "3:3: expected '{' to open the computation e, found '-'"),
    ("negate(", "1:8: expected an operand, found the end of the text"),
    ("negate(x", "1:9: expected ',' or ')' among the operands, found the end of the text"),
    (
        "HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n}, execution_thread=side\n",
        "5:21: expected a string, found 'side'",
    ),
    ("HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n}\n}\n", "6:1: expected a computation's name, found '}'"),
    ("HloModule m\n\nENTRY e {\n  f32[] negate(a)\n}\n", "4:6: expected '=' after the name 'f32', found '['"),
    (
        "e { negate.anon = f32[] add(f32[] negate(f32[] x), f32[] x)\n, x=1 }\n",
        "1:5: 'negate.anon' is already defined in e",
    ),
]
"""Whole texts in a tolerant reading."""

STRICT_MODULES = [
    ("nan =  f32[4] negate(x)", "1:1: 'nan' is a reserved word; as a name it needs a %"),
    ("f32[2] negate(x)", "1:15: operand x needs a type, for it becomes a parameter"),
    (
        "f32[2] negate(f32[2] x)\nf32[2] negate(f32[2] x)",
        "2:1: expected the end of the text after one instruction, found 'f32'",
    ),
    ("HloModule m, odd=1\n", "1:14: no header attribute is called 'odd'"),
    (
        'HloModule m\n\nFileNames\n1 "f"\n\nENTRY e {\n  x = f32[] parameter(0)\n}\n',
        "3:1: the stack tables that begin here lack 'FunctionNames'",
    ),
    (
        "e () -> f32[] {\n  x = f32[] parameter(0)\n}\n",
        "1:3: a computation with a signature needs the header 'HloModule name' before it",
    ),
    ("HloModule nan\n", "1:11: 'nan' is a reserved word; as a name it needs a %"),
    (
        "HloModule m, input_output_alias={ {1}: (0, {}) }\n\nENTRY e {\n  x = f32[] parameter(0)\n}\n",
        "1:1: the header's {1}: (0, {}, may-alias) names an output or a parameter that e has not",
    ),
    (
        "HloModule m\n\nENTRY e (x: f32[]) -> s32[] {\n  x = f32[] parameter(0)\n}\n",
        "4:3: e is declared to yield s32[], but its root x is f32[]",
    ),
    (
        "HloModule m\n\nENTRY nan {\n  x = f32[] parameter(0)\n}\n",
        "3:7: 'nan' is a reserved word; as a name it needs a %",
    ),
    ("HloModule m, debug_attributes={}\n", "1:14: no header attribute is called 'debug_attributes'"),
    ("\ufeffHloModule m\n", "1:1: expected an opcode and '(', found '\\357\\273\\277'"),
    (
        "HloModule m, origin_recovery_table={ {\"a\"} {\"b\"} }\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n",
        "1:1: origin_recovery_table must be { {\"old\"} : {\"new\"}, \"HloModule ..\" .. }",
    ),
    (
        "HloModule m, origin_recovery_table={ {\"a\"} : {\"b\"}, \"HloModule q\" }\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n",
        "1:1: a module of origin_recovery_table does not read: expected a computation, found the end of the text",
    ),
    (
        "HloModule m\n\nFileNames\nFunctionNames\nFileLocations\n1 {file_name_id=1}\nStackFrames\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n",
        "6:1: a row of FileLocations lacks 'function_name_id'",
    ),
    (
        "HloModule m\n\nFileNames\nFunctionNames\nFileLocations\nStackFrames\n1 {file_location_id=4294967296 parent_frame_id=1}\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n",
        "7:1: file_location_id=4294967296 of StackFrames does not fit into 32 bits",
    ),
    (
        "HloModule m\n\nf {\n  a = f32[4] parameter(0)\n}\n\nENTRY e {\n  x = f32[4] parameter(0)\n  a = ((f32[4]), f32[4]) call-start(x), to_apply=f\n  ROOT b = f32[4] call-done(a), to_apply=f\n}\n",
        "10:19: 'to_apply' is said by call-start, and call-done has no such attribute",
    ),
]
"""Whole texts in strict mode."""


UNREACHED = {
    "no instruction goes on here": "what a comma continues was always a line that the fast way read",
    "a nested computation is read where it stands, in the careful way": "sends the fast way to the careful one",
}
"""Errors that no text gives, and why they are there."""


def inside(instruction: str) -> str:
    return f"{HEADER}  {instruction}\n}}\n"


CASES = [
    *((inside(text), False, expected) for text, expected in INSTRUCTIONS),
    *((inside(text), True, expected) for text, expected in STRICT_INSTRUCTIONS),
    *((text, False, expected) for text, expected in MODULES),
    *((text, True, expected) for text, expected in STRICT_MODULES),
]


@pytest.mark.filterwarnings("ignore::hloom.text.HloomWarning")
@pytest.mark.parametrize(("text", "strict", "expected"), CASES)
def test_the_place_the_text_and_the_caret(text: str, strict: bool, expected: str):
    with pytest.raises(ParseError) as caught:
        parse(text, strict=strict, name="m.hlo")
    assert str(caught.value).splitlines()[0] == f"m.hlo:{expected}"
    location = caught.value.location
    assert location is not None
    line = text.split("\n")[location.line - 1]
    assert location.excerpt in line
    assert (
        location.excerpt[location.caret :][:20]
        == line[location.column - 1 :][:20][: len(location.excerpt) - location.caret]
    )


def test_what_an_error_looks_like():
    with pytest.raises(ParseError) as caught:
        parse(inside("ROOT b = f32[4] negate(x), speed=1"), strict=True, name="step.hlo")
    assert str(caught.value).startswith(
        "step.hlo:5:30: negate has no attribute 'speed'\n"
        "    ROOT b = f32[4] negate(x), speed=1\n"
        "                               ^\n"
        "  it has "
    )


def test_a_tab_and_unprintable_characters_do_not_move_the_caret():
    with pytest.raises(ParseError) as caught:
        parse("HloModule m\n\nENTRY e {\n\tx = f32[4]\x01 parameter(0)\n}\n")
    assert str(caught.value).splitlines()[1:] == [
        "   x = f32[4]\N{REPLACEMENT CHARACTER} parameter(0)",
        "             ^",
    ]


def test_a_long_line_is_cut_around_the_place():
    text = "HloModule m ENTRY e { " + "a = f32[] parameter(0) " * 500 + "}"
    with pytest.raises(ParseError) as caught:
        parse(text)
    location = caught.value.location
    assert location is not None and len(location.excerpt) <= 160
    assert (location.line, location.column) == (1, 46)
    assert str(caught.value).splitlines()[0] == "<text>:1:46: 'a' is already defined in e"


# Every place that makes an error is reached by a case above


def sites() -> dict[tuple[str, int], tuple[range, str]]:
    """Every call of a method `error` in the reader: by file and line, its lines and its text."""
    files = [*Path(hloom.formats.hlo.__file__).parent.glob("*.py"), Path(hloom.ir.__file__).with_name("metadata.py")]
    messages: dict[tuple[str, int], tuple[range, str]] = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "error":
                end = node.end_lineno or node.lineno
                messages[path.name, node.lineno] = range(node.lineno, end + 1), ast.unparse(node.args[0])
    return messages


def reached() -> set[tuple[str, int]]:
    """The file and line where each case's error was made."""
    made: dict[int, tuple[HloomError, str, int]] = {}
    original = Cursor.error

    def error(self: Cursor, *arguments: object, **names: object) -> ParseError:
        problem = original(self, *arguments, **names)  # type: ignore[arg-type]
        caller = sys._getframe(1)
        made[id(problem)] = problem, Path(caller.f_code.co_filename).name, caller.f_lineno
        return problem

    raised: set[tuple[str, int]] = set()
    with patch.object(Cursor, "error", error):
        for text, strict, _ in CASES:
            with pytest.raises(ParseError) as caught:
                parse(text, strict=strict)
            _, name, line = made[id(caught.value)]
            raised.add((name, line))
    return raised


@pytest.mark.filterwarnings("ignore::hloom.text.HloomWarning")
def test_every_error_has_a_case():
    seen = reached()
    missing = [
        f"{name}:{line}: {text}"
        for (name, line), (lines, text) in sites().items()
        if not any(file == name and line_number in lines for file, line_number in seen)
        and text.strip("'\"") not in UNREACHED
    ]
    assert missing == []


def test_the_errors_that_no_text_gives_are_still_there():
    texts = {text.strip("'\"") for _, text in sites().values()}
    assert set(UNREACHED) <= texts
