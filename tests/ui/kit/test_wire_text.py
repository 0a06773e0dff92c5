"""The colors of requests and answers."""

from PySide6.QtGui import QTextDocument

from ui.kit.colors import ThemeMode
from ui.kit.theme import Theme
from ui.kit.wire_text import WireHighlighter


def colors_of(document: QTextDocument, line: int) -> dict[str, str]:
    """Return the color of each colored part of a line."""
    block = document.findBlockByNumber(line)
    return {
        block.text()[part.start : part.start + part.length]: part.format.foreground().color().name()
        for part in block.layout().formats()
    }


def test_wire_text_colors_headers_keys_and_values(theme: Theme) -> None:
    mode: ThemeMode
    document = QTextDocument()
    highlighter = WireHighlighter(document)
    document.documentLayout()  # without it, Qt colors nothing when the text changes
    document.setPlainText('Host: a\ndata: {"n": -1.5, "ok": true, "x": "say \\"hi\\": 3"}')
    for mode in ("light", "dark"):
        theme.set_mode(mode)
        colors = theme.colors
        assert colors_of(document, 0) == {"Host": colors.muted}
        assert colors_of(document, 1) == {
            "data": colors.muted,
            '"n"': colors.tool,
            "-1.5": colors.limit,
            '"ok"': colors.tool,
            "true": colors.match,
            '"x"': colors.tool,
            '"say \\"hi\\": 3"': colors.done,
        }
    document.setPlainText('{"n": "is cut…')
    assert colors_of(document, 0) == {'"n"': theme.colors.tool, '"is cut…': theme.colors.done}
    document.setPlainText("Host: a\n" * 10_000)
    assert colors_of(document, 0) == {}
    assert highlighter.document() is document
