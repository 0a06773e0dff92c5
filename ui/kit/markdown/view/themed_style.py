"""Makes the Markdown style of a theme. Main thread."""

from PySide6.QtGui import QFont

from ui.kit.look.theme import Theme, fixed_font
from ui.kit.markdown.writing.highlighting import DARK_CODE, LIGHT_CODE
from ui.kit.markdown.writing.markdown_style import MarkdownStyle


def markdown_style(theme: Theme, font: QFont) -> MarkdownStyle:
    """Return fonts and colors for rendered Markdown in the present theme."""
    colors = theme.colors
    return MarkdownStyle(
        font=font,
        fixed=fixed_font(font),
        text=colors.text,
        muted=colors.muted,
        link=colors.link,
        code_background=colors.code,
        line=colors.line,
        code=DARK_CODE if colors.is_dark else LIGHT_CODE,
    )
