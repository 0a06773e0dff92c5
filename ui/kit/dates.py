"""Days and times as the system's settings for language and region write them. Any thread."""

import os
import sys

from PySide6.QtCore import QDate, QDateTime, QLocale


def use_iso_dates_without_region() -> None:
    """Let Qt write ``2023-11-04`` where the system has no region: it would write ``4 11 2023``.

    Qt reads the environment once, when the system's locale is first used.
    """
    names = ("LC_ALL", "LC_TIME", "LANG")
    region = next(filter(None, map(os.environ.get, names)), "C").partition(".")[0]
    if sys.platform != "darwin" and region in ("C", "POSIX"):
        before = os.environ.pop("LC_ALL", None), os.environ.get("LC_TIME")
        os.environ["LC_TIME"] = "en_SE"
        QLocale.system()
        for name, value in zip(names, before, strict=False):
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def format_day(unix_s: float) -> str:
    """Return the day of a Unix time as the system writes dates: ``04.11.23``."""
    moment = QDateTime.fromSecsSinceEpoch(int(unix_s))
    return QLocale().toString(moment.date(), QLocale.FormatType.ShortFormat)


def format_day_briefly(unix_s: float) -> str:
    """Return a day in a narrow place: ``Yesterday``, ``12 Nov``, ``12 Nov 2023``."""
    day, today = QDateTime.fromSecsSinceEpoch(int(unix_s)).date(), QDate.currentDate()
    if day == today.addDays(-1):
        return "Yesterday"
    locale = QLocale()
    is_month_first = locale.dateFormat(QLocale.FormatType.ShortFormat).startswith("M")
    form, year = ("MMM d", ", yyyy") if is_month_first else ("d MMM", " yyyy")
    return locale.toString(day, form if day.year() == today.year() else form + year)


def format_time(unix_s: float, *, has_seconds: bool = False) -> str:
    """Return the time of day of a Unix time as the system writes times: ``15:07``, ``3:07 PM``."""
    locale = QLocale()
    form = locale.timeFormat(QLocale.FormatType.ShortFormat)
    if has_seconds and "s" not in form:
        form = form.replace("mm", "mm:ss")
    return locale.toString(QDateTime.fromSecsSinceEpoch(int(unix_s)).time(), form)
