"""Prepares a model card for the preview: converts or removes HTML, and shortens the text. Pure.

Cards are Markdown with HTML, as https://huggingface.co/docs/hub/model-cards describes them. The
window's Markdown view shows HTML tags as text: that is right for an answer, but unreadable here.
"""

import re
from html import unescape

_CODE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`++)[^\n]*?(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_UNSHOWN = re.compile(r"<(script|style|svg|video|iframe)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.I)
_IMAGE = re.compile(r"<img\b[^<>]*>", re.I)
_ALT = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.I)
_MARKDOWN_IMAGE = re.compile(r"!\[([^\[\]\n]*)\]\([^()\s]*(?:\s+\"[^\"\n]*\")?\)")
_LINK = re.compile(
    r"""<a\b[^<>]*?\bhref\s*=\s*["']([^"'<>\s]*)["'][^<>]*>(.*?)</a\s*>""", re.DOTALL | re.I
)
_HEADING = re.compile(r"<h([1-6])\b[^<>]*>(.*?)</h\1\s*>", re.DOTALL | re.I)
_BOLD = re.compile(r"<(b|strong)\b[^<>]*>(.*?)</\1\s*>", re.DOTALL | re.I)
_BREAK = re.compile(r"<br\s*/?>|</(?:p|div|tr|li|ul|ol|table|details|summary)\s*>", re.I)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>]*)?/?>")
_EMPTY_LINK = re.compile(r"(?<!!)\[\s*\]\([^()\s]*\)")
_INDENT = re.compile(r"^[ \t]{4,}(?=[^\s*+0-9-])", re.MULTILINE)
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
# Lines that begin a block of their own: they do not continue the paragraph before.
_BLOCK = re.compile(r"\s*(?:[#>|<]|[-*+](?:\s|$)|\d+[.)]\s|={2,}|-{2,}|\*{3,}|_{3,}|\[[^\]]*\]:)")
_CLOSED = re.compile(r"\s*(?:[#>|<]|={2,}|-{2,}|\*{3,}|_{3,}|\[[^\]]*\]:)|.*(?:\s\s|\\)$")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")


def card_text(card: str, most_chars: int) -> tuple[str, bool]:
    """Return the Markdown of a card for the preview, and whether it was cut."""
    card = card.replace("\r\n", "\n")
    is_cut = len(card) > most_chars
    card = card[:most_chars].rpartition("\n")[0] or card[:most_chars] if is_cut else card
    parts: list[str] = []
    end = 0
    for code in _CODE.finditer(card):
        parts += [_without_html(card[end : code.start()]), code[0]]
        end = code.end()
    parts.append(_without_html(card[end:]))
    return _BLANK_LINES.sub("\n\n", _unwrapped("".join(parts))).strip(), is_cut


def _unwrapped(text: str) -> str:
    """Join the lines of a paragraph: the window shows each line break, as chats do."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        marks = _FENCE.match(line)
        before = lines[-1] if lines else ""
        goes_on = not (fence or marks or _BLOCK.match(line)) and bool(line.strip())
        is_open = bool(before.strip()) and not (_CLOSED.match(before) or _FENCE.match(before))
        if goes_on and is_open:
            lines[-1] = f"{before} {line.strip()}"
        else:
            lines.append(line)
        if marks and not fence:
            fence = marks[1][:3]
        elif marks and marks[1].startswith(fence):
            fence = ""
    return "\n".join(lines)


def _without_html(text: str) -> str:
    text = _MARKDOWN_IMAGE.sub(lambda image: image[1], text)
    if "<" in text:
        had_html = _TAG.search(text) is not None
        text = _UNSHOWN.sub("", _COMMENT.sub("", text))
        text = _IMAGE.sub(_alternative, text)
        text = _HEADING.sub(lambda h: f"\n\n{'#' * int(h[1])} {_one_line(h[2])}\n\n", text)
        text = _BOLD.sub(lambda bold: f"**{_one_line(bold[2])}**" if bold[2].strip() else "", text)
        text = _LINK.sub(lambda link: f"[{_one_line(link[2])}]({link[1]})", text)
        text = _TAG.sub("", _BREAK.sub("\n\n", text))
        if had_html:
            # Without the tags around it, indented text would become code.
            text = _INDENT.sub("", text)
    return _EMPTY_LINK.sub("", unescape(text))


def _alternative(image: re.Match[str]) -> str:
    said = _ALT.search(image[0])
    return (said[1] or said[2] or "") if said else ""


def _one_line(text: str) -> str:
    return " ".join(_TAG.sub("", text).split())
