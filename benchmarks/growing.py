"""Texts of any size, each a repetition of one thing: what reads them takes time in proportion to their length."""

from __future__ import annotations

from collections.abc import Callable

HEADER = "HloModule m\n\nENTRY e {\n  a = f32[] parameter(0)\n"


def chain(count: int, separator: str = "\n") -> str:
    """One computation of this many instructions, with metadata."""
    lines = ["HloModule m", "", "ENTRY e {", "  n0 = f32[8,16]{1,0} parameter(0)"]
    for number in range(1, count):
        operands = f"n{number - 1}, n{number // 2}"
        metadata = f'metadata={{op_type="add" op_name="jit(f)/add{number}"}}'
        lines.append(f"  n{number} = f32[8,16]{{1,0}} add({operands}), {metadata}")
    return separator.join([*lines, "}", ""])


def computations(count: int) -> str:
    body = "  a = f32[] parameter(0)\n  ROOT b = f32[] negate(a)\n"
    return "HloModule m\n\n" + "".join(f"part{number} (a: f32[]) -> f32[] {{\n{body}}}\n\n" for number in range(count))


def instructions(line: Callable[[int], str]) -> Callable[[int], str]:
    return lambda count: HEADER + "\n".join(f"  {line(number)}" for number in range(count)) + "\n}\n"


def fewer(line: Callable[[int], str]) -> Callable[[int], str]:
    """The same for what takes longer to read."""
    return lambda count: instructions(line)(count // 4)


def repeated(before: str, part: Callable[[int], str], after: str, separator: str = ", ") -> Callable[[int], str]:
    return lambda count: HEADER + before + separator.join(map(part, range(count))) + after + "\n}\n"


LINES, ESCAPED = ",\n", "\\\\"
GROWING: dict[str, Callable[[int], str]] = {
    "one huge computation": lambda count: chain(4 * count),
    "one huge computation on one line": lambda count: chain(count, " "),
    "many small computations": computations,
    "many small computations on one line": lambda count: computations(count // 2).replace("\n", " "),
    "many nested computations": instructions(
        lambda n: f"b{n} = f32[] call(a), to_apply={{\n    r = f32[] parameter(0)\n    }}"
    ),
    "a huge tuple": lambda count: (
        HEADER + f"  b = ({', '.join(['f32[]'] * 20 * count)}) tuple({', '.join(['a'] * 20 * count)})\n}}\n"
    ),
    "a huge tuple over lines": lambda count: (
        HEADER + f"  b = ({LINES.join(['f32[]'] * 5 * count)}) tuple({LINES.join(['a'] * 5 * count)})\n}}\n"
    ),
    "a long constant": lambda count: (
        HEADER + f"  b = f32[{50 * count}] constant({{{', '.join(str(n / 7) for n in range(50 * count))}}})\n}}\n"
    ),
    "unknown attributes": repeated("  b = f32[] negate(a)", lambda n: f", x{n}={{a=1}}", "", ""),
    "an unknown attribute each": instructions(lambda n: f"b{n} = f32[] negate(a), x{n}={{a=1}}"),
    "unknown opcodes": instructions(lambda n: f"b{n} = f32[] foo{n}(a)"),
    "missing names": repeated("  b = f32[] tuple(", lambda n: f"m{n}", ")"),
    "a missing name each": instructions(lambda n: f"b{n} = f32[] negate(m{n})"),
    "missing computations": instructions(lambda n: f"b{n} = f32[] call(a), to_apply=c{n}"),
    "nested operands side by side": repeated("  b = (f32[]) tuple(", lambda _: "f32[] negate(a)", ")"),
    "elements of tuples": lambda count: (
        "HloModule m\n\nENTRY e {\n  t = (f32[]) parameter(0)\n"
        + "\n".join(f"  b{n} = f32[] negate(t#0)" for n in range(count))
        + "\n}\n"
    ),
    "comments": instructions(lambda n: f"b{n} = f32[] /*c*/ negate(a) // foo"),
    "blank lines": instructions(lambda n: f"b{n} = f32[] negate(a)\n \n"),
    "continued lines": instructions(lambda n: f'b{n} = f32[] negate(a)\n  , metadata={{op_name="x"}}'),
    "asynchronous pairs": fewer(
        lambda n: (
            f'start{n} = ((f32[]), f32[], u32[]) custom-call-start(a), custom_call_target="f"\n'
            f"  done{n} = f32[] custom-call-done(start{n})"
        )
    ),
    "shardings in a tuple": repeated("  b = f32[] negate(a), sharding={", lambda _: "{replicated}", "}"),
    "devices": repeated("  b = f32[] negate(a), sharding={devices=[100000]", str, "}", ","),
    "replica groups": repeated("  b = f32[] all-to-all(a), replica_groups={", lambda n: f"{{{n}}}", "}"),
    "frontend attributes": repeated("  b = f32[] negate(a), frontend_attributes={", lambda n: f'k{n}="v"', "}", ","),
    "a long string": lambda count: HEADER + f'  b = f32[] negate(a), metadata={{op_name="{"x" * 100 * count}"}}\n}}\n',
    "a string of escapes": lambda count: (
        HEADER + f'  b = f32[] negate(a), metadata={{op_name="{ESCAPED * 50 * count}"}}\n}}\n'
    ),
    "parameters lost but for the signature": lambda count: (
        f"HloModule m\n\nENTRY e ({', '.join(f'p{n}: f32[]' for n in range(count))}) -> f32[] {{\n"
        + "\n".join(f"  b{n} = f32[] negate(p{n})" for n in range(count))
        + "\n}\n"
    ),
    "stack tables": lambda count: (
        "HloModule m\n\nFileNames\n" + "".join(f'{n} "f"\n' for n in range(count)) + computations(1)[12:]
    ),
    "aliases": lambda count: (
        "HloModule m, input_output_alias={ " + ", ".join(f"{{{n}}}: ({n}, {{0}})" for n in range(count)) + " }\n\n"
        "ENTRY e {\n  a = f32[] parameter(0)\n}\n"
    ),
}
