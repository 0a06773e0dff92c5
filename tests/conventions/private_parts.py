"""How a test says that a private part of a library has changed."""

from collections.abc import Callable
from importlib.metadata import version

from engine.inference import mlx_lm_internals, transformers_internals

ADAPTERS = {
    "mlx-lm": mlx_lm_internals,
    "transformers": transformers_internals,
}


def complaint(library: str, part: str, check: Callable[[], bool]) -> str | None:
    """Return what to say where a part of a library is not what its adapter takes it for."""
    try:
        if check():
            return None
        found = "it does something else"
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return (
        f"{library} {version(library)} has changed {part} ({found}). Look at its source, and "
        f"adapt {ADAPTERS[library].__name__}, which was checked with an earlier version."
    )


def expect(library: str, part: str, check: Callable[[], bool]) -> None:
    said = complaint(library, part, check)
    assert said is None, said
