"""Links and pictures that lead out of the program. Main thread."""

from pathlib import Path

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


def ask_about_picture(parent: QWidget, name: str, path: Path) -> None:
    """Ask before another program opens a picture that came from elsewhere.

    Args:
        parent: The widget that the question belongs to.
        name: The picture's name where it came from.
        path: Its file.
    """
    title = "Open Picture"
    if path.is_symlink() or not path.is_file():
        tell(parent, "This picture is not on this computer.", name, title=title)
        return
    url = QUrl.fromLocalFile(str(path))
    ask(
        parent,
        "Open this picture in another program?",
        f"{name} was imported with this conversation.",
        answers=[BoxButton("Open", lambda: QDesktopServices.openUrl(url))],
        title=title,
        prefers_cancel=True,
    )
