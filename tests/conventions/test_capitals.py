"""Labels that the code gives to buttons, menus, tabs and titles are in Title Case."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.looks.capitals import wrong_words

ROOT = Path(__file__).parents[2]
# What makes or changes a button, an entry, a tab or a title, and the place of its label.
LABELS = {
    "QPushButton": 0,
    "BoxButton": 0,
    "addButton": 0,
    "addMenu": 0,
    "addTab": 1,
    "add_entry": 1,
    "ask_number": 1,
    "ask_text": 1,
    "choose_file": 1,
    "choose_files": 1,
    "choose_folder": 1,
    "choose_target": 1,
    "setWindowTitle": 0,
    "ChipButton": 2,
}


def literals(node: ast.expr, assigned: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the texts that an expression can be; a word of a value counts as a capital."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(next(literals(part, assigned), "X") for part in parts)
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="counted"), args=[_, noun])):
            yield from (f"2 {text}s" for text in literals(noun, assigned))
        case ast.IfExp(body=one, orelse=other):
            yield from literals(one, assigned)
            yield from literals(other, assigned)
        case ast.Name(id=name) if name in assigned:
            yield from literals(assigned.pop(name), assigned)


def labels(source: str) -> Iterator[tuple[int, str]]:
    """Yield the labels of a module with their lines."""
    nodes = list(ast.walk(ast.parse(source)))
    buttons = {
        last_name(target)
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if last_name(node.value.func) in ("QPushButton", "ChipButton")
        for target in node.targets
    } | {"accept_button"}
    for function in (node for node in nodes if isinstance(node, ast.FunctionDef)):
        inside = list(ast.walk(function))
        for node in inside:
            if isinstance(node, ast.Call):
                before = {
                    last_name(one.targets[0]): one.value
                    for one in inside
                    if isinstance(one, ast.Assign) and one.lineno < node.lineno
                }
                yield from labels_of_call(node, buttons, before)


def labels_of_call(
    node: ast.Call, buttons: set[str], before: dict[str, ast.expr]
) -> Iterator[tuple[int, str]]:
    """Yield the labels that a call gives.

    Args:
        node: The call.
        buttons: The names of the buttons of its module.
        before: The values that its function gave to variables before.
    """
    name = last_name(node.func)
    place = LABELS.get(name)
    if name in ("setText", "say") and isinstance(node.func, ast.Attribute):
        place = 0 if last_name(node.func.value) in buttons else None
    given = [] if place is None else node.args[place : place + 1]
    if name in ("ask", "tell", "report_failure"):
        given += [one.value for one in node.keywords if one.arg == "title"]
    for one in given:
        yield from ((node.lineno, text) for text in literals(one, dict(before)))


def last_name(node: ast.expr) -> str:
    """Return ``c`` of ``a.b.c``; empty for other expressions."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


@pytest.mark.parametrize("package", ["app", "ui"])
def test_every_label_in_the_code_is_in_title_case(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}: {', '.join(words)}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in labels(path.read_text())
        if (words := wrong_words(text))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("label", "wrong"),
    [
        ("Copy report", ["report"]),
        ("Copy Report", []),
        ("Allow In This Conversation", ["In"]),
        ("&Copy Lines for", ["for"]),
        ("\u2009Copy as curl", []),
        ("Import 3 Conversations…", []),
        ("Use the Run’s List", []),
        ("Make It “⏎⏎User:”", []),
    ],
)
def test_short_words_are_small_except_at_the_ends_of_a_label(label: str, wrong: list[str]) -> None:
    assert wrong_words(label) == wrong
