"""Reading `.mindir` files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloom
from hloom import HloomError
from hloom.dialects import mindir
from hloom.dialects.mindir.model_reader import MINDIR
from tests.dialects.mindir.samples import FOLDER, NETS, NOT_LOWERED, check_numbers, runs


@pytest.mark.parametrize("net", NETS)
def test_a_model_yields_mindspores_numbers(net):
    module = hloom.load(FOLDER / f"{net}.mindir")
    hloom.verify(module)
    assert not module.notes
    printed = mindir.to_text(module)
    assert mindir.to_text(mindir.parse(printed)) == printed
    if net == NOT_LOWERED:
        with pytest.raises(hloom.Unsupported, match="calls itself here, and not as its last step"):
            mindir.lower(module)
    else:
        assert check_numbers(net, module) > 0


def test_weights_are_parameters_whose_values_are_attached():
    module = hloom.load(FOLDER / "mlp.mindir")
    names = [parameter.name for parameter in module.entry.parameters]
    assert names == ["x", "first.weight", "first.bias", "second.weight", "second.bias"]
    arguments, _ = next(runs("mlp", names))
    weights = module.attachments[mindir.WEIGHTS]
    for name, array in zip(names[1:], arguments[1:], strict=True):
        np.testing.assert_array_equal(weights[name].numpy(), array)


def model():
    return MINDIR["ModelProto"].FromString((FOLDER / "branch.mindir").read_bytes())


def refused(message, text):
    with pytest.raises(HloomError, match=text):
        mindir.read_model(message.SerializeToString(), "m.mindir")


def test_broken_models_are_refused():
    with pytest.raises(HloomError, match=r"m\.mindir is not a MindIR model"):
        mindir.read_model(b"\n\x03abc\xff", "m.mindir")
    empty = model()
    empty.graph.ClearField("name")
    refused(empty, "it has no graph")
    unknown = model()
    unknown.graph.node[2].input[0] = "gone"
    refused(unknown, "m.mindir: graph .* uses 'gone', which nothing before it defines")
    short = model()
    short.graph.parameter[0].raw_data = b"\0"
    refused(short, r"of type f32\[2\] has 1 bytes, not 8")
    twice = model()
    twice.functions[0].name = twice.graph.name
    refused(twice, "is defined twice")
    without = model()
    without.graph.ClearField("output")
    refused(without, "has 0 results, not one")


def test_data_in_another_file_are_left_out_and_noted():
    message = model()
    message.graph.parameter[0].external_data.location = "weights.bin"
    module = mindir.read_model(message.SerializeToString())
    assert module.attachments[mindir.WEIGHTS]["scale"].is_elided
    assert "scale are not in this file" in module.notes[0]


@given(data=st.data(), name=st.sampled_from(["branch", "loop", "mlp"]))
def test_damaged_bytes_read_or_are_refused(data, name):
    damaged = bytearray((FOLDER / f"{name}.mindir").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        module = mindir.read_model(bytes(damaged))
    except HloomError:
        return
    try:
        hloom.verify(module)
        mindir.lower(module)
    except HloomError:
        return
