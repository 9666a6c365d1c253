"""Damage to texts and bytes, drawn from a random generator."""

from __future__ import annotations

import copy
import json
import re
from random import Random
from typing import Any

from tests.formats.hlo.mutations import BRACKETS, NUMBERS, TOKEN, TYPES, WORDS

MOST_BYTES = 20_000


def damaged_text(random: Random, text: str, others: tuple[str, ...] = ()) -> str:
    """A text after one to three changes of its tokens, lines or characters."""
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice(TEXT_CHANGES)(random, text, others or (text,))[:MOST_BYTES]
    return text


def altered_text(random: Random, text: str) -> str:
    """A text after one to three changes that keep to its grammar, as far as its tokens tell."""
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice(GENTLE_CHANGES)(random, text, (text,))[:MOST_BYTES]
    return text


def altered_json(random: Random, text: str) -> str:
    """JSON with a value, or several, exchanged for others."""
    value = json.loads(text)
    for _ in range(random.choice((1, 1, 2))):
        holders = [value]
        for holder in holders:
            inner = holder.values() if isinstance(holder, dict) else holder
            holders += [item for item in inner if isinstance(item, (dict, list)) and item]
        holder = random.choice(holders)
        key = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
        if random.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(random.choice((*JSON_VALUES, random.choice(holders))))
        if not value:
            break
    return json.dumps(value)[:MOST_BYTES]


def altered_message(random: Random, message: Any) -> None:
    """A proto message with some fields set to other values, removed or doubled, at any depth."""
    for _ in range(random.choice((1, 1, 2, 4))):
        holders = [message]
        for holder in holders:
            for descriptor, value in holder.ListFields():
                if descriptor.message_type is not None and not _is_map(descriptor):
                    holders += value if _is_repeated(descriptor) else [value]
        holder = random.choice(holders)
        fields = holder.ListFields()
        if not fields:
            continue
        descriptor, value = random.choice(fields)
        if random.random() < 0.15 or _is_map(descriptor):
            holder.ClearField(descriptor.name)
        elif _is_repeated(descriptor) and len(value):
            position = random.randrange(len(value))
            if random.random() < 0.3:
                del value[position]
            elif descriptor.message_type is not None:
                value.append(random.choice(value))
            else:
                value[position] = _scalar(random, value[position])
        elif descriptor.message_type is None:
            setattr(holder, descriptor.name, _scalar(random, value))


def _is_map(descriptor: Any) -> bool:
    return descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry


def _is_repeated(descriptor: Any) -> bool:
    return bool(descriptor.is_repeated)


def _scalar(random: Random, value: Any) -> Any:
    """Another value of the same Python type that the smallest of protobuf's types of it can hold."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice((0, 1, 2, 3, value + 1, max(value - 1, 0), 7, 127, 2**31 - 1)) % 2**31
    if isinstance(value, float):
        return random.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    if isinstance(value, bytes):
        return random.choice((b"", value[:-1], value + b"\0", value * 2))
    return random.choice(("", value + "x", value[:-1], "add", "while", "x" * 1000))


JSON_VALUES = (
    *(None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -1.5, 1e308, float("nan")),
    *("", "x", "add", "transpose", "[x]", "f32", "f32[2]", "x" * 3000, [], {}, [0], [[]], [0, 1], ["x", 1], {"x": 1}),
    *({"term": 0}, {"made": 0}, {"term": 99}, ["variable", "x"], ["equal", 1, 2], ["divide", 1, 0], {"": None}),
)
"""Values that a position in a file may not be made for."""


def damaged_bytes(random: Random, data: bytes, others: tuple[bytes, ...] = ()) -> bytes:
    """Bytes after one to three changes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        random.choice(BYTE_CHANGES)(random, changed, others or (data,))
    return bytes(changed[:MOST_BYTES])


def _tokens(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Remove, add, replace, double or exchange a token."""
    tokens = TOKEN.findall(text)
    position, other = random.randint(0, max(0, len(tokens) - 1)), random.randint(0, max(0, len(tokens) - 1))
    change = random.randrange(5)
    if change == 0:
        del tokens[position : position + 1]
    elif change == 1:
        tokens.insert(position, random.choice(WORDS))
    elif change == 2:
        tokens[position : position + 1] = [random.choice(WORDS)]
    elif change == 3:
        tokens[position:position] = tokens[position : position + random.randint(1, 12)]
    elif tokens:
        tokens[position], tokens[other] = tokens[other], tokens[position]
    return "".join(tokens)


def _number(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Replace a number by another one."""
    tokens = TOKEN.findall(text)
    numbers = [index for index, token in enumerate(tokens) if token.lstrip("-").isdigit()]
    if numbers:
        tokens[random.choice(numbers)] = random.choice(NUMBERS)
    return "".join(tokens)


def _type(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Replace what begins like a type by another one, or make a dimension dynamic."""
    places = [index for index, char in enumerate(text) if char == "["]
    if not places:
        return text
    position = random.choice(places)
    if random.random() < 0.4:
        return text[: position + 1] + "<=" + text[position + 1 :]
    start = position
    while start and text[start - 1].isalnum():
        start -= 1
    end = text.find("]", position) + 1 or len(text)
    return text[:start] + random.choice(TYPES) + text[end:]


def _lines(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Remove, double or move lines, as in a fragment."""
    lines = text.split("\n")
    position = random.randrange(len(lines))
    count = random.choice((1, 1, 1, 3, 10))
    change = random.randrange(3)
    taken = lines[position : position + count]
    if change != 1:
        del lines[position : position + count]
    if change:
        target = random.randint(0, len(lines))
        lines[target:target] = taken
    return "\n".join(lines)


def _cut(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Keep the beginning, the end, or some lines."""
    first, last = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
    return random.choice((text[:last], text[first:], text[first:last]))


def _splice(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Put a part of another text inside."""
    other = random.choice(others)
    first, last = sorted((random.randint(0, len(other)), random.randint(0, len(other))))
    position = random.randint(0, len(text))
    return text[:position] + other[first:last][:2000] + text[position:]


def _nest(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Put many opening brackets inside."""
    position = random.randint(0, len(text))
    return text[:position] + random.choice(BRACKETS) * random.choice((3, 70, 1200)) + text[position:]


def _characters(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Exchange a character for any other."""
    position = random.randint(0, len(text))
    return text[:position] + chr(random.choice((random.randrange(256), random.randrange(0xD800)))) + text[position + 1 :]


def _rename(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Exchange a word for another one everywhere: opcodes, names, attributes."""
    words = sorted({token for token in TOKEN.findall(text) if token[0].isalpha() or token[0] == "%"})
    return text.replace(random.choice(words), random.choice(words)) if words else text


def _like(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Exchange a token for another of the text that looks like it: a name, a number, a word in front of a bracket."""
    tokens = TOKEN.findall(text)
    sorts: dict[str, list[int]] = {}
    for index, token in enumerate(tokens):
        if token[0].isalnum() or token[0] in "%-":
            after = tokens[index + 1][0] if index + 1 < len(tokens) else " "
            sort = "number" if token.lstrip("-").isdigit() else f"word {after if after in '([=' else ''}"
            sorts.setdefault(sort, []).append(index)
    if sorts:
        similar = random.choice(list(sorts.values()))
        tokens[random.choice(similar)] = tokens[random.choice(similar)]
    return "".join(tokens)


def _small_number(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Replace a number by a small one, or a large one, that its position may take."""
    tokens = TOKEN.findall(text)
    numbers = [index for index, token in enumerate(tokens) if token.isdigit()]
    if numbers:
        tokens[random.choice(numbers)] = random.choice(("0", "1", "2", "3", "4", "5", "8", "100", "100000", "1000000000"))
    return "".join(tokens)


def _attribute(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Remove an attribute from the end of a line."""
    lines = text.split("\n")
    chosen = [index for index, line in enumerate(lines) if ", " in line and "=" in line]
    if chosen:
        index = random.choice(chosen)
        lines[index] = lines[index].rpartition(", ")[0]
    return "\n".join(lines)


def _element(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Exchange an element type for another one, in one position or in all."""
    places = sorted(set(ELEMENTS.findall(text)))
    if not places:
        return text
    old, new = random.choice(places), random.choice(("f32", "s32", "pred", "c64", "bf16", "u8", "s4", "f8e5m2", "f64"))
    return text.replace(f"{old}[", f"{new}[") if random.random() < 0.5 else text.replace(f"{old}[", f"{new}[", 1)


def _dropped_line(random: Random, text: str, others: tuple[str, ...]) -> str:
    """Remove an instruction."""
    lines = text.split("\n")
    chosen = [index for index, line in enumerate(lines) if " = " in line]
    if chosen:
        del lines[random.choice(chosen)]
    return "\n".join(lines)


ELEMENTS = re.compile(r"\b([a-z]\w*)\[")
GENTLE_CHANGES = (_like, _like, _like, _small_number, _small_number, _attribute, _element, _type, _dropped_line)
TEXT_CHANGES = (_tokens, _tokens, _tokens, _number, _number, _type, _lines, _lines, _cut, _splice, _nest, _characters, _rename)


def _flip(random: Random, data: bytearray, others: tuple[bytes, ...]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _overwrite(random: Random, data: bytearray, others: tuple[bytes, ...]) -> None:
    if data:
        position = random.randrange(len(data))
        count = random.choice((1, 1, 2, 4, 8))
        data[position : position + count] = random.choice((bytes(count), b"\xff" * count, random.randbytes(count)))


def _insert(random: Random, data: bytearray, others: tuple[bytes, ...]) -> None:
    position = random.randint(0, len(data))
    other = random.choice(others)
    first, last = sorted((random.randint(0, len(other)), random.randint(0, len(other))))
    data[position:position] = random.choice((other[first:last], random.randbytes(random.randint(1, 9))))


def _remove(random: Random, data: bytearray, others: tuple[bytes, ...]) -> None:
    position = random.randint(0, len(data))
    del data[position : position + random.choice((1, 1, 2, 10, 1000))]


BYTE_CHANGES = (_flip, _flip, _overwrite, _overwrite, _insert, _remove)
