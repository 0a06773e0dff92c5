"""Lets Qt's own tester watch every item model that a test makes: a broken rule fails the test."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

from PySide6.QtCore import QAbstractItemModel
from PySide6.QtTest import QAbstractItemModelTester

import ui


@functools.cache
def model_classes() -> tuple[type[QAbstractItemModel], ...]:
    """Return every item model that the window's packages define."""
    for module in pkgutil.walk_packages(ui.__path__, "ui."):
        importlib.import_module(module.name)

    def below(kind: type) -> Iterator[type]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    found = {kind for kind in below(QAbstractItemModel) if kind.__module__.startswith("ui.")}
    return tuple(sorted(found, key=lambda kind: kind.__qualname__))


def watched(init: Callable[..., None]) -> Callable[..., None]:
    """Return an ``__init__`` that attaches a tester at its end, which warns of each broken rule."""

    @functools.wraps(init)
    def begin(model: QAbstractItemModel, *args: Any, **kwargs: Any) -> None:
        init(model, *args, **kwargs)
        mode = QAbstractItemModelTester.FailureReportingMode.Warning
        QAbstractItemModelTester(model, mode, model)

    return begin
