"""The only module that uses parts of huggingface_hub that are not its public interface.

Each is a workaround, checked with huggingface-hub 2.4.0, whose source is at
https://github.com/huggingface/huggingface_hub/tree/v2.4.0/src/huggingface_hub.
``tests/conventions/test_private_parts.py`` fails, and names the part, when one changes.
huggingface_hub is imported when it is first used, because that takes half a second. Any thread.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

# Parts of the hub's client that other libraries import at their top and a local model never uses.
_CLASSES_USED_LATER = ("HfApi", "ModelCard", "ModelCardData")
_FUNCTIONS_USED_LATER = ("snapshot_download",)


def request_headers() -> dict[str, str]:
    """Return the headers of a request to the hub, with the person's token if there is one.

    Upstream: ``build_hf_headers`` in ``utils/_headers.py``.
    """
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    headers: dict[str, str] = build_hf_headers()
    return headers


def keep_content(response: Any, content: bytes) -> None:
    """Put the content that was read, with a limit, into a response, so that its error can be found.

    The hub's library calls ``read`` for the text of an error, and ``read`` has no limit.
    Upstream: ``_content``, which ``httpx.Response.read`` sets in ``httpx/_models.py``.
    """
    response._content = content  # noqa: SLF001


@contextlib.contextmanager
def client_imported_later() -> Iterator[None]:
    """Keep libraries that are imported in the block from importing the hub's whole client.

    mlx-lm and transformers import parts of it at their top. In the block these are placeholders,
    which import the real parts when they are used. Does nothing for parts that are imported
    already.
    Upstream: ``__getattr__`` in ``__init__.py``, which imports a name when it is asked for.
    """
    import huggingface_hub

    standing_in = {
        **{name: _class_used_later(name) for name in _CLASSES_USED_LATER},
        **{name: _function_used_later(name) for name in _FUNCTIONS_USED_LATER},
    }
    put = {name: part for name, part in standing_in.items() if name not in vars(huggingface_hub)}
    vars(huggingface_hub).update(put)
    try:
        yield
    finally:
        for name, part in put.items():
            if vars(huggingface_hub).get(name) is part:
                delattr(huggingface_hub, name)


class _UsedLater(type):
    """The type of placeholders for classes of the hub's client."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return _part(cls.__name__)(*args, **options)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_part(cls.__name__), name)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _part(cls.__name__))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _part(cls.__name__))


def _class_used_later(name: str) -> type[Any]:
    """Return a placeholder for a class of the hub's client.

    Upstream: ``__getattr__`` in ``__init__.py``.
    """
    return _UsedLater(name, (), {"__doc__": f"Stands for ``huggingface_hub.{name}``."})


def _function_used_later(name: str) -> Callable[..., Any]:
    """Return a placeholder for a function of the hub's client.

    Upstream: ``__getattr__`` in ``__init__.py``.
    """

    def call(*args: Any, **options: Any) -> Any:
        return _part(name)(*args, **options)

    return call


def _part(name: str) -> Any:
    """Import and return a part of the hub's client.

    Upstream: ``__getattr__`` in ``__init__.py``.
    """
    import huggingface_hub

    return getattr(huggingface_hub, name)
