"""The child of `oracle`: reads JSON lines [language, text], answers [verdict, text], and may die of a text."""

import json
import resource
import sys

from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir.dialects import stablehlo


def hlo(text: str) -> str:
    return _hlo.hlo_module_from_text(text).to_string()


def mlir(text: str) -> str:
    with CONTEXT:
        ir.Module.parse(text).operation.verify()
    return ""


def context() -> ir.Context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    stablehlo.register_dialect(made)
    made.allow_unregistered_dialects = False
    return made


CONTEXT = context()
LANGUAGES = {"hlo": hlo, "stablehlo": mlir}


def answer(language: str, text: str) -> tuple[str, str]:
    try:
        return "accepted", LANGUAGES[language](text)
    except Exception as error:  # jaxlib raises several kinds, C++'s own among them
        return "refused", str(error)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(*json.loads(line))) + "\n")
        sys.stdout.flush()
