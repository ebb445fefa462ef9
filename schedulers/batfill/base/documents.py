"""YAML files with the line of each key, so that messages can point at a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from batfill.base.errors import WorkloadError
from batfill.base.files import readable

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.base.errors import BatfillError

MOST_REPEATED = 10_000  # values that a document's aliases may add
KeyPath = tuple[int | str, ...]  # the keys and indices that lead to a value


class Document(NamedTuple):
    """A document's value, the line of every place in it, and its bytes."""

    value: dict[str, Any]
    lines: dict[KeyPath, int]
    stored: bytes

    def line(self, place: KeyPath) -> int:
        """The line of this place, or of the innermost enclosing one in the document."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]


def read_document(path: Path, what: str, error: type[BatfillError]) -> Document:
    """The document in this file, with the lines of everything in it; the `error` if it is not `what` it has to be."""
    try:
        with readable(path) as file:
            stored = file.read()
    except WorkloadError as unreadable:
        raise error(unreadable.on_command_line) from None
    lines: dict[KeyPath, int] = {(): 1}
    most = len(stored) + MOST_REPEATED

    def visit(node: yaml.Node, place: KeyPath) -> Any:
        if len(lines) > most:  # a value that is not an alias's takes at least a byte
            raise error(f"{path}:1: aliases repeat more than {MOST_REPEATED:,} values; write fewer of them")
        if isinstance(node, yaml.MappingNode):
            found = {}
            for key, (value, line) in entries_of(path, node, error).items():
                lines[*place, key] = line
                found[key] = visit(value, (*place, key))
            return found
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                lines[*place, i] = item.start_mark.line + 1
            return [visit(item, (*place, i)) for i, item in enumerate(node.value)]
        try:
            return loader.construct_object(node, deep=True)
        except (yaml.constructor.ConstructorError, ValueError):
            return node.value  # its text, which the check of types then shows

    loader = yaml.SafeLoader(b"")
    try:
        loader = yaml.SafeLoader(stored)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise error(f"{path}:1: not {what}")
        return Document(visit(root, ()), lines, stored)
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(wrong, "problem", None) or getattr(wrong, "reason", None) or str(wrong)
        raise error(f"{path}:{line}: not YAML ({problem}); correct that line") from None
    except RecursionError:
        raise error(f"{path}:1: nested too deeply; write it flatter") from None
    finally:
        loader.dispose()


def entries_of(path: Path, mapping: yaml.MappingNode, error: type[BatfillError]) -> dict[str, tuple[yaml.Node, int]]:
    found: dict[str, tuple[yaml.Node, int]] = {}
    for key_node, value_node in mapping.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise error(f"{path}:{line}: a key is no text; write one word as the key")
        key = str(key_node.value)
        if key in found:
            raise error(f"{path}:{line}: key {key} is already on line {found[key][1]}; keep one of them")
        found[key] = value_node, line
    return found
