"""Jinja for chat templates, which are input: a template can neither run nor grow without end.

Jinja's sandbox keeps a template from the program's objects, and not from its time and memory:
multiplied, padded or doubled texts, and loops in loops. Rendering holds the interpreter's lock, so
all streams would wait for it.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import wraps
from itertools import chain
from string import Formatter
from typing import Any

import jinja2
from jinja2 import nodes, pass_environment
from jinja2.filters import make_attrgetter
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_CHARS = 32 << 20
"""Characters of a text, or items of a list, in a template: more than any context holds."""
MAX_RENDER_S = 10.0
"""Processor time for one prompt; a thousand messages take up to 1.5 s in templates of today."""

_ENDS_AT_S: ContextVar[float | None] = ContextVar("template_ends_at", default=None)
# Fields of a format that are padded to a million characters or more.
_WIDE = re.compile(r"\d{7}")
# A field whose width is an argument.
_GIVEN_WIDTH = re.compile(r"%[^%a-zA-Z]*\*")
# Calls that take a width, each with how many lines at least are made that wide.
_WIDTHS = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "expandtabs", "indent"), 1),
    **dict.fromkeys(("slice", "batch", "tojson"), 10_000),
}
_GUARDED = _WIDTHS.keys() | {"replace", "format", "format_map"}


class BoundedTemplate(jinja2.Template):
    """A template that is rendered within a time."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        """Return the rendered text; raises ``TemplateRuntimeError``."""
        with rendering_limited():
            return super().render(*args, **kwargs)


@contextlib.contextmanager
def rendering_limited() -> Iterator[None]:
    """Limit the processor time of all that is rendered inside; the outermost limit counts."""
    outer = _ENDS_AT_S.get()
    token = _ENDS_AT_S.set(time.thread_time() + MAX_RENDER_S if outer is None else outer)
    try:
        yield
    finally:
        _ENDS_AT_S.reset(token)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with bounds for time and memory."""

    template_class = BoundedTemplate
    intercepted_binops = frozenset({"*", "**", "+", "%"})
    _has_guards = False

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        return "".join(_within(parts))

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        if not self._has_guards:  # not before, because transformers has filters of its own
            self._has_guards = True
            for name in _GUARDED & self.filters.keys():
                kind = "%" if name == "format" else name
                self.filters[name] = _guarded(kind, self.filters[name])
            self.filters |= {"_each": _each, "_concat": _concat, "join": _join}
            self.globals.pop("lipsum", None)
        tree = _Bounding().visit(source).set_environment(self)
        return str(super()._generate(tree, *args, **kwargs))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use an attribute; Kimi K2's keeps ids in a list of its own.

        The lists that it is given are copies, which transformers makes for each rendering.
        """
        if isinstance(obj, str) and attr == "translate":
            return False  # it can put a long text in the place of every character
        is_queue = type(obj) is list and attr in ("append", "pop")
        return is_queue or super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            _check_call("%", left, (right,))
        elif operator == "+":
            _check_size(_length(left) + _length(right))
        elif operator == "*":
            _check_size(_length(left) * _number(right) + _length(right) * _number(left))
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits, others = left.bit_length(), right.bit_length()
            _check_size(bits + others if operator == "*" else bits * abs(right), 4096)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        _check_time()
        name = getattr(__obj, "__name__", "")
        if name in _GUARDED:
            # The sandbox wraps the methods that format.
            method = getattr(__obj, "__wrapped__", __obj)
            _check_call(name, getattr(method, "__self__", None), (*args, *kwargs.values()))
        elif name == "join" and isinstance(separator := getattr(__obj, "__self__", None), str):
            args = tuple(_within(_separated(separator, items)) for items in args)
            __obj = "".join
        return super().call(__context, __obj, *args, **kwargs)


class _Bounding(NodeTransformer):
    """Lets loops and joined texts be counted."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "_each", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, "_concat", [], [], None, None, lineno=node.lineno)


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


def _concat(parts: Iterable[Any]) -> str:
    return "".join(_within(map(str, parts)))


def _separated(separator: str, items: Iterable[Any]) -> Iterator[Any]:
    pairs = chain.from_iterable((separator, item) for item in items)
    next(pairs, None)
    return pairs


@pass_environment
def _join(environment: Any, value: Any, d: str = "", attribute: Any = None) -> str:
    """Join the texts of items, as Jinja's filter does where nothing is escaped."""
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return _concat(_separated(str(d), value))


def _within(parts: Iterable[str]) -> Iterator[str]:
    chars = 0
    for part in parts:
        chars += len(part)
        _check_size(chars)
        yield part


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        # Jinja hands some filters its own state before the value.
        index = 1 if hasattr(function, "jinja_pass_arg") else 0
        _check_call(name, args[index], (*args[index + 1 :], *kwargs.values()))
        return function(*args, **kwargs)

    return guarded


def _check_call(name: str, value: Any, args: tuple[Any, ...]) -> None:
    if name in _WIDTHS:
        lines = value.count("\n") + 1 if isinstance(value, str) else 1
        _check_size(max((_number(arg) for arg in args), default=0) * max(lines, _WIDTHS[name]))
    elif name == "replace":
        text, old, new, *_ = map(str, (value, *args, "", ""))
        if (len(text) + 1) * max(len(new), 1) > MAX_CHARS:
            _check_size(len(text) + text.count(old) * len(new))
    elif isinstance(value, str):
        is_given = _GIVEN_WIDTH.search(value) if name == "%" else _has_given_width(value)
        if is_given or _WIDE.search(value):
            raise _too_costly("pads a text to millions of characters, or to a computed width")


def _has_given_width(text: str) -> bool:
    return any("{" in (spec or "") for _, _, spec, _ in Formatter().parse(text))


def _too_costly(what: str) -> jinja2.TemplateRuntimeError:
    return jinja2.TemplateRuntimeError(f"it {what}, which no conversation needs")


def _check_size(size: int, limit: int = MAX_CHARS) -> None:
    if size > limit:
        raise _too_costly("makes a text of tens of millions of characters")


def _check_time() -> None:
    ends_at_s = _ENDS_AT_S.get()
    if ends_at_s is not None and time.thread_time() > ends_at_s:
        raise _too_costly(f"takes more than {MAX_RENDER_S:.0f} s")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _number(value: Any) -> int:
    return abs(value) if isinstance(value, int) else 0
