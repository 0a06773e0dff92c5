"""Every room, thread and helper process as the code has them, for the architecture page."""

import ast
from collections.abc import Iterator

from tests.support.sources import modules

# What begins a thread, by the name of the class; each is given the thread's name.
_THREADS = {"Thread", "ThreadPoolExecutor", "SerialThread"}
_PROCESS = 'if __name__ == "__main__":'


def folders() -> Iterator[tuple[str, str]]:
    """Every package, and the first sentence that it says of itself."""
    for path, text in modules():
        folder, _, name = path.rpartition("/")
        if name == "__init__.py" and "/" in folder:
            yield f"`{folder}`", _subject(ast.parse(text))


def threads() -> Iterator[tuple[str, str, str]]:
    """Every thread and executor: its name, the module that begins it, and what that is for."""
    for path, text in modules(holding="Thread"):
        tree = ast.parse(text)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and _called(call) in _THREADS:
                yield f"`{_name(call)}`", f"`{path}`", _subject(_owner(tree, call))


def helper_processes() -> Iterator[tuple[str, str]]:
    """Every module that a helper process runs, and what it does."""
    for path, text in modules(holding=_PROCESS):
        if path.rpartition("/")[0] != "app":
            yield f"`{path}`", _subject(ast.parse(text))


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _name(call: ast.Call) -> str:
    """Return the name that a thread is given; a name made while it runs has "…" for that part."""
    named = [word.value for word in call.keywords if word.arg in ("name", "thread_name_prefix")]
    for value in (*named, *call.args):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
        if isinstance(value, ast.JoinedStr):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in value.values
            )
    return "unnamed"


def _owner(tree: ast.Module, call: ast.Call) -> ast.Module | ast.ClassDef | ast.FunctionDef:
    """Return the class or the function of a module that holds a call; the module without words."""
    for node in tree.body:
        is_described = isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        if is_described and node.lineno <= call.lineno <= (node.end_lineno or 0):
            return node
    return tree


def _subject(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    first = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    return first.partition(". ")[0].rstrip(".").replace("|", "\\|")
