"""Clusters and their strategies on small programs: who decides together, over which dimensions, in which ways.

Covers `strategies.py`, `spec_tables.py`, `isomorphism.py`.
"""

from __future__ import annotations

from hloom.distribute.planner.clusters import Clusters
from hloom.distribute.planner.isomorphism import representatives
from hloom.distribute.planner.spec_tables import SpecTables
from hloom.distribute.planner.strategies import fits, is_contraction, partial_classes, strategies
from hloom.formats.hlo import parse
from hloom.passes import canonicalize
from hloom.sharding import Mesh

LAYERS = """HloModule layers

ENTRY main {
  x = f32[64,64] parameter(0)
  w = f32[64,64] parameter(1)
  v = f32[64,64] parameter(2)
  h = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[64,64] tanh(h)
  y = f32[64,64] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT b = f32[64,64] tanh(y)
}
"""


def clusters_of(text: str) -> Clusters:
    return Clusters(canonicalize(parse(text)))


def members(clusters: Clusters) -> dict[str, list[str]]:
    return {cluster.lead.name: [node.name for node in cluster.members] for cluster in clusters}


def test_elementwise_ops_follow_the_dot_that_they_read():
    assert members(clusters_of(LAYERS)) == {"x": ["x"], "w": ["w"], "v": ["v"], "h": ["h", "a"], "y": ["y", "b"]}


def test_a_transpose_follows_with_its_dimensions_exchanged():
    clusters = clusters_of("ENTRY e { x = f32[8,16] parameter(0) ROOT t = f32[16,8] transpose(x), dimensions={1,0} }")
    x, t = clusters.dataflow.nodes
    assert clusters.of(x) is clusters.of(t)
    assert clusters.result_dims(t) == clusters.result_dims(x)[::-1]
    assert [clusters.sizes(number) for number in clusters.result_dims(x) if number is not None] == [{8}, {16}]


def test_constants_and_scalars_are_free():
    clusters = clusters_of(
        "ENTRY e { x = f32[8] parameter(0) c = f32[] constant(2) s = f32[8] broadcast(c), dimensions={} "
        "ROOT y = f32[8] multiply(x, s) }"
    )
    assert {node.name for node in clusters.free} == {"c", "s"}
    assert all(clusters.of(node) is None for node in clusters.free)


def test_a_split_contraction_leaves_partial_results():
    clusters = clusters_of(LAYERS)
    h = next(node for node in clusters.dataflow.nodes if node.name == "h")
    (contracted,) = partial_classes(clusters, h)
    assert contracted not in clusters.result_dims(h)
    assert contracted in clusters.operand_dims(h, 0) and contracted in clusters.operand_dims(h, 1)
    assert is_contraction(h) and not is_contraction(h.users[0])


def test_the_strategies_of_a_dot_on_one_axis():
    """Replicated, by rows, contracted and all-reduced, contracted and reduce-scattered into either, by columns."""
    clusters = clusters_of(LAYERS)
    tables = SpecTables(clusters)
    cluster = next(cluster for cluster in clusters if cluster.lead.name == "h")
    options = strategies(clusters, cluster, tables.classes(cluster), Mesh.parse("x=2"))
    assert [str(tables.result_spec(cluster.lead, option)) for option in options] == [
        *("[-,-]", "[x,-]", "[-,-]", "[x,-]", "[-,x]", "[-,x]"),
    ]
    assert [option.before == option.after for option in options] == [True, True, False, False, False, True]


def test_equal_specs_are_listed_once():
    clusters = clusters_of(LAYERS)
    tables = SpecTables(clusters)
    cluster = next(cluster for cluster in clusters if cluster.lead.name == "h")
    options = strategies(clusters, cluster, tables.classes(cluster), Mesh.parse("x=2"))
    dims = tables.local(cluster, clusters.result_dims(cluster.lead))
    result = tables.strategy_specs(cluster.number, options, dims, is_before=False)
    assert [str(spec) for spec in result.specs] == ["[-,-]", "[x,-]", "[-,x]"]
    assert result.index.tolist() == [0, 1, 0, 1, 2, 2]


def test_small_or_uneven_dimensions_are_not_split():
    clusters = clusters_of("ENTRY e { x = f32[6,100] parameter(0) ROOT y = f32[6,100] negate(x) }")
    rows, columns = clusters.result_dims(clusters.dataflow.nodes[0])
    assert rows is not None and columns is not None
    assert [fits(clusters, rows, count) for count in (2, 3, 4)] == [True, True, False]
    assert [fits(clusters, columns, count) for count in (4, 6, 8)] == [True, True, False]


def test_repeated_layers_have_one_representative():
    """The layers between the first and the last see the same around them."""
    lines, value = ["x = f32[64,64] parameter(0)"], "x"
    for number in range(5):
        lines += [
            f"w{number} = f32[64,64] parameter({number + 1})",
            f"y{number} = f32[64,64] dot({value}, w{number}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"t{number} = f32[64,64] tanh(y{number})",
        ]
        value = f"t{number}"
    lines[-1] = "ROOT " + lines[-1]
    clusters = clusters_of("ENTRY main {\n" + "\n".join(lines) + "\n}")
    first = representatives(clusters, SpecTables(clusters))
    by_name = {cluster.lead.name: cluster.number for cluster in clusters}
    assert {name: first[by_name[name]] for name in ("y1", "y2", "y3")} == dict.fromkeys(
        ("y1", "y2", "y3"), by_name["y1"]
    )
    assert first[by_name["y4"]] == by_name["y4"], "nothing reads the last"
    assert first[by_name["x"]] == by_name["x"]
