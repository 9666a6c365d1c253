"""What MindIR says of a node besides its meaning: pairs of texts in its `frontend_attributes`."""

from __future__ import annotations

from collections.abc import Mapping

from hloom.ir import Attributes, Node

FIELD = "frontend_attributes"
ABSTRACT = "abstract"
"""The abstract of a value, which says more than its type (a reference, a number that is not a tensor)."""
TYPES = "types"
"""There where no line of types stands below a node."""
DEBUG_NAME = "debug name"
"""The name in parentheses, where it is not the node's, which is the only one of its name."""
PRIMITIVE = "primitive"
"""A primitive as it is written, where that is not the op's name."""
UNION = "union"
"""The graphs that a computed call may reach."""
TEXT = "text"
"""How a tensor is written, where the literal's own text is another."""
SUFFIX = "suffix"
"""What follows the abstract of a parameter."""
USED_AS = "used as"
"""The name of a parameter where it is used, where that is not the one in the list."""
COMMENTS = "comments"
"""The lines of comments below a node, joined."""
INSTANCE_NAME = "instance name"
"""The primitive's instance name. All other annotations are groups of attributes behind a node, by their names."""
OWN = frozenset({ABSTRACT, TYPES, DEBUG_NAME, PRIMITIVE, UNION, TEXT, SUFFIX, USED_AS, COMMENTS, INSTANCE_NAME})
"""The annotations that are not groups of attributes."""


def annotations_of(node: Node) -> dict[str, str]:
    """The annotations of a node by name."""
    return dict(node.attributes.get(FIELD) or ())


def annotated(pairs: Mapping[str, str], attributes: Mapping[str, object] | None = None) -> Attributes:
    """Attributes with annotations."""
    values = dict(attributes or {})
    if pairs:
        values[FIELD] = tuple(pairs.items())
    return Attributes(values)
