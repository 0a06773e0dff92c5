"""Jinja's sandbox for chat templates with a limit of time.

A template cannot run code, and without a limit could loop for ever on a thread that nothing ends.
"""

import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_RENDER_S = 10.0
"""Processor time for one prompt; a thousand messages take up to 1.5 s in templates of today."""

_DEADLINE_S: ContextVar[float | None] = ContextVar("template_deadline", default=None)


class TemplateTooCostly(jinja2.TemplateRuntimeError):
    """A template took too long."""


class BoundedTemplate(jinja2.Template):
    """A template that is rendered within ``MAX_RENDER_S``."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        """Return the rendered text; raises ``TemplateTooCostly``."""
        token = _DEADLINE_S.set(time.thread_time() + MAX_RENDER_S)
        try:
            return super().render(*args, **kwargs)
        finally:
            _DEADLINE_S.reset(token)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox; loops and calls check the time."""

    template_class = BoundedTemplate

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        self.filters["_each"] = _each
        tree = _Bounding().visit(source).set_environment(self)
        return str(super()._generate(tree, *args, **kwargs))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use an attribute; Kimi K2's keeps ids in a list of its own.

        The lists that it is given are copies, which transformers makes for each rendering.
        """
        is_queue = type(obj) is list and attr in ("append", "pop")
        return is_queue or super().is_safe_attribute(obj, attr, value)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call an object from a template."""
        _check_time()
        return super().call(__context, __obj, *args, **kwargs)


class _Bounding(NodeTransformer):
    """Passes the items of each loop through ``_each``."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "_each", [], [], None, None, lineno=node.lineno)
        return node


def _each(items: Any) -> Any:
    """Return items that check the time as a loop takes them."""
    return _TimedItems(items) if hasattr(items, "__len__") else _timed(items)


class _TimedItems:
    """Items whose number is known, which ``loop.length`` and ``loop.last`` need."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return _timed(self._items)


def _timed(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _check_time()
        yield item


def _check_time() -> None:
    deadline_s = _DEADLINE_S.get()
    if deadline_s is not None and time.thread_time() > deadline_s:
        raise TemplateTooCostly(
            f"it takes more than {MAX_RENDER_S:.0f} s, which no conversation needs"
        )
