"""PipeDream's profiles: nodes, edges, chains, and what is wrong with a text, with its place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.distribute.pipeline import parse_profile, read_profile
from hloom.text import HloomError, ParseError
from tests.distribute.pipeline import profiles

NODE = "node1 -- Linear(2, 2) -- forward_compute_time=1.5, backward_compute_time=2, activation_size=[8.0; 4.0], parameter_size=16"
OTHER = NODE.replace("node1", "node2")


def test_nodes_and_edges():
    profile = parse_profile(f"{NODE}\n\n{OTHER} -- stage_id=3\r\n\tnode1 -- node2\n")
    first, second = profile.nodes
    assert (first.name, first.description) == ("node1", "Linear(2, 2)")
    assert (first.forward_milliseconds, first.backward_milliseconds) == (1.5, 2.0)
    assert (first.activation_bytes, second.parameter_bytes) == (12.0, 16.0)
    assert profile.edges == ((0, 1),)


def test_a_chain_sends_what_is_still_read_once_to_each_neighbour():
    rows = [profiles.row(number, "layer", 1, 2, 10**number, 0) for number in range(1, 5)]
    text = profiles.text(rows, profiles.numbered([(1, 2), (2, 3), (3, 4), (1, 3), (1, 4)]))
    assert [layer.output_bytes for layer in parse_profile(text).chain(1).layers] == [10, 110, 1010, 0]


def test_layers_in_topological_order_without_inputs():
    chain = parse_profile(profiles.vgg16()).chain(32, optimizer_slots=2)
    assert len(chain.layers) == 40
    assert chain.input_bytes == 77070336
    assert chain.parameter_bytes == sum(layer.parameter_bytes for layer in chain.layers)
    assert chain.layers[0].optimizer_bytes == 2 * chain.layers[0].parameter_bytes == 2 * 7168
    assert chain.layers[0].weight_seconds == chain.layers[0].backward_seconds / 2
    shuffled = "\n".join(sorted(profiles.vgg16().splitlines(), key=lambda line: (line[0] == "\t", line[::-1])))
    assert [layer.name for layer in parse_profile(shuffled).chain(32).layers] == [layer.name for layer in chain.layers]


@pytest.mark.parametrize(
    ("text", "location", "message"),
    [
        ("", "1:1", "a profile without nodes"),
        ("node1", "1:1", "this is not a node"),
        (f"{NODE}\n{NODE}", "2:1", "node1 is there twice"),
        (NODE.replace("=1.5", "=-1.5"), "1:47", "'-1.5' is neither a time nor a size"),
        (NODE.replace("=1.5", "=nan"), "1:47", "'nan' is neither a time nor a size"),
        (NODE.replace("=1.5", "=1e999"), "1:47", "'1e999' is neither a time nor a size"),
        (NODE.replace("4.0]", "x]"), "1:99", "'x' is neither a time nor a size"),
        (NODE.replace("4.0]", "4.0"), "1:93", "a list without its end"),
        (NODE.replace("parameter_size", "parameters"), "1:105", "expected parameter_size="),
        (NODE.replace(", parameter_size=16", ""), "1:103", "3 fields"),
        (f"{NODE}\n\tnode1", "2:2", "this is not an edge"),
        (f"{NODE}\n\tnode1 -- node7", "2:11", "no instruction is called 'node7'"),
        (f"{NODE}\n{OTHER}\n\tnode1 -- node2\n\tnode2 -- node1", "3:1", "the edges go round in a cycle"),
        (f"{NODE}\n\tnode1 -- node1", "2:1", "the edges go round in a cycle"),
    ],
)
def test_what_is_no_profile(text: str, location: str, message: str):
    with pytest.raises(ParseError) as raised:
        parse_profile(text, "graph.txt")
    assert raised.value.location is not None
    assert str(raised.value.location) == f"graph.txt:{location}"
    assert message in raised.value.message


PIECES = st.sampled_from(["node1", "node2", " -- ", "\n", "\t", "[", "; ", "]", "=", ", ", "1", "e", "forward_compute_time", NODE, OTHER])


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_read_or_refused(text: str):
    try:
        profile = parse_profile(text)
    except ParseError as problem:
        assert problem.location is not None
    else:
        assert profile.chain(1).layers


def test_files(tmp_path: Path):
    path = tmp_path / "graph.txt"
    path.write_text(profiles.vgg19())
    assert len(read_profile(path).nodes) == 26
    with pytest.raises(HloomError, match="cannot read"):
        read_profile(tmp_path / "none.txt")
