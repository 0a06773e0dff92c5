"""The docstring of a public function with three or more parameters says what each of them is."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from tests.conventions.test_names import PACKAGES, ROOT

_MANY = 3


def public_functions(source: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the public functions and methods of a module, by their qualified names."""

    def walk(holder: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for node in ast.iter_child_nodes(holder):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if not node.name.startswith("_"):
                    yield prefix + node.name, node
                    if isinstance(node, ast.ClassDef):
                        yield from walk(node, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try):
                yield from walk(node, prefix)

    for name, node in walk(ast.parse(source), ""):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names of a function's parameters, the object or class itself left out."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    names = [one.arg for one in every if one is not None]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def unexplained(source: str) -> dict[str, list[str]]:
    """Return the public functions that explain too little: their parameters without a word."""
    found = {}
    for name, function in public_functions(source):
        doc = ast.get_docstring(function) or ""
        _, _, explained = doc.partition("Args:\n")
        lines = {line.strip().partition(":")[0] for line in explained.splitlines()}
        missing = [one for one in parameters(function) if one not in lines]
        if len(parameters(function)) >= _MANY and missing:
            found[name] = missing
    return found


def is_qt_override(module: str, name: str) -> bool:
    """Return whether Qt documents a method: a class of Qt that its own one extends has it."""
    holder, _, method = name.rpartition(".")
    found = importlib.import_module(module)
    for part in filter(None, holder.split(".")):
        found = getattr(found, part)
    return inspect.isclass(found) and any(
        base.__module__.startswith("PySide6.") and hasattr(base, method) for base in found.__mro__
    )


def test_a_function_with_three_or_more_parameters_explains_each_of_them() -> None:
    found = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        place = path.relative_to(ROOT)
        for name, missing in unexplained(path.read_text(encoding="utf-8")).items():
            if not (place.parts[0] == "ui" and is_qt_override(module_of(place), name)):
                found[f"{place}: {name}"] = missing
    assert not found, f"say below Args what these parameters are: {found}"


def module_of(place: Path) -> str:
    """Return the name under which a file is imported."""
    return ".".join(place.with_suffix("").parts)


def test_functions_whose_docstrings_say_too_little_are_found() -> None:
    source = '''
def few(a, b):
    """Do it."""
def plain(a, b, c):
    """Do it."""
class Holder:
    async def method(self, a, *b, **c):
        """Do it.

        Args:
            a: One.
            b: Another.
        """
    def explained(self, a, b, *, c=1):
        """Do it.

        Args:
            a: One.
            b: Another.
            c: A third.
        """
    def _own(self, a, b, c): ...
class _Hidden:
    def method(self, a, b, c): ...
'''
    assert unexplained(source) == {"plain": ["a", "b", "c"], "Holder.method": ["c"]}


def test_only_what_qt_names_counts_as_an_override_of_qt() -> None:
    assert is_qt_override("ui.stops.stop_delegate", "StopDelegate.paint")
    assert not is_qt_override("ui.kit.markdown.writing.decorations", "Decorations.paint")
