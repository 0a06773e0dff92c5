"""Lists, tasks, links and footnotes look as they do on GitHub."""

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtWidgets import QApplication, QScrollArea

from tests.ui.kit.markdown.views import shown, streamed
from ui.kit.markdown.style import markdown_style
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import Theme


def lines(view: MarkdownView) -> list[str]:
    return [line.replace("\t", " ") for line in view.shown_text().split("\n")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3. a\n3. b\n9. c", ["3. a", "4. b", "5. c"]),
        ("0. a\n1. b", ["0. a", "1. b"]),
        ("- a\n  - b\n    - c\n      - d", ["• a", "  • b", "    • c", "      • d"]),
        ("1. a\n   1. b\n   2. c\n      1. d", ["1. a", "  1. b", "  2. c", "    1. d"]),
        ("- a\n\n  4. b", ["• a", "  4. b"]),
        ("- [x] a\n- [ ] b\n- [X] c\n- [y] d", ["[x] a", "[ ] b", "[x] c", "• [y] d"]),
        ("1. [ ] a", ["[ ] a"]),
        ("- [ ](http://a.b)", ["•  "]),
        ("- a\n\n      code", ["• a", "code"]),
    ],
)
def test_lists_have_the_marks_that_github_gives_them(
    theme: Theme, qapp: QApplication, text: str, wanted: list[str]
) -> None:
    at_once, live = shown(theme, qapp, text), streamed(theme, qapp, text, 1)
    assert lines(at_once) == lines(live)
    if "http" not in text:
        assert lines(at_once) == wanted


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("see https://a.bc/d_(e)?f=1.", ["https://a.bc/d_(e)?f=1"]),
        ("(http://a.bc/d)", ["http://a.bc/d"]),
        ("www.a.bc/x, and", ["http://www.a.bc/x"]),
        ("me.too@a-b.cd!", ["mailto:me.too@a-b.cd"]),
        ("**https://a.bc**", ["https://a.bc"]),
        ("| https://a.bc |\n|-|\n| www.d.ef |", ["https://a.bc", "http://www.d.ef"]),
        ("`https://a.bc` and a.bc and ftp://a.bc", []),
        ("[https://a.bc](https://d.ef)", ["https://d.ef"]),
        ("https://a.bc/%20x", ["https://a.bc/%20x"]),
    ],
)
def test_bare_links_are_links(
    theme: Theme, qapp: QApplication, text: str, targets: list[str]
) -> None:
    view = shown(theme, qapp, text)
    assert view.link_targets() == targets
    assert "%20" in view.toPlainText() or "%20" not in text


def test_footnotes_are_numbered_and_linked_both_ways(theme: Theme, qapp: QApplication) -> None:
    text = "One[^1] two[^2] again[^1] none[^c].\n\n[^2]: Note b.\n[^1]: Note a.\n"
    view = shown(theme, qapp, text)
    assert lines(view) == [
        "One1 two2 again1 none[^c].",
        "",
        "2. Note b.\u00a0↩",
        "1. Note a.\u00a0↩",
    ]
    assert view.link_targets()[:3] == ["#note-1", "#note-2", "#note-1"]
    live = streamed(theme, qapp, text, 1)
    assert live.document().toHtml() == view.document().toHtml()


def test_a_footnote_link_scrolls_to_its_note_and_leads_nowhere_else(
    theme: Theme, qapp: QApplication
) -> None:
    area = QScrollArea()
    view = MarkdownView(markdown_style())
    area.setWidgetResizable(True)
    area.setWidget(view)
    area.resize(400, 200)
    area.show()
    view.set_markdown("A[^1]\n\n" + "text\n\n" * 60 + "[^1]: The note.\n")
    qapp.processEvents()
    chosen: list[QUrl] = []
    view.link_chosen.connect(chosen.append)
    view.anchorClicked.emit(QUrl(view.link_targets()[0]))
    assert area.verticalScrollBar().value() > 500
    view.anchorClicked.emit(QUrl(view.link_targets()[-1]))
    assert area.verticalScrollBar().value() < 200
    assert chosen == []
    view.anchorClicked.emit(QUrl("https://a.bc"))
    assert chosen == [QUrl("https://a.bc")]
