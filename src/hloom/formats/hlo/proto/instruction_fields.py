"""Where each attribute is stored in an instruction's message.

A number under its own name needs no row. For any other attribute add a row to ATTRIBUTES, or to SPECIAL if a single
opcode stores it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.proto import values
from hloom.formats.hlo.proto.field_mapping import (
    Context,
    Field,
    choice,
    inside,
    message,
    number,
    numbers,
    only_number,
    part,
    text,
    unless_empty,
)
from hloom.formats.hlo.proto.literals import read_literal, write_literal
from hloom.formats.hlo.proto.metadata import read_payload, to_text
from hloom.formats.hlo.proto.original_values import read_origin, write_origin
from hloom.formats.hlo.proto.shapes import read_shape, write_shape
from hloom.formats.hlo.proto.shardings import (
    read_axes,
    read_iota,
    read_mesh,
    read_sharding,
    write_axes,
    write_iota,
    write_mesh,
    write_sharding,
)
from hloom.ir import (
    AttributeKind,
    Attributes,
    Domain,
    DTypeKind,
    ExplicitGroups,
    Graph,
    IotaGroups,
    MeshGroups,
    Op,
    ReplicaGroups,
    TensorType,
    Type,
)
from hloom.text import HloomError

REPLICA_GROUPS = (
    "collective_device_list",
    "iota_collective_device_list",
    "mesh_axes_replica_group_list",
    "replica_groups",
)
"""The fields that may hold the groups; the last one is from before 2024."""


def write_groups(instruction: Any, groups: ReplicaGroups) -> None:
    """Fill the one field for this kind of groups."""
    if isinstance(groups, ExplicitGroups):
        instruction.collective_device_list.SetInParent()
        for group in groups.listed:
            instruction.collective_device_list.replica_groups.add(replica_ids=group)
    elif isinstance(groups, IotaGroups):
        proto = instruction.iota_collective_device_list
        proto.num_replica_groups, proto.num_devices_per_group = groups.group_count, groups.group_size
        write_iota(proto, groups.devices)
    else:
        instruction.mesh_axes_replica_group_list.mesh.CopyFrom(write_mesh(groups.mesh))
        instruction.mesh_axes_replica_group_list.axes.extend(write_axes(groups.mesh, groups.axes))


def read_groups(instruction: Any) -> ReplicaGroups | None:
    """The groups, from whichever field holds them; None if none does."""
    field_name = instruction.WhichOneof("replica_group_list")
    if field_name is None:
        return _explicit(instruction.replica_groups) if instruction.replica_groups else None
    proto = getattr(instruction, field_name)
    if field_name == "mesh_axes_replica_group_list":
        mesh = read_mesh(proto.mesh)
        return MeshGroups(mesh, read_axes(mesh, proto.axes, []))
    if field_name == "iota_collective_device_list":
        return _iota(proto)
    if proto.HasField("iota_replica_group_list"):
        return _iota(proto.iota_replica_group_list)
    return _explicit(proto.replica_groups)


def _explicit(groups: Any) -> ExplicitGroups:
    return ExplicitGroups(tuple(tuple(group.replica_ids) for group in groups))


def _iota(proto: Any) -> IotaGroups:
    sizes = proto.num_replica_groups, proto.num_devices_per_group
    if min(sizes) < 0:
        raise HloomError(f"replica groups cannot have the sizes {list(sizes)}")
    return IotaGroups(*sizes, read_iota(proto.iota_reshape_dims, proto.iota_transpose_perm))


def _read_compare_type(proto: Any, context: Context) -> str | None:
    """The comparison's type, unless it is the default for the operands' type, which HLO text omits."""
    written = proto.comparison_type
    operand = context.operands[0] if context.operands else None
    if not written or not isinstance(operand, TensorType):
        return written or None
    kinds = {DTypeKind.SIGNED: "SIGNED", DTypeKind.FLOAT: "FLOAT", DTypeKind.COMPLEX: "FLOAT"}
    return None if written == kinds.get(operand.dtype.kind, "UNSIGNED") else written


def _read_source_targets(protos: Any) -> tuple[tuple[int, int], ...]:
    return tuple((pair.source, pair.target) for pair in protos)


def _write_source_targets(protos: Any, pairs: tuple[tuple[int, ...], ...]) -> None:
    for pair in pairs:
        if len(pair) != 2:
            raise HloomError(f"source_target_pairs must be pairs, not {pair}")
        protos.add(source=pair[0], target=pair[1])


def _write_slice_sizes(proto: Any, sizes: tuple[tuple[int, ...], ...], _: Context) -> None:
    proto.dynamic_slice_sizes.extend(size for group in sizes for size in group)


def _read_slice_sizes(proto: Any, context: Context) -> tuple[tuple[int, ...], ...] | None:
    """The flat list split by the ranks of the sent arrays: the text has a list per slice."""
    sizes = tuple(proto.dynamic_slice_sizes)
    if not sizes:
        return None
    leaves = context.operands[0].leaves() if context.operands and context.operands[0] else iter(())
    ranks = [leaf.rank for leaf in leaves if isinstance(leaf, TensorType)] or [len(sizes)]
    groups_: list[tuple[int, ...]] = []
    start = 0
    while start < len(sizes):
        rank = ranks[min(len(groups_), len(ranks) - 1)] or len(sizes)
        groups_.append(sizes[start : start + rank])
        start += rank
    return tuple(groups_)


def _write_operand_layouts(proto: Any, types: tuple[Type, ...], _: Context) -> None:
    proto.constrain_layout = True
    proto.operand_shapes_with_layout.extend(map(write_shape, types))


def _read_operand_layouts(proto: Any, _: Context) -> tuple[Type, ...] | None:
    return tuple(map(read_shape, proto.operand_shapes_with_layout)) if proto.constrain_layout else None


def _write_domain(proto: Any, domain: Domain, _: Context) -> None:
    """The message swaps the names: its exit is the text's entry."""
    entry: Any = domain.entry
    leave: Any = domain.exit
    proto.domain_exit_sharding.CopyFrom(write_sharding(entry))
    proto.domain_entry_sharding.CopyFrom(write_sharding(leave))


def _read_domain(proto: Any, _: Context) -> Domain:
    return Domain("sharding", read_sharding(proto.domain_exit_sharding), read_sharding(proto.domain_entry_sharding))


def _write_associative(proto: Any, value: bool, _: Context) -> None:
    proto.is_associative = protobuf.TriState.Value("TRI_STATE_TRUE" if value else "TRI_STATE_FALSE")


def _read_associative(proto: Any, _: Context) -> bool | None:
    return {1: True, 2: False}.get(proto.is_associative)


def _read_prefetch(proto: Any, _: Context) -> int | None:
    if proto.HasField("cross_program_prefetch_index"):
        return proto.cross_program_prefetch_index
    return 0 if proto.is_cross_program_prefetch else None


def _read_channel(proto: Any, _: Context) -> int | None:
    return proto.channel_id or proto.all_reduce_id or None


def _write_sharding(proto: Any, value: Any, context: Context) -> None:
    proto.sharding.CopyFrom(write_sharding(value, context.type))


def write_frontend(proto: Any, pairs: Iterable[tuple[str, str]]) -> None:
    """Fill a FrontendAttributes message."""
    for key, value in pairs:
        proto.map[key] = value


def read_frontend(proto: Any) -> tuple[tuple[str, str], ...] | None:
    """A FrontendAttributes message as sorted pairs; None if there are none."""
    return tuple(sorted(proto.map.items())) or None


def _read_backend_config(proto: Any, context: Context) -> str | None:
    if proto.HasField("backend_config_payload"):
        return to_text(read_payload(proto.backend_config_payload, context.payloads)) or None
    return to_text(proto.backend_config) or None


_DOT = "dot_dimension_numbers"
_RAGGED = "ragged_dot_dimension_numbers"
_GATHER = "gather_dimension_numbers"
_SCATTER = "scatter_dimension_numbers"

ATTRIBUTES: dict[str, Field] = {
    "algorithm": choice("algorithm", "PrecisionConfig.Algorithm", "ALG_", silent=0, path="precision_config"),
    "api_version": choice("custom_call_api_version", "CustomCallApiVersion"),
    "async_execution_thread": unless_empty(number("async_execution_thread")),
    "backend_config": Field(
        ("backend_config", "backend_config_payload"), text("backend_config").write, _read_backend_config
    ),
    "batch_group_count": unless_empty(number("batch_group_count")),
    "channel_id": Field(("channel_id", "all_reduce_id"), number("channel_id").write, _read_channel, ("channel_id",)),
    "convolution_kind": choice("conv_kind", "ConvolutionKind", "CONVOLUTION_KIND_"),
    "cross_program_prefetch_index": Field(
        ("cross_program_prefetch_index", "is_cross_program_prefetch"),
        number("cross_program_prefetch_index").write,
        _read_prefetch,
    ),
    "custom_call_target": Field(
        ("custom_call_target",), number("custom_call_target").write, lambda proto, _: proto.custom_call_target
    ),
    "dim_labels": Field(
        ("convolution_dimension_numbers",),
        lambda proto, value, _: values.write_labels(proto.convolution_dimension_numbers, value),
        lambda proto, context: (
            values.read_labels(proto.convolution_dimension_numbers, (*context.operands[:2], context.type))
            if proto.HasField("convolution_dimension_numbers")
            else None
        ),
    ),
    "dimensions": numbers("dimensions"),
    "direction": unless_empty(number("comparison_direction")),
    "distribution": choice("distribution", "RandomDistribution"),
    "domain": Field(("domain_entry_sharding", "domain_exit_sharding"), _write_domain, _read_domain),
    "dynamic_slice_sizes": numbers("dynamic_slice_sizes"),
    "epsilon": Field(("epsilon",), number("epsilon").write, lambda proto, _: values.shortest_float(proto.epsilon)),
    "feature_group_count": unless_empty(number("feature_group_count")),
    "fft_length": numbers("fft_length"),
    "fft_type": choice("fft_type", "FftType"),
    "frontend_attributes": message("frontend_attributes", write_frontend, read_frontend),
    "index": number("tuple_index"),
    "infeed_config": text("infeed_config"),
    "inferred_dimension": only_number("dimensions"),
    "iota_dimension": only_number("dimensions"),
    "is_associative": Field(("is_associative",), _write_associative, _read_associative),
    "kind": unless_empty(number("fusion_kind")),
    "lhs_batch_dims": inside(_DOT, "lhs_batch_dimensions"),
    "lhs_contracting_dims": inside(_DOT, "lhs_contracting_dimensions"),
    "lhs_ragged_dims": inside(_RAGGED, "lhs_ragged_dimensions"),
    "literal": message("literal", lambda proto, value: proto.CopyFrom(write_literal(value)), read_literal),
    "operand_layout_constraints": Field(
        ("constrain_layout", "operand_shapes_with_layout"), _write_operand_layouts, _read_operand_layouts
    ),
    "operand_precision": message("precision_config", values.write_precisions, values.read_precisions),
    "origin": message("original_value", write_origin, read_origin),
    "outfeed_config": text("outfeed_config"),
    "outfeed_shape": message("outfeed_shape", lambda proto, value: proto.CopyFrom(write_shape(value)), read_shape),
    "output_to_operand_aliasing": message("output_operand_aliasing", values.write_aliasing, values.read_aliasing),
    "padding": part("padding_config", values.write_padding, values.read_padding),
    "padding_type": choice("padding_type", "PaddingType"),
    "parameter_replication": unless_empty(inside("parameter_replication", "replicated_at_leaf_buffers")),
    "replica_groups": Field(
        REPLICA_GROUPS, lambda proto, value, _: write_groups(proto, value), lambda proto, _: read_groups(proto)
    ),
    "result_accuracy": message("result_accuracy", values.write_accuracy, values.read_accuracy),
    "rhs_batch_dims": inside(_DOT, "rhs_batch_dimensions"),
    "rhs_contracting_dims": inside(_DOT, "rhs_contracting_dimensions"),
    "rhs_group_dims": inside(_RAGGED, "rhs_group_dimensions"),
    "schedule": choice("custom_call_schedule", "CustomCallSchedule"),
    "sharding": Field(
        ("sharding",),
        _write_sharding,
        lambda proto, _: read_sharding(proto.sharding) if proto.HasField("sharding") else None,
    ),
    "slice": part("slice_dimensions", values.write_slices, values.read_slices),
    "slice_sizes": numbers("gather_slice_sizes"),
    "source_target_pairs": part("source_target_pairs", _write_source_targets, _read_source_targets),
    "sparsity_config": message("sparsity_config", values.write_sparsity, values.read_sparsity),
    "statistics": message("statistics_viz", values.write_statistics, values.read_statistics),
    "transpose_a": choice("transpose_a", "TriangularSolveOptions.Transpose", silent=0, path="triangular_solve_options"),
    "type": Field(("comparison_type",), number("comparison_type").write, _read_compare_type),
    "window": message("window", values.write_window, values.read_window),
}

_PERMUTED = Field(("dynamic_slice_sizes",), _write_slice_sizes, _read_slice_sizes)

SPECIAL: dict[tuple[str, str], Field] = {
    ("all-to-all", "dimensions"): unless_empty(numbers("dimensions")),
    ("collective-permute", "slice_sizes"): _PERMUTED,
    ("collective-permute-start", "slice_sizes"): _PERMUTED,
    ("ragged-all-to-all", "dimensions"): unless_empty(numbers("dimensions")),
    **{
        ("ragged-dot", name): inside(f"{_RAGGED}.{_DOT}", field)
        for name, field in (
            ("lhs_batch_dims", "lhs_batch_dimensions"),
            ("lhs_contracting_dims", "lhs_contracting_dimensions"),
            ("rhs_batch_dims", "rhs_batch_dimensions"),
            ("rhs_contracting_dims", "rhs_contracting_dimensions"),
        )
    },
    ("rng-bit-generator", "algorithm"): choice("rng_algorithm", "RandomAlgorithm"),
}
"""Storage that differs from ATTRIBUTES, by opcode and attribute."""

OPTIONS = {
    "cholesky": "cholesky_options",
    "gather": _GATHER,
    "scatter": _SCATTER,
    "triangular-solve": "triangular_solve_options",
}
"""Submessages whose fields are named like the opcode's attributes."""

PRESENT: dict[str, tuple[str, ...]] = {
    "cholesky": ("cholesky_options",),
    "convolution": ("window", "convolution_dimension_numbers", "precision_config"),
    "dot": (_DOT, "precision_config"),
    "gather": (_GATHER,),
    "pad": ("padding_config",),
    "ragged-dot": (_RAGGED, "precision_config"),
    "reduce-window": ("window",),
    "scaled-dot": (_DOT, "precision_config"),
    "scatter": (_SCATTER,),
    "select-and-scatter": ("window",),
    "triangular-solve": ("triangular_solve_options",),
}
"""Submessages that XLA requires even if they are empty, by opcode."""

UNSAID: dict[str, dict[str, Any]] = {
    "custom-call": {"custom_call_api_version": 1, "feature_group_count": 1, "batch_group_count": 1},
    "convolution": {"feature_group_count": 1, "batch_group_count": 1},
    "scan": {"is_associative": 2},
    "topk": {"largest": True},
}
"""Values that HLO text omits but the message holds, by opcode and field."""


CONTROL = "control-predecessors"
GRAPHS = (AttributeKind.GRAPH, AttributeKind.GRAPHS)
"""The kinds of attributes stored in `called_computation_ids`."""


@cache
def field_of(opcode: str, attribute: str) -> Field | None:
    """How an op's attribute is stored: per its row, or under its own name; None if the message cannot hold it."""
    field = SPECIAL.get((opcode, attribute)) or ATTRIBUTES.get(attribute)
    if field is None:
        own = protobuf.HloInstructionProto.DESCRIPTOR.fields_by_name
        options = OPTIONS.get(opcode)
        if options is not None and attribute in own[options].message_type.fields_by_name:
            field = inside(options, attribute)
        elif attribute in own and own[attribute].message_type is None:
            field = number(attribute)
    return field


def set_defaults(proto: Any, opcode: str) -> None:
    """Add the submessages that XLA requires, and the values that HLO text omits."""
    for name in PRESENT.get(opcode, ()):
        getattr(proto, name).SetInParent()
    for name, value in UNSAID.get(opcode, {}).items():
        setattr(proto, name, value)


CALLED: dict[str, tuple[str, ...]] = {
    "while": ("body", "condition"),
    "conditional": ("true_computation", "false_computation", "branch_computations"),
    "select-and-scatter": ("select", "scatter"),
}
"""The attributes that hold graphs, if there are several or their order differs from the text's."""


def write_called(opcode: str, attributes: Attributes) -> list[Graph]:
    """The graphs in the message's order."""
    if opcode not in CALLED:
        return [referent for referent in attributes.referents() if referent.is_graph]
    names = [name for name in CALLED[opcode] if name in attributes]
    names += [name for name in attributes if name not in names]
    graphs: list[Graph] = []
    for name in names:
        value = attributes[name]
        parts = value if isinstance(value, tuple) else (value,)
        graphs += [part for part in parts if isinstance(part, Graph)]
    return graphs


def read_called(op: Op, numbers: Sequence[int], graphs: Mapping[int, Graph], context: Context) -> dict[str, Any]:
    """The attributes that hold the called graphs; HloomError for an unknown graph or a wrong number of them."""
    if not numbers:
        return {}
    missing = next((number for number in numbers if number not in graphs), None)
    if missing is not None:
        raise HloomError(f"no computation before this one has the id {missing}, which it calls")
    called = tuple(graphs[number] for number in numbers)
    if op.name == "conditional":
        return _branches(called, context)
    if op.name == "custom-call":
        return {"called_computations": called}
    names = CALLED.get(op.name) or [
        name for name, attribute in op.attributes.items() if attribute.kind is AttributeKind.GRAPH
    ]
    if len(names) != len(called):
        raise HloomError(f"{op} calls {len(names)} computations, not {len(called)}")
    return dict(zip(names, called, strict=True))


def _branches(called: tuple[Graph, ...], context: Context) -> dict[str, Any]:
    index = context.operands[0] if context.operands else None
    if isinstance(index, TensorType) and index.dtype.name == "pred" and len(called) == 2:
        return {"true_computation": called[0], "false_computation": called[1]}
    return {"branch_computations": called}
