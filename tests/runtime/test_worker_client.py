"""XLA's crashes, refusals and hangs cost an error, not the process; the errors' words are pinned.

Covers `worker.py`, `messages.py`, `xla_queries.py`.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from hloom.runtime import (
    XlaCrash,
    XlaError,
    accepts,
    canonical,
    compiles,
    cost,
    memory,
    printed,
    run,
    run_text,
    signature,
    worker_client,
    xla,
)
from hloom.text import HloomError, Unsupported

DOUBLE = "ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }"
ABORTING = "HloModule m\n ENTRY e { ROOT c = f32[] constant(true) }"
ENDLESS = """
HloModule m
always { x = s32[] parameter(0) ROOT c = pred[] constant(true) }
step { x = s32[] parameter(0) one = s32[] constant(1) ROOT y = s32[] add(x, one) }
ENTRY e { x = s32[] parameter(0) ROOT w = s32[] while(x), condition=always, body=step }
"""


def refused(call, *arguments, **options):
    with pytest.raises(HloomError) as caught:
        call(*arguments, **options)
    return caught.value


def test_abort_is_an_error_and_the_next_run_works():
    error = refused(run_text, ABORTING)
    assert isinstance(error, XlaCrash)
    expected = r"XLA crashed \(signal SIGABRT\) on the module m: F32 is not PRED type \(hlo_parser.cc:\d+\)"
    assert re.fullmatch(expected, str(error))
    assert run_text(DOUBLE, [np.ones(2, np.float32)]).outputs[0].tolist() == [2, 2]


def test_timeout_is_an_error_and_the_next_run_works():
    run_text(DOUBLE)
    error = refused(run_text, ENDLESS, timeout=1)
    assert str(error) == "XLA was stopped after 1 s\n  give a longer timeout"
    assert run_text(DOUBLE, [np.ones(2, np.float32)]).outputs[0].tolist() == [2, 2]


def test_the_worker_is_kept():
    run_text(DOUBLE)
    before = worker_client._KEPT[""]
    run_text(DOUBLE)
    assert worker_client._KEPT[""] is before


def test_more_devices_than_the_worker_has():
    wide = "HloModule m, replica_count=12\n ENTRY e { ROOT i = u32[] replica-id() }"
    assert len(run_text(wide).per_device) == 12


def test_more_devices_than_any_worker_has():
    vast = "HloModule m, replica_count=1000000000\n ENTRY e { ROOT i = u32[] replica-id() }"
    message = "the program is for 1,000,000,000 devices, and 4,096 are the most that are simulated here"
    assert refused(run_text, vast).message == message


def test_flags_have_a_worker_of_their_own():
    worker_client.close()  # tests that ran before may have used other flags
    run_text(DOUBLE)
    with worker_client.xla_flags("--xla_backend_optimization_level=0"):
        run_text(DOUBLE)
    assert set(worker_client._KEPT) == {"", "--xla_backend_optimization_level=0"}
    with worker_client.xla_flags("--xla_no_such_flag=1"):
        assert "xla_no_such_flag" in str(refused(run_text, DOUBLE))
    assert run_text(DOUBLE, [np.ones(2, np.float32)]).outputs[0].tolist() == [2, 2]
    worker_client.close()


def test_a_fork_gets_a_worker_of_its_own():
    run_text(DOUBLE)
    assert worker_client._KEPT[""].is_usable
    owner, worker_client._KEPT[""].owner = worker_client._KEPT[""].owner, -1
    try:
        assert not worker_client._KEPT[""].is_usable
    finally:
        worker_client._KEPT[""].owner = owner


def test_xla_words_are_passed_on():
    error = refused(run_text, "HloModule m\n ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] frob(x) }")
    assert isinstance(error, XlaError)
    assert error.message.startswith("INVALID_ARGUMENT: Syntax error when trying to parse the text as a HloModule:")
    assert "expects opcode" in error.message
    error = refused(
        run,
        'HloModule m\n ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] custom-call(x), custom_call_target="frob" }',
    )
    assert error.message == "NOT_FOUND: No registered implementation for untyped custom call to frob for Host"


def test_wrong_inputs():
    assert str(refused(run, DOUBLE, [])) == "the program takes 1 arrays, 0 are given"
    message = "input 0 (x) is s32[2], the program takes f32[2]"
    assert str(refused(run, DOUBLE, [np.zeros(2, np.int32)])) == message
    message = "input 0 (x) is f32[3], the program takes f32[2]"
    assert str(refused(run, DOUBLE, [np.zeros(3, np.float32)])) == message
    message = "input 0 (x) is a numpy array of <U1, the program takes f32[2]"
    assert str(refused(run, DOUBLE, ["a"])) == message
    assert str(refused(run, DOUBLE, {})) == "no input is given for x"
    named = {"x": np.zeros(2, np.float32), "z": 0}
    assert str(refused(run, DOUBLE, named)) == "the program has no parameter 'z'\n  near: x"


def test_what_cannot_be_given():
    dynamic = "ENTRY e { ROOT x = f32[<=4] parameter(0) }"
    assert str(refused(run, dynamic)) == "a parameter of type f32[<=4] cannot be given from outside"
    vast = "ENTRY e { ROOT x = f32[1000000,1000000,1000] parameter(0) }"
    message = "an input of type f32[1000000,1000000,1000], 4,000,000,000,000,000 bytes, is larger than memory"
    assert str(refused(run, vast)) == message


def test_devices_must_fit_replicas():
    text = "HloModule m, replica_count=2\n ENTRY e { ROOT i = u32[] replica-id() }"
    assert str(refused(run_text, text, devices=3)) == "3 devices cannot hold 2 replicas of the same size"


def test_elided_constants_are_refused():
    text = "HloModule m\n\nENTRY e {\n  ROOT c = f32[64] constant({...})\n}\n"
    lines = str(refused(run_text, text)).splitlines()
    assert lines[:3] == [
        "<text>:4:30: the data of a constant were left out of the text, as {...}, and are never invented",
        "    ROOT c = f32[64] constant({...})",
        "                               ^",
    ]
    message = "the data of constants were left out of the text, as {...}, and are never invented: c in e"
    assert refused(run, text).message == message
    kept = 'ENTRY e { ROOT c = f32[] constant(1), metadata={op_name="a...b"} /* ... */ }'
    assert run_text(f"HloModule m\n {kept}").outputs[0] == 1


def test_host_callbacks_are_refused():
    text = 'HloModule m\n\nENTRY e {\n  ROOT c = f32[] custom-call(), custom_call_target="xla_ffi_python_cpu_callback"\n}\n'
    error = refused(run_text, text)
    assert isinstance(error, Unsupported)
    assert str(error).startswith(
        "<text>:4:33: custom-call to xla_ffi_python_cpu_callback: its Python function lives in the process that lowered"
    )


def test_questions():
    assert accepts(DOUBLE) is None
    assert "expects opcode" in (accepts("ENTRY e { ROOT y = f32[2] frob() }") or "")
    assert (accepts(ABORTING) or "").startswith("XLA crashed")
    assert compiles(DOUBLE) is None
    assert "mhlo.unknown" in (compiles("ENTRY e { x = s32[] parameter(0) ROOT y = s32[] mulhi(x, x) }") or "")
    assert signature(
        "ENTRY e { p = (f32[2,3]{0,1}, token[]) parameter(0) ROOT x = f32[2,3] get-tuple-element(p), index=0 }"
    ) == (signature("ENTRY e { p = (f32[2,3], token[]) parameter(0) ROOT x = f32[2,3] get-tuple-element(p), index=0 }"))
    assert cost(DOUBLE)["flops"] == 2
    assert memory(DOUBLE)["arguments"] == 8
    assert canonical(DOUBLE) == canonical(DOUBLE.replace("x", "other"))
    many = "ENTRY e { ROOT c = s32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12}) }"
    assert "11, 12" in printed(many) and "11, 12" in canonical(many)


def test_tokens_are_left_out():
    text = """
    HloModule m
    ENTRY e {
      t = token[] parameter(0)
      x = f32[2] parameter(1)
      u = token[] after-all(t)
      ROOT r = (token[], f32[2]) tuple(u, x)
    }
    """
    result = run(text, [np.ones(2, np.float32)])
    assert [output.tolist() for output in result.outputs] == [[1, 1]]


def test_a_broken_installation(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxlib.cpu._lapack", None)
    monkeypatch.delattr("jaxlib.cpu._lapack", raising=False)
    message = str(refused(xla.libraries.__wrapped__))
    assert message.startswith("jax is installed, and cannot be imported: ")


def test_importing_the_package_does_not_import_jax():
    code = (
        "import sys, hloom.runtime; assert not any(name.partition('.')[0] in ('jax', 'jaxlib') for name in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": worker_client._search_path()}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
