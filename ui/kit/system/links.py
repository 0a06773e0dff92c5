"""Links that lead out of the program. Main thread."""

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from ui.kit.system.boxes import BoxButton, ask, tell

_OPENED = ("http", "https", "mailto")
_TITLE = "Open Link"


def ask_about_link(parent: QWidget, url: QUrl) -> None:
    """Ask before a link is opened, so that the person sees its address first."""
    if url.scheme() not in _OPENED:
        words = "This link is not a web address, so it was not opened."
        tell(parent, words, url.toString(), title=_TITLE)
        return
    ask(
        parent,
        "Open this link in your browser?",
        url.toString(),
        answers=[BoxButton("Open", lambda: QDesktopServices.openUrl(url))],
        title=_TITLE,
        prefers_cancel=True,
    )
