"""A module as text, in one of the forms that people ask for by name."""

from __future__ import annotations

from hloom.hlo.printer import PrintOptions, print_module
from hloom.ir import Module, dump
from hloom.text import Unsupported

FORMS: dict[str, PrintOptions] = {
    "hlo": PrintOptions(),
    "short": PrintOptions.short_parsable(),
    "canonical": PrintOptions.canonical(),
}
"""HLO text by name; beside them there is `ir`, the listing of graphs and closures."""


def to_text(module: Module, form: str | PrintOptions = "hlo") -> str:
    """The module as text: `hlo`, `short` (the shortest that reads back), `canonical`, `ir` (a listing), or options.

    Nothing is written anywhere: the text is the result. Raises HloomError where HLO cannot say what the module holds
    (`ir` can say all), Unsupported for another form.

    >>> from hloom.hlo import parse
    >>> module = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
    >>> to_text(module, "short").rstrip().splitlines()[2:]
    ['ENTRY e {', '  x = f32[2] parameter(0)', '  ROOT y = f32[2] negate(x)', '}']
    """
    if isinstance(form, PrintOptions):
        return print_module(module, form)
    if form == "ir":
        return dump(module)
    if form not in FORMS:
        raise Unsupported(f"no form of text is called '{form}'", hint=f"the forms are {', '.join(FORMS)}, ir")
    return print_module(module, FORMS[form])
