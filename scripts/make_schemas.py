"""Writes docs/schemas: a JSON Schema of what each subcommand writes with --json, made from the classes of its reports.

    python scripts/make_schemas.py

Keys, types and descriptions are those of the classes: `Record` says how a class becomes JSON.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import types
from collections.abc import Collection, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from hloom.text import SCHEMA_VERSION
from hloom.text.records import keys_of

FOLDER = ROOT / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
REPORTS = {
    "inspect": ("analysis.Summary",),
    "print": ("cli.print.PrintedModule",),
    "draw": ("inspection.viz.drawing.Drawing",),
    "grep": ("cli.grep.MatchList",),
    "cost": ("cli.cost.CostRecord",),
    "roofline": ("cli.roofline.RooflineRecord", "analysis.Timeline", "cli.roofline.DeviceList"),
    "fusions": ("passes.fusion.FusionReport",),
    "memory": ("cli.memory.MemoryRecord",),
    "why-oom": ("inspection.why_oom.OomReport", "cli.why_oom.OomRecord", "cli.why_oom.CompilerRefusal"),
    "calibrate": ("runtime.MeasuredRates",),
    "compile": ("targets.compiler.CompiledProgram", "cli.compile.Sweep", "cli.why_oom.CompilerRefusal"),
    "doctor": ("cli.doctor.DoctorRecord",),
    "diff": ("cli.diff.DiffRecord",),
    "passes": ("cli.passes.StateList", "inspection.diff.ModuleDiff"),
    "minimize": ("cli.minimize.MinimizeRecord", "cli.minimize.InterruptedRecord"),
    "opt": ("cli.opt.OptRecord", "cli.opt.PassList", "cli.opt.RuleList"),
    "grad": ("cli.grad.GradientChecks",),
    "quantize": ("cli.quantize.QuantizeRecord",),
    "prune": ("compress.pruning.PruningReport", "compress.pruning.StructureReport"),
    "propagate": ("distribute.propagation.Propagation", "distribute.propagation.Enumeration"),
    "plan": ("cli.plan_report.PlanRecord",),
    "pipeline": ("cli.pipeline.PipelineRecord",),
    "fit": ("distribute.fit.FitResult",),
    "run": ("cli.run.RunRecord",),
    "evaluate": ("cli.evaluate.EvaluationRecord",),
}
"""The classes that a subcommand writes as JSON, one of them at a time."""
PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"]},  # null where it is not finite
    complex: {"type": "array", "items": {"type": ["number", "null"]}},  # its two parts
    type(None): {"type": "null"},
    object: {},
    Any: {},
}
SCALARS = {"type": ["string", "number", "boolean", "array", "null"]}


class Schemas:
    """The schemas of classes that one subcommand's reports are made of, by name."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._owners: dict[str, Any] = {}

    def of(self, annotation: Any, names: Mapping[Any, Any] = types.MappingProxyType({})) -> dict[str, Any]:
        """The schema of a value of this type; `names` are the types that type variables stand for."""
        if isinstance(annotation, TypeVar):
            return self.of(names[annotation], names)
        if annotation in PLAIN:
            return dict(PLAIN[annotation])
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return {**self.of(arguments[0], names), "description": arguments[1]}
        if origin is ClassVar:
            return self.of(arguments[0], names)
        if origin in (Union, types.UnionType):
            return _any_of([self.of(argument, names) for argument in arguments])
        if origin is not None and _is_record(origin):
            return self._reference(origin, dict(zip(origin.__parameters__, arguments, strict=True)))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            held = arguments[1] if len(arguments) > 1 else int  # a Counter's type has one argument
            return {"type": "object", "additionalProperties": self.of(held, names)}
        if origin is tuple and Ellipsis not in arguments:
            return {"type": "array", "prefixItems": [self.of(argument, names) for argument in arguments]}
        if isinstance(origin, type) and issubclass(origin, Iterable):
            return {"type": "array", "items": self.of(arguments[0], names)}
        return self._of_class(annotation)

    def _of_class(self, owner: Any) -> dict[str, Any]:
        if issubclass(owner, Enum):
            return {"enum": [member.value for member in owner]}
        if owner.__name__ == "Table":
            return {"type": "array", "items": {"type": "object", "additionalProperties": SCALARS}}
        if _is_record(owner):
            return self._reference(owner, {})
        if hasattr(owner, "to_json"):
            return {"type": "object", "description": inspect.getdoc(owner.to_json)}
        if issubclass(owner, Collection) and not issubclass(owner, tuple):
            return {"type": "array"}
        return {"type": "string"}

    def _reference(self, owner: Any, names: Mapping[Any, Any]) -> dict[str, Any]:
        name = owner.__name__ + "".join(f"Of{argument.__name__}" for argument in names.values())
        if self._owners.setdefault(name, owner) is not owner:
            name = f"{owner.__module__.rpartition('.')[2]}.{name}"
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] |= self._object(owner, names)
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, owner: Any, names: Mapping[Any, Any]) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        for key in keys_of(owner):
            annotation, description, is_absent = _reached(owner, key.path, names)
            if not key.name:
                merged, needed = self._merged(annotation, names)
                properties |= merged
                required += [] if is_absent or annotation is not _without_none(annotation) else needed
                continue
            schema = self.of(annotation, names)
            schema = _any_of([schema, {"type": "null"}]) if is_absent else schema
            said = ": ".join(filter(None, (schema.pop("description", ""), description)))
            properties[key.name] = {**schema, **({"description": said} if said else {})}
            required += [] if key.is_optional else [key.name]
        return {
            "type": "object",
            "description": _paragraphs(owner),
            "properties": properties,
            "required": list(dict.fromkeys(required)),
        }

    def _merged(self, annotation: Any, names: Mapping[Any, Any]) -> tuple[dict[str, Any], list[str]]:
        annotation = _without_none(annotation)
        reference = self.of(annotation, names)["$ref"]
        merged = self.definitions[reference.rpartition("/")[2]]
        return merged["properties"], merged["required"]

    def used(self, root: Any) -> dict[str, Any]:
        """The definitions that a schema refers to, by way of others too."""
        found: dict[str, Any] = {}
        pending = [root]
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                name = str(value.get("$ref", "")).rpartition("/")[2]
                if name and name not in found:
                    found[name] = self.definitions[name]
                    pending.append(found[name])
                pending += value.values()
            elif isinstance(value, list):
                pending += value
        return dict(sorted(found.items()))


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """A schema of what any of these is; plain types are joined."""
    joined: list[str] = []
    others: list[dict[str, Any]] = []
    for schema in schemas:
        if set(schema) == {"type"}:
            joined += [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        elif schema not in others:
            others += schema.get("anyOf", [schema])
    plain = [{"type": joined[0] if len(set(joined)) == 1 else list(dict.fromkeys(joined))}] if joined else []
    made = others + plain
    return made[0] if len(made) == 1 else {"anyOf": made}


def _is_record(owner: Any) -> bool:
    """Whether a class becomes JSON by its keys."""
    has_own = hasattr(owner, "to_json") and not hasattr(owner, "json_keys")
    return not has_own and owner.__name__ != "Table" and (hasattr(owner, "json_keys") or is_dataclass(owner))


def _reached(owner: Any, path: tuple[str, ...], names: Mapping[Any, Any]) -> tuple[Any, str, bool]:
    """The type at the end of a path of attributes, what is said of it, and whether something before it may be None."""
    annotation: Any = owner
    description, is_absent = "", False
    for number, part in enumerate(path):
        annotation = names.get(annotation, annotation)
        if number and _without_none(annotation) is not annotation:
            annotation, is_absent = _without_none(annotation), True
        if (origin := get_origin(annotation)) in (tuple, list) or getattr(origin, "__name__", "") == "Sequence":
            inner, _, _ = _reached(get_args(annotation)[0], path[number:], names)
            return list[inner], description, is_absent
        annotation, description = _attribute(get_origin(annotation) or annotation, part)
    return annotation, description, is_absent


def _attribute(owner: Any, name: str) -> tuple[Any, str]:
    """The type of an attribute, or of what a method gives, and its docstring."""
    if owner in (str, int, dict) or name == "__str__":
        return {"__len__": int}.get(name, str), ""
    hints = _hints(owner)
    if name in hints:
        return hints[name], _field_notes(owner).get(name) or _said_of(owner, name)
    held = inspect.getattr_static(owner, name, None)
    if held is None or isinstance(held, types.MemberDescriptorType):  # `__init__` sets it to its argument
        return _hints(owner.__init__)[name], ""
    function = held.fget if isinstance(held, property) else held.func if isinstance(held, cached_property) else held
    if not inspect.isfunction(function):
        raise SystemExit(f"{owner.__name__}.{name} has no type")
    return _hints(function)["return"], inspect.getdoc(function) or ""


@cache
def _hints(owner: Any) -> dict[str, Any]:
    return get_type_hints(owner, None, _imported_for_types(owner.__module__), include_extras=True)


@cache
def _imported_for_types(module: str) -> dict[str, Any]:
    """What a module imports only for its annotations."""
    found: dict[str, Any] = {}
    for statement in ast.parse(Path(import_module(module).__file__ or "").read_text()).body:
        if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name):
            for line in statement.body:
                if isinstance(line, ast.ImportFrom):
                    held = import_module(line.module or "")
                    found |= {alias.asname or alias.name: getattr(held, alias.name) for alias in line.names}
    return found


@cache
def _field_notes(owner: Any) -> dict[str, str]:
    """The text under each field of a class."""
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(owner))).body[0].body  # pyright: ignore[reportAttributeAccessIssue]
    return {
        field.target.id: inspect.cleandoc(str(note.value.value))
        for field, note in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant)
    }  # fmt: skip


def _said_of(owner: Any, name: str) -> str:
    """The sentences of a class's docstring that name a field."""
    sentences = re.split(r"(?<=\.) (?=[A-Z`])", _paragraphs(owner).replace("\n", " "))
    return " ".join(sentence for sentence in sentences if f"`{name}`" in sentence)


def _without_none(annotation: Any) -> Any:
    """X of X | None; every other type as it is."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    rest = [argument for argument in get_args(annotation) if argument is not type(None)]
    return Union[tuple(rest)] if len(rest) < len(get_args(annotation)) else annotation  # noqa: UP007


def _paragraphs(owner: Any) -> str:
    """A class's docstring without its examples, a paragraph a line."""
    text = (inspect.getdoc(owner) or "").partition("\n\n>>>")[0]
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _class(name: str) -> Any:
    module, _, owner = name.rpartition(".")
    return getattr(import_module(f"hloom.{module}"), owner)


def schema(command: str) -> dict[str, Any]:
    """The schema of what a subcommand writes with --json."""
    schemas = Schemas()
    forms = [schemas.of(_class(name)) for name in REPORTS[command]]
    version = {"const": SCHEMA_VERSION, "description": "grows where a key goes, or its type, unit or meaning changes"}
    return {
        "$schema": DIALECT,
        "title": f"hloom {command} --json",
        "description": "Further keys may come in any version: readers skip those that they do not know.",
        "type": "object",
        "properties": {"schema_version": version},
        "required": ["schema_version"],
        "anyOf": forms,
        "$defs": schemas.used(forms),
    }


def files() -> dict[Path, str]:
    """The texts of docs/schemas."""
    return {FOLDER / f"{command}.json": _lines(schema(command), 3) + "\n" for command in REPORTS}


def _lines(value: Any, levels: int, indent: str = "") -> str:
    """JSON with an entry of the outermost objects a line, so that a key's schema is one."""
    if not isinstance(value, dict) or not levels:
        return json.dumps(value)
    inner = f"{indent} "
    entries = (
        f"{inner}{json.dumps(name)}: {_lines(held, levels - (name != '$defs'), inner)}" for name, held in value.items()
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
