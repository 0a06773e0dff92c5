"""Lets transformers refer to numpy's types without importing numpy, which takes 90 ms and 11 MB.

transformers imports numpy for annotations and to check whether a value is an array. The language
models of mlx-lm have no such values. Any thread.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

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
