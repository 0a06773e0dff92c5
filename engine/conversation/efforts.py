"""Reasoning efforts: the names in a chat template, and the nearest to a request."""

from collections.abc import Iterator, Sequence

from jinja2 import nodes

from engine.values.request import Effort

OPTION = "reasoning_effort"
# What gpt-oss documents for a template that writes any word into the prompt.
FREE_FORM_EFFORTS = ("low", "medium", "high")
_SCALE = tuple(effort.value for effort in Effort)
PROBE = "effortprobe"


def named_efforts(tree: nodes.Template) -> tuple[str, ...]:
    """Return the words that a template names: those of the scale, ascending, then others."""
    named = dict.fromkeys(_effort_constants(tree))
    scale = (word for word in _SCALE if word in named)
    return (*scale, *(word for word in named if word not in _SCALE))


def nearest_effort(names: Sequence[str], effort: Effort) -> str | None:
    """Return the word of a template that is nearest to a wish, the higher one of two.

    None if the template names no degree of reasoning.
    """
    if effort.value in names:
        return effort.value
    # No wish for reasoning is mapped to the word that switches it off.
    candidates = [word for word in names if word in _SCALE and word != Effort.NONE.value]
    position = _SCALE.index(effort.value)
    return min(
        candidates,
        key=lambda word: (abs(_SCALE.index(word) - position), -_SCALE.index(word)),
        default=None,
    )


def _effort_constants(tree: nodes.Template) -> Iterator[str]:
    """Yield the constants with which a template compares or replaces the effort."""
    names = {OPTION}
    assignments = [
        (node.target.name, node.node)
        for node in tree.find_all(nodes.Assign)
        if isinstance(node.target, nodes.Name)
    ]
    for _ in assignments:  # names of names, such as effort|default('high')
        names |= {target for target, value in assignments if _has_name(value, names)}
    for target, value in assignments:
        if target in names:
            yield from _constants(value)
    for comparison in tree.find_all(nodes.Compare):
        if _has_name(comparison, names):
            yield from _constants(comparison)


def _has_name(node: nodes.Node, names: set[str]) -> bool:
    found = [node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name)
    return any(name.name in names for name in found)


def _constants(node: nodes.Node) -> Iterator[str]:
    found = [node] if isinstance(node, nodes.Const) else node.find_all(nodes.Const)
    yield from (const.value for const in found if isinstance(const.value, str))
