"""Imports mlx-lm, and with it transformers, without their side effects and in half the time."""

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from engine.inference.mlx_lm_internals import limit_of_open_files_kept
from engine.inference.transformers_internals import names_of_models_read_later
from engine.library.hub_internals import client_imported_later
from engine.processes.collector import collector_paused

# Lets transformers refer to numpy's types without importing numpy, which takes 90 ms and 11 MB.
#
# transformers imports numpy for annotations and to check whether a value is an array. The
# language models of mlx-lm have no such values.

_NAME = "numpy"
_TYPES = ("ndarray", "number", "generic")


@contextlib.contextmanager
def numpy_imported_later() -> Iterator[None]:
    """Make ``import numpy`` return a placeholder module inside the block.

    The placeholder has some types; for everything else it imports numpy. Does nothing if numpy is
    imported already.
    """
    stands_in = _StandsIn(_NAME)
    is_new = sys.modules.setdefault(_NAME, stands_in) is stands_in
    try:
        yield
    finally:
        if is_new and sys.modules.get(_NAME) is stands_in:
            del sys.modules[_NAME]


class _StandsIn(ModuleType):
    """A placeholder module that imports numpy as soon as more than its types is needed."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "Stands for numpy until it is used.")
        for type_name in _TYPES:
            setattr(self, type_name, _TypeOfNumpy(type_name, (), {}))

    def __getattr__(self, name: str) -> Any:
        # Also called for __path__, when a module inside numpy is imported.
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        real = importlib.import_module(_NAME)
        vars(self).update({name: getattr(real, name) for name in _TYPES})
        return getattr(real, name)


class _TypeOfNumpy(type):
    """The type of placeholders for numpy's types; without numpy, no value is an instance."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(_NAME), cls.__name__)(*args, **options)

    def __instancecheck__(cls, instance: object) -> bool:
        real = _numpy()
        return real is not None and isinstance(instance, getattr(real, cls.__name__))

    def __subclasscheck__(cls, subclass: type) -> bool:
        real = _numpy()
        return real is not None and issubclass(subclass, getattr(real, cls.__name__))


def _numpy() -> ModuleType | None:
    """Return numpy if somebody has imported it."""
    found = sys.modules.get(_NAME)
    return None if isinstance(found, _StandsIn) else found


# Imports mlx-lm, and with it transformers, without their side effects and in half the time.
#
# No MLX until the block of ``importing_mlx_lm`` imports it.

_ONE_AT_A_TIME = threading.Lock()


@contextlib.contextmanager
def importing_mlx_lm() -> Iterator[None]:
    """Wrap imports of modules that import mlx-lm; costs nothing if they are imported already."""
    with (
        _ONE_AT_A_TIME,
        collector_paused(),
        limit_of_open_files_kept(),
        names_of_models_read_later(),
        client_imported_later(),
        numpy_imported_later(),
    ):
        yield
