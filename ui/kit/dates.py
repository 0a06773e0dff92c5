"""Days and times as the system's settings for language and region write them. Any thread."""

from PySide6.QtCore import QDateTime, QLocale, Qt


def format_day(unix_s: float) -> str:
    """Return the day of a Unix time as the system writes dates: ``04.11.23``."""
    moment = QDateTime.fromSecsSinceEpoch(int(unix_s))
    locale = QLocale()
    if locale.language() == QLocale.Language.C:  # no region is set: Qt would write "4 11 2023"
        return moment.date().toString(Qt.DateFormat.ISODate)
    return locale.toString(moment.date(), QLocale.FormatType.ShortFormat)


def format_time(unix_s: float, *, has_seconds: bool = False) -> str:
    """Return the time of day of a Unix time as the system writes times: ``15:07``, ``3:07 PM``."""
    locale = QLocale()
    form = locale.timeFormat(QLocale.FormatType.ShortFormat)
    if has_seconds and "s" not in form:
        form = form.replace("mm", "mm:ss")
    return locale.toString(QDateTime.fromSecsSinceEpoch(int(unix_s)).time(), form)
