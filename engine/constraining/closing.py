"""Closes the objects of a JSON schema: afterwards they allow only keys that the schema names.

JSON Schema allows any further keys where ``additionalProperties`` is absent, and a model that is
constrained by such a schema may add keys until it reaches a limit. Objects for which the schema
itself decides about further keys stay as they are. A schema that names no key at all stands for any
object.

Differences from JSON Schema (https://json-schema.org/draft/2020-12/json-schema-core), all of them
stricter: an object without ``additionalProperties`` (or ``unevaluatedProperties``) has the keys of
its ``properties``, ``patternProperties`` and ``required`` only. Parts that are combined (``allOf``,
``$ref`` with siblings, ``anyOf`` and ``oneOf`` beside ``properties``) may each use the keys of the
others.

Pure; knows no grammar and no model. Any thread.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.constraining.pointers import pointed_at

Schema = Any
"""A JSON schema: an object, true or false."""

# Closing a schema with more parts, or with alternatives that repeat more keys, takes too long.
_MOST_PARTS = 10_000
# How many references may follow one another in the same place.
_DEEPEST = 100
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("prefixItems", "items")
_SINGLES = ("items", "additionalItems", "unevaluatedItems", "additionalProperties")
_CHOICES = ("anyOf", "oneOf")
_NAMING = ("properties", "patternProperties")
_DEFINITIONS = ("$defs", "definitions")
_ABOUT_OBJECTS = frozenset({"properties", "patternProperties", "required", "allOf", *_CHOICES})
_SAYS_MORE = frozenset({"additionalProperties", "unevaluatedProperties"})
_POINTER = re.compile(r"#(?:/.*)?")

_Names = tuple[str, ...]


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose objects have only the keys that it names."""
    found: dict[str, Any] = _Closer(schema).close(schema)
    return found


@dataclass
class _Keys:
    """The keys that the combined parts of an object name, in their order."""

    names: dict[str, int] = field(default_factory=dict)
    patterns: dict[str, None] = field(default_factory=dict)
    is_open: bool = False

    def add(self, part: Mapping[str, Any]) -> None:
        """Add the keys that one part names."""
        for name in _named(part):
            self.names[name] = self.names.get(name, 0) + 1
        self.patterns.update(dict.fromkeys(_mapping(part, "patternProperties")))
        self.is_open |= any(part.get(key, False) is not False for key in _SAYS_MORE)

    @property
    def shared(self) -> frozenset[str]:
        """The names that occur in more than one part."""
        return frozenset(name for name, count in self.names.items() if count > 1)


class _Closer:
    """Closes one document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = _MOST_PARTS

    def close(self, node: Schema, extra: _Names = ()) -> Schema:
        """Return a part with its objects closed."""
        self._count(1 + len(extra))
        if not isinstance(node, Mapping):
            return _only(extra) if node is True and extra else node
        if "allOf" in node:
            return self._close_sole(node, extra) or self._merge(node, extra)
        if "$ref" in node:
            if node.keys() & _ABOUT_OBJECTS:
                return self._merge(node, extra)
            target = self._target(node)
            if extra and target is not None:
                return self.close(target, extra)
            return self._with_definitions(node)
        choices = [key for key in _CHOICES if isinstance(node.get(key), list)]
        if len(choices) > 1:
            return self._merge(node, extra)
        inner = self._with_inner(node)
        if node.keys() & _SAYS_MORE:
            # The schema itself decides about further keys; the parts beside it stay as they are.
            return inner
        if choices:
            names = (*extra, *_named(node))
            inner[choices[0]] = [self.close(one, names) for one in node[choices[0]]]
        elif extra or any(isinstance(node.get(key), Mapping) for key in _NAMING):
            if not isinstance(node.get("properties", {}), Mapping):
                return inner
            allowed = dict.fromkeys((*_named(node), *extra), True)
            inner["properties"] = {**inner.get("properties", {}), **_without(allowed, node)}
            inner["additionalProperties"] = False
        return inner

    def _close_sole(self, node: Mapping[str, Any], extra: _Names) -> Schema | None:
        """Close an ``allOf`` of a single part, which is how some libraries write references."""
        parts = node["allOf"]
        is_sole = isinstance(parts, list) and len(parts) == 1
        if not is_sole or node.keys() & (_ABOUT_OBJECTS | _SAYS_MORE | {"$ref"}) - {"allOf"}:
            return None
        return {**self._with_inner(node), "allOf": [self.close(parts[0], extra)]}

    def _merge(self, node: Mapping[str, Any], extra: _Names) -> Schema:
        """Close parts that are combined; each may use the keys of all of them."""
        parts = list(self._parts(node))
        keys = _Keys()
        for part in parts:
            if part is None:
                return self._with_definitions(node)
            self._learn(keys, part)
        if keys.is_open:
            return self._with_definitions(node)
        shared = keys.shared
        own = self._opened(parts[0], shared)
        others = [self._opened(part, shared) for part in parts[1:] if part is not None]
        merged = {**own, **({"allOf": others} if others else {})}
        if keys.names or keys.patterns or extra:
            allowed = dict.fromkeys((*keys.names, *extra), True)
            properties = {**_mapping(merged, "properties")}
            merged["properties"] = {**properties, **_without(allowed, merged)}
            patterns = {**_mapping(merged, "patternProperties")}
            if keys.patterns:
                merged["patternProperties"] = {**dict.fromkeys(keys.patterns, True), **patterns}
            merged["additionalProperties"] = False
        return merged

    def _parts(self, node: Schema, depth: int = 0) -> Iterator[Mapping[str, Any] | None]:
        """Yield the parts that apply to the same value, this one first; None for unknown ones."""
        self._count()
        if not isinstance(node, Mapping):
            if node is not True:
                yield None
            return
        if depth > _DEEPEST:
            raise ValueError("it refers to itself without end")
        yield {key: value for key, value in node.items() if key not in ("allOf", "$ref")}
        if "$ref" in node:
            target = self._target(node)
            if target is None:
                yield None
            else:
                yield from self._parts(target, depth + 1)
        inner = node.get("allOf", [])
        for one in inner if isinstance(inner, list) else [None]:
            yield from self._parts(one, depth + 1)

    def _learn(self, keys: _Keys, part: Mapping[str, Any]) -> None:
        """Add the keys of a part and of its alternatives."""
        keys.add(part)
        for choice in _CHOICES:
            branches = part.get(choice)
            for branch in branches if isinstance(branches, list) else ():
                for inner in self._parts(branch):
                    if inner is None:
                        keys.is_open |= branch is not False
                    else:
                        self._learn(keys, inner)

    def _opened(self, part: Mapping[str, Any] | None, shared: frozenset[str]) -> dict[str, Any]:
        """Return a part whose own keys are open and whose values are closed.

        Values of keys that occur in several parts stay open: each would forbid the others' keys.
        """
        assert part is not None, "an unknown part is not opened"
        opened = self._with_inner(part)
        if shared and "properties" in opened:
            opened["properties"] = {
                name: part["properties"][name] if name in shared else value
                for name, value in opened["properties"].items()
            }
        for choice in _CHOICES:
            branches = part.get(choice)
            if isinstance(branches, list):
                opened[choice] = [self._opened_whole(one, shared) for one in branches]
        return opened

    def _opened_whole(self, branch: Schema, shared: frozenset[str]) -> Schema:
        if not isinstance(branch, Mapping):
            return branch
        own, *others = [self._opened(part, shared) for part in self._parts(branch)]
        return {**own, "allOf": others} if others else own

    def _with_definitions(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a part in which only its definitions are closed."""
        return {**node, **self._with_inner({k: v for k, v in node.items() if k in _DEFINITIONS})}

    def _with_inner(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a part in which the values below it are closed."""
        inner = dict(node)
        for key in _MAPS:
            if isinstance(value := node.get(key), Mapping):
                inner[key] = {name: self.close(one) for name, one in value.items()}
        for key in _LISTS:
            if isinstance(value := node.get(key), list):
                inner[key] = [self.close(one) for one in value]
        for key in _SINGLES:
            if isinstance(value := node.get(key), Mapping):
                inner[key] = self.close(value)
        return inner

    def _target(self, node: Mapping[str, Any]) -> Schema | None:
        """Return the target of a reference; None where it is not in this document."""
        reference = node["$ref"]
        if not isinstance(reference, str) or not _POINTER.fullmatch(reference):
            return None
        found = pointed_at(self._root, reference)
        if isinstance(found, Mapping) and found is self._root:
            # Its definitions stay where they are.
            return {key: one for key, one in found.items() if key not in _DEFINITIONS}
        return found

    def _count(self, parts: int = 1) -> None:
        self._left -= parts
        if self._left < 0:
            raise ValueError(f"it has more than {_MOST_PARTS} parts")


def _mapping(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = node.get(key)
    return value if isinstance(value, Mapping) else {}


def _named(node: Mapping[str, Any]) -> _Names:
    """Return the keys that a part names, required ones too."""
    required = node.get("required")
    listed = [one for one in required if isinstance(one, str)] if isinstance(required, list) else ()
    return tuple(dict.fromkeys((*_mapping(node, "properties"), *listed)))


def _without(allowed: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that a part's properties do not describe."""
    known = _mapping(node, "properties")
    return {name: value for name, value in allowed.items() if name not in known}


def _only(names: _Names) -> dict[str, Any]:
    return {"properties": dict.fromkeys(names, True), "additionalProperties": False}
