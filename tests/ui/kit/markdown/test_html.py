"""Bare tags that only format are shown as what they mean; all other HTML stays text."""

import base64

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRect, Qt, QUrl
from PySide6.QtGui import QColor, QFont, QImage, QTextBlock
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.ui.driving import eventually
from tests.ui.kit.markdown.views import shown, streamed
from ui.kit.flow_text import Highlight, link_targets
from ui.kit.markdown.view import MarkdownView
from ui.kit.theme import Theme

DETAILS = """before

<details>
<summary>More *here*</summary>

- one
- two

```python
hidden = 1
```

| a | b |
| - | - |
| 1 | 2 |

</details>

after
"""


def png(width: int, height: int, color: str = "#ff0000") -> str:
    """Return a picture as an address."""
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor(color))
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(content.data()).decode()


def blocks(view: MarkdownView) -> list[QTextBlock]:
    block, found = view.document().begin(), []
    while block.isValid():
        found.append(block)
        block = block.next()
    return found


def visible(view: MarkdownView) -> str:
    return "\n".join(block.text() for block in blocks(view))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a<br>b<br/>c<BR />d", "a\nb\nc\nd"),
        ("<kbd>Ctrl</kbd>+<kbd>C</kbd>", "Ctrl+C"),
        ("H<sub>2</sub>O, x<sup>2</sup>", "H2O, x2"),
        ("<b>a *b*</b> <i>c</i> <u>d</u> <mark>e</mark> <del>f</del>", "a b c d e f"),
        ("`<kbd>` and <kbd>open", "<kbd> and <kbd>open"),
        ("</kbd> <kbd>a</kbd></kbd>", "</kbd> a</kbd>"),
        ("<s>[INST]</s>", "<s>[INST]</s>"),
        ("<b onclick='x'>y</b>", "<b onclick='x'>y</b>"),
        ("<details open onclick=x>\nz", "<details open onclick=x>\nz"),
        ("a <details>x</details>", "a <details>x</details>"),
    ],
)
def test_bare_tags_with_an_end_are_shown_as_what_they_mean(
    theme: Theme, qapp: QApplication, text: str, wanted: str
) -> None:
    assert shown(theme, qapp, text).shown_text() == wanted
    assert streamed(theme, qapp, text, 1).shown_text() == wanted


def test_details_are_folded_and_opened_by_mouse_and_keyboard(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, DETAILS)
    folded, height = visible(view), view.height()
    assert "More here" in folded
    assert "one" not in folded
    assert "hidden" not in folded
    assert "after" in folded
    assert view.copy_buttons == ()
    view.anchorClicked.emit(QUrl("#fold-0"))
    assert "hidden = 1" in visible(view)
    assert view.height() > height * 2
    assert len(view.copy_buttons) == 1
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Tab)
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert visible(view) == folded
    assert view.height() == height
    assert view.link_targets() == []


def test_summary_is_text_with_icon(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, DETAILS)
    line = next(block for block in blocks(view) if "More" in block.text())
    fragments = line.begin()
    icon = fragments.fragment().charFormat()
    fragments += 1
    word = fragments.fragment().charFormat()
    assert icon.isImageFormat()
    assert icon.anchorHref() == word.anchorHref() == "#fold-0"
    assert word.fontWeight() == QFont.Weight.Normal
    assert view.shown_text().count("More here") == 1
    assert "\ufffc" not in view.shown_text()


def test_quote_is_dimmer_than_text_around_it(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "before\n\n> quoted\n> > deeper\n\nafter")
    inks = {
        block.text(): block.begin().fragment().charFormat().foreground().color().name()
        for block in blocks(view)
    }
    colors = theme.colors
    assert inks["before"] == inks["after"] == colors.text
    assert inks["quoted"] == inks["deeper"] == colors.muted


def test_open_details_are_shown_and_inner_ones_keep_their_own_state(
    theme: Theme, qapp: QApplication
) -> None:
    text = "<details open><summary>A</summary>\n\nx\n\n<details>\n\ny\n\n</details>\n\nz\n"
    view = streamed(theme, qapp, text, 3)
    assert [line for line in "xyz" if line in visible(view).split("\n")] == ["x", "z"]
    view.anchorClicked.emit(QUrl("#fold-0"))
    assert [line for line in "xyz" if line in visible(view).split("\n")] == []
    view.anchorClicked.emit(QUrl("#fold-0"))
    view.anchorClicked.emit(QUrl("#fold-1"))
    assert [line for line in "xyz" if line in visible(view).split("\n")] == ["x", "y", "z"]
    view.append_markdown("\n</details>\n\nend")
    view.finish()
    assert "y" in visible(view).split("\n")


def test_a_search_opens_what_is_folded_around_its_place(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, DETAILS)
    wanted = Highlight(("hidden",), current=0)
    assert view.highlight(wanted) is not None
    assert "hidden = 1" in visible(view)


def test_a_picture_in_the_text_is_shown_bounded_and_copied_by_its_name(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, f"a ![red]({png(3000, 40)}) ![dot]({png(8, 8)}) b", width=400)
    assert view.shown_text() == "a red dot b"
    sizes = [
        (form.width(), form.height())
        for block in blocks(view)
        for form in [one.format.toImageFormat() for one in block.textFormats()]
        if form.name()
    ]
    assert max(width for width, _ in sizes) <= 400
    assert min(width for width, _ in sizes) == 8
    drawn = view.grab().toImage()
    colors = {
        drawn.pixelColor(x, y).name() for x in range(0, 300, 3) for y in range(drawn.height())
    }
    assert "#ff0000" in colors
    view.resize(200, 300)
    assert all(
        form.format.toImageFormat().width() <= 200
        for block in blocks(view)
        for form in block.textFormats()
    )


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/a.png",
        "file:///etc/passwd",
        "a.png",
        "data:image/png;base64,AAAA",
        "data:image/png;base64,////",
        "data:image/svg+xml;base64,PHN2Zy8+",
        "data:text/html;base64,PHNjcmlwdD4=",
    ],
)
def test_no_other_picture_is_loaded_or_lost(
    theme: Theme, qapp: QApplication, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(MarkdownView, "loadResource", lambda self, *told: asked.append(told))
    view = shown(theme, qapp, f"![alt]({address})")
    view.grab()
    assert asked == []
    source = f"![alt]({address})"
    is_source = address.startswith(("data:text", "file:"))
    shown_address = "cannot be shown" if address.startswith("data:") else address
    card = f" Picture: alt · {shown_address} "
    if address.startswith("http:"):
        card = "alt\nexample.org/a.png\nLoad Picture"
    assert view.toPlainText().lstrip("\n") == (source if is_source else card)
    view.selectAll()
    assert view.createMimeDataFromSelection().text() == source


async def test_remote_picture_is_loaded_on_a_click(theme: Theme, qapp: QApplication) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path != "/cat.png":
            raise web.HTTPNotFound
        return web.Response(body=base64.b64decode(png(40, 20).partition(",")[2]))

    application = web.Application()
    application.router.add_get("/{name}", answer)
    async with TestServer(application) as site:
        address, missing = str(site.make_url("/cat.png")), str(site.make_url("/gone.png"))
        view = shown(theme, qapp, f"![cat]({address})\n\n![gone]({missing})")
        assert view.link_targets() == [address, missing]
        for link in link_targets(view.document()):
            view.anchorClicked.emit(QUrl(link))
        await eventually(lambda: "\ufffc" in view.toPlainText() and "not be" in view.toPlainText())
    assert view.toPlainText().endswith("Could not be loaded.  Load Picture")
    assert view.shown_text().split() == [f"![cat]({address})", f"![gone]({missing})"]


def test_bar_of_a_long_quote_is_painted_in_every_part(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "> " + "w " * 600 + f"\n\n{DETAILS}")
    whole, (quote, *_) = view.grab().toImage(), view.decorations
    for top in range(5, round(view.area(quote).height()) - 8, 5):
        part = QRect(0, top, 12, 3)
        assert view.grab(part).toImage() == whole.copy(part), top
