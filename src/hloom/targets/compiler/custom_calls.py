"""Rewrites the custom calls of a program that was lowered for another platform into what the target's compiler knows.

    (f32[8,8], s32[]) custom-call(x), custom_call_target="lapack_spotrf_ffi", backend_config={uplo = 76 : ui8}
      ->  on a TPU
    (f32[8,8], s32[]) tuple(cholesky(x), 0), lower=true

Routines of linear algebra become the target's own call, or an HLO op where that is how JAX lowers them. What is left is
named in an error; on request it becomes an opaque call of the same types. To teach it a routine, add a row to ROUTINES.

Source of the calls and their settings: jax/_src/lax/linalg.py, the lowering rules of each platform, as of JAX 0.10.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hloom.autodiff import Emitter, flatten, leaf_types, unflatten
from hloom.ir import (
    TOKEN,
    Apply,
    Graph,
    Layout,
    Module,
    Node,
    TensorType,
    TupleType,
    Type,
    default_layout,
    dtype,
)
from hloom.targets.compiler.target import CPU, CUDA, TPU, Target
from hloom.text import Unsupported, visible

MOST_NAMED = 10
"""The maximum number of calls to name in an error or a note."""
_EVERYWHERE = re.compile(
    r"Sharding|SPMDFullToShardShape|SPMDShardToFullShape|xla\.sdy\..*|annotate_device_placement|LayoutConstraint|"
    r"MoveToHost|MoveToDevice|mhlo\..*|chlo\..*|\$?xla\.annotation.*"
)
"""Calls that annotate a program, or that XLA expands before a platform's compiler sees them."""
_OWN = {
    TPU: re.compile(
        r"tpu_custom_call|Qr|Eigh|LuDecomposition|ProductOfElementaryHouseholderReflectors|PartialReduce|"
        r"ApproxTopK|AllocateBuffer|TopK"
    ),
    CUDA: re.compile(
        r"cu(?:solver|blas|sparse|fft|dnn|hybrid)_.*|cu_.*|__cu.*|__triton.*|__gpu\$.*|triton_kernel_call|mosaic_gpu.*|"
        r"TopK"
    ),
    CPU: re.compile(
        r"lapack_.*|blas_.*|cpu_.*|sparse_.*|TopK|xla_(?:ffi_)?(?:partitioned_)?python_cpu_callback|__onednn.*"
    ),
}
"""Calls that each platform's compiler has, with jaxlib beside it."""
_TARGET = "custom_call_target"
_SETTING = re.compile(r"(\w+)\s*=\s*(\w+)")
_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A custom call that was rewritten: the target, how many, what it became, and whether that is an opaque call."""

    target: str
    count: int
    became: str
    is_opaque: bool = False


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine of linear algebra: LAPACK's names for real and complex types, the other platforms', and rewrites.

    `to_tpu` makes what a TPU's compiler has of a call of LAPACK or cuSOLVER: `tpu_became`, a call or an HLO op, which
    serves the other platforms too where they have no call.
    """

    lapack: tuple[str, str]
    cuda: str
    tpu: str
    to_tpu: Callable[[Emitter, Apply], Node]
    tpu_became: str


def adapt_custom_calls(module: Module, wanted: Target, *, opaque: bool = False) -> list[Rewritten]:
    """Rewrite the custom calls of a module, in place, that the target's compiler does not have.

    Raises Unsupported naming what stays unknown, unless `opaque`.
    """
    platform = wanted.platform
    counts: dict[tuple[str, str, bool], int] = {}
    unknown: dict[str, list[str]] = {}
    for graph in module.graphs:
        for node in [node for node in graph.nodes if node.opcode == "custom-call" and isinstance(node, Apply)]:
            target = str(node.attributes.get(_TARGET, ""))
            if _is_known(target, platform):
                continue
            became = _as_routine(graph, node, target, platform)
            is_opaque = became is None and opaque
            if is_opaque:
                became = _as_opaque(graph, node, platform)
            if became is None:
                unknown.setdefault(target, []).append(f"{node.name} in {graph.name}")
            else:
                key = (target, became, is_opaque)
                counts[key] = counts.get(key, 0) + 1
    if unknown:
        raise Unsupported(_unknown_message(unknown, wanted), hint=_HINT)
    return [Rewritten(target, count, became, is_opaque) for (target, became, is_opaque), count in counts.items()]


_HINT = (
    "lower the program for this platform (jax: .lower(lowering_platforms=...)), or give --opaque-calls "
    "(opaque_calls=True): each becomes an opaque call of the same types, whose own memory and time are not counted"
)


def _unknown_message(unknown: dict[str, list[str]], wanted: Target) -> str:
    lines = [
        f"{visible(target) or 'a call without a target'}: {len(names):,} ({visible(names[0])}"
        f"{', ...' if len(names) > 1 else ''})"
        for target, names in list(unknown.items())[:MOST_NAMED]
    ]
    if len(unknown) > MOST_NAMED:
        lines.append(f"and {len(unknown) - MOST_NAMED:,} more")
    return f"the compiler for {wanted.name} does not have these custom calls:\n  " + "\n  ".join(lines)


def _is_known(target: str, platform: str) -> bool:
    return bool(_EVERYWHERE.fullmatch(target) or _OWN[platform].fullmatch(target))


def _as_routine(graph: Graph, node: Apply, target: str, platform: str) -> str | None:
    """Rewrite a call of a known routine; what it became, or None."""
    routine = _BY_TARGET.get(target)
    if routine is None:
        return None
    made = routine.cuda if platform == CUDA else _lapack_name(routine, node) if platform == CPU else routine.tpu
    is_op = routine.tpu_became in ("cholesky", "triangular-solve") and (platform == TPU or not made)
    if is_op or platform == TPU:
        if not is_op and not _is_f32(node):
            return None
        _replace(graph, node, routine.to_tpu(_emitter(graph, node), node))
        return routine.tpu_became
    if target in _BY_TPU:
        if routine.tpu not in _FROM_TPU:
            return None  # a TPU's LU yields a permutation, which the other platforms do not
        _replace(graph, node, _library_call(_emitter(graph, node), node, routine, made, platform))
        return made
    config = _config(routine, node, platform)
    graph.set_attributes(node, node.attributes.changed(**{_TARGET: made, "backend_config": config}))
    return made


def _replace(graph: Graph, node: Apply, made: Node) -> None:
    graph.replace_uses(node, made)
    graph.erase(node)


def _is_f32(node: Apply) -> bool:
    """Whether the first operand is of f32, the only type of a TPU's routines."""
    matrix = node.operands[0].type if node.operands else None
    return isinstance(matrix, TensorType) and matrix.dtype.name == "f32"


def _library_call(p: Emitter, node: Apply, routine: Routine, target: str, platform: str) -> Node:
    """The call of LAPACK or cuSOLVER for a TPU's: matrices are column-major, and `info` is a further result."""
    given = [_column_major(operand.type) for operand in node.operands]
    leaves = [_column_major(leaf) for leaf in leaf_types(node.type)]
    has_info = routine is _SYEVD
    info = [TensorType(dtype("s32"), leaves[0].dims[:-2])] if has_info else []
    wanted = TupleType([*leaves, *info]) if isinstance(node.type, TupleType) else leaves[0]
    made = p.op(
        "custom-call", *node.operands, type=wanted, operand_layout_constraints=tuple(given),
        api_version="API_VERSION_TYPED_FFI", backend_config=_config(routine, node, platform), **{_TARGET: target},
    )  # fmt: skip
    return p.tuple([p.element(made, index) for index in range(len(leaves))]) if has_info else made


def _column_major(value_type: Type | None) -> TensorType:
    """An array type whose matrices are column-major; vectors have their only layout."""
    assert isinstance(value_type, TensorType)
    rank = value_type.rank
    if rank < 2:
        return value_type.with_layout(default_layout(rank))
    return value_type.with_layout(Layout((rank - 2, rank - 1, *reversed(range(rank - 2)))))


def _lapack_name(routine: Routine, node: Apply) -> str:
    """LAPACK's routine for the type of the first operand; empty if an HLO op does as well, or there is none."""
    if routine is _TRSM:
        return ""
    matrix = node.operands[0].type if node.operands else None
    letter = _LETTERS.get(matrix.dtype.name) if isinstance(matrix, TensorType) else None
    return f"lapack_{letter}{routine.lapack[letter in 'cz']}_ffi" if letter else ""


def _config(routine: Routine, node: Apply, platform: str) -> str:
    """The settings of a call of LAPACK or cuSOLVER, in the other library's names."""
    lower = _is_lower(node)
    side = f"lower = {str(lower).lower()}" if platform == CUDA else f"uplo = {ord('L' if lower else 'U')} : ui8"
    if routine is _POTRF:
        return f"{{{side}}}"
    if routine is _SYEVD:
        return f"{{algorithm = 0 : ui8, {side}}}" if platform == CUDA else f"{{mode = {ord('V')} : ui8, {side}}}"
    return "{}"


def _settings(node: Apply) -> dict[str, str]:
    """The settings of a call; letters, which LAPACK takes as numbers, are letters."""
    found = dict(_SETTING.findall(str(node.attributes.get("backend_config", ""))))
    return {
        name: chr(int(value)) if value.isdecimal() and len(value) < 4 and int(value) > 31 else value
        for name, value in found.items()
    }


def _is_lower(node: Apply) -> bool:
    if node.attributes.get(_TARGET) == "Eigh":
        return str(node.attributes.get("backend_config", "1")).startswith("1")
    settings = _settings(node)
    return settings.get("uplo", "L") == "L" and settings.get("lower", "true") == "true"


def _emitter(graph: Graph, node: Apply) -> Emitter:
    emitter = Emitter(graph, before=node)
    emitter.metadata = node.raw_metadata
    return emitter


def _element_types(node: Apply) -> list[TensorType]:
    return [leaf.with_layout(None) for leaf in leaf_types(node.type) if isinstance(leaf, TensorType)]


def _cholesky(p: Emitter, node: Apply) -> Node:
    factor = p.op("cholesky", node.operands[0], lower=_is_lower(node))
    return p.tuple([factor, p.zeros(_element_types(node)[1])])


def _triangular_solve(p: Emitter, node: Apply) -> Node:
    settings = _settings(node)
    return p.op(
        "triangular-solve",
        *node.operands,
        left_side=settings.get("side", "L") == "L",
        lower=settings.get("uplo", "L") == "L",
        unit_diagonal=settings.get("diag", "N") == "U",
        transpose_a=_TRANSPOSES[settings.get("trans_x", "N")],
    )


def _qr(p: Emitter, node: Apply) -> Node:
    return p.op("custom-call", *node.operands, type=TupleType(_element_types(node)), **{_TARGET: "Qr"})


def _householder_product(p: Emitter, node: Apply) -> Node:
    made = "ProductOfElementaryHouseholderReflectors"
    return p.op("custom-call", *node.operands, type=_element_types(node)[0], **{_TARGET: made})


def _lu(p: Emitter, node: Apply) -> Node:
    """A TPU's pivots count from 0, LAPACK's and cuSOLVER's from 1; its third result is the permutation."""
    packed, pivots, info = _element_types(node)
    operand = node.operands[0].type
    assert isinstance(operand, TensorType)
    permutation = TensorType(dtype("s32"), operand.dims[:-1])
    made = p.op(
        "custom-call", *node.operands, type=TupleType([packed, pivots, permutation]),
        api_version="API_VERSION_STATUS_RETURNING", **{_TARGET: "LuDecomposition"},
    )  # fmt: skip
    first = p.element(made, 1)
    return p.tuple([p.element(made, 0), p.add(first, p.constant(1, pivots)), p.zeros(info)])


def _eigh(p: Emitter, node: Apply) -> Node:
    vectors, values, info = _element_types(node)
    made = p.op(
        "custom-call", *node.operands, type=TupleType([vectors, values]),
        backend_config=f"{int(_is_lower(node))},1,100,1e-6", **{_TARGET: "Eigh"},
    )  # fmt: skip
    return p.tuple([p.element(made, 0), p.element(made, 1), p.zeros(info)])


_POTRF = Routine(("potrf", "potrf"), "cusolver_potrf_ffi", "", _cholesky, "cholesky")
_TRSM = Routine(("trsm", "trsm"), "", "", _triangular_solve, "triangular-solve")
_SYEVD = Routine(("syevd", "heevd"), "cusolver_syevd_ffi", "Eigh", _eigh, "Eigh")
ROUTINES = (
    _POTRF,
    _TRSM,
    _SYEVD,
    Routine(("getrf", "getrf"), "cusolver_getrf_ffi", "LuDecomposition", _lu, "LuDecomposition"),
    Routine(("geqrf", "geqrf"), "cusolver_geqrf_ffi", "Qr", _qr, "Qr"),
    Routine(
        ("orgqr", "ungqr"), "cusolver_orgqr_ffi", "ProductOfElementaryHouseholderReflectors", _householder_product,
        "ProductOfElementaryHouseholderReflectors",
    ),
)  # fmt: skip
"""The routines that more than one platform has."""
_FROM_TPU = {"Qr", "ProductOfElementaryHouseholderReflectors", "Eigh"}
_BY_TPU = {routine.tpu: routine for routine in ROUTINES if routine.tpu}
_BY_TARGET = {
    **{f"lapack_{letter}{routine.lapack[letter in 'cz']}_ffi": routine for routine in ROUTINES for letter in "sdcz"},
    **{routine.cuda: routine for routine in ROUTINES if routine.cuda},
    **_BY_TPU,
    "cublas_trsm_ffi": _TRSM,
    "cusolver_trsm_ffi": _TRSM,
}


def _as_opaque(graph: Graph, node: Apply, platform: str) -> str:
    """Let a call that nobody knows stand for one that the compiler takes, with the same operands and results.

    XLA's GPU compiler can take calls without a handler (--xla_gpu_mock_custom_calls). The others get a transfer to the
    host and back: operands are alive until they leave, and results come into buffers of their own.

        f(x)  ->  infeed(outfeed(x))
    """
    if platform == CUDA:
        return "a mock call"
    emitter = _emitter(graph, node)
    operands = [leaf for operand in node.operands for leaf in flatten(emitter, operand)]
    arrays = [leaf for leaf in operands if isinstance(leaf.type, TensorType)]
    token = emitter.op("after-all", *[leaf for leaf in operands if leaf.type is TOKEN])
    if arrays:
        sent = arrays[0] if len(arrays) == 1 else emitter.tuple(arrays)
        token = emitter.op("outfeed", sent, token, type=TOKEN, outfeed_shape=sent.type)
    leaves = leaf_types(node.type)
    received = [leaf for leaf in leaves if isinstance(leaf, TensorType)]
    results: list[Node] = []
    if received:
        fed = emitter.op("infeed", token, type=TupleType([TupleType(received), TOKEN]))
        token, values = emitter.element(fed, 1), emitter.element(fed, 0)
        results = [emitter.element(values, index) for index in range(len(received))]
    remaining = iter(results)
    made = [next(remaining) if isinstance(leaf, TensorType) else token for leaf in leaves]
    assert node.type is not None
    graph.replace_uses(node, unflatten(emitter, node.type, made))
    graph.erase(node)
    return "a transfer to the host and back"
