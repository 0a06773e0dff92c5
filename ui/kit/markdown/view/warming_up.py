"""Imports the libraries for formulas and code as soon as a growing text seems to need them.

Called on the main thread. The imports run on a thread of their own while the model is still writing
the formula or the code. They also take memory, so text without formulas and code imports nothing.
"""

import logging
import threading
from functools import cache
from importlib import import_module

_log = logging.getLogger(__name__)


def warm_up(text: str) -> None:
    """Start the imports that a piece of text will need; each one is started only once."""
    if "`" in text:
        _begin("pygments.lexers.python")
    if "$" in text or "\\" in text:
        _begin("ziamath")


@cache
def _begin(module: str) -> None:
    threading.Thread(target=_import, args=(module,), name="fullstop-warm-up").start()


def _import(module: str) -> None:
    try:
        import_module(module)
    except Exception as error:  # the code that needs it imports it again, and reports the error
        _log.debug("%s cannot be imported: %s", module, error)
