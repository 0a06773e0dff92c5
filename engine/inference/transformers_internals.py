"""The only module that uses private parts of transformers. Each is a workaround.

Checked with transformers 5.23.0, whose source is at
https://github.com/huggingface/transformers/tree/v5.23.0.
``tests/conventions/test_private_parts.py`` fails, and names the part, when one changes.
Importing this module does not import transformers. Any thread.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_PATCHED = "transformers.utils.import_utils"
# The folder whose names are read at once; it contains AutoTokenizer.
_AUTO = "auto"


@contextlib.contextmanager
def names_of_models_read_later() -> Iterator[None]:
    """Keep transformers from reading the source of every model that it knows at its import.

    It reads some 3,000 files twice, to learn the names that each defines, although a program with a
    language model of mlx-lm needs hardly any of them. This takes half of the import's time. Here
    transformers reads the files when a name is needed that is not known yet. Does nothing if
    transformers is imported already, or has changed.
    Upstream: ``define_import_structure`` and ``_LazyModule`` in ``utils/import_utils.py``, called
    by ``__init__.py`` and ``models/__init__.py``.
    """
    finder = _Patching()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Patching(MetaPathFinder):
    """Finds one module as usual, and patches it as soon as it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == _PATCHED else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            execute(module)
            _patch(module)

        # If the loader cannot be changed, the module is imported without the patch.
        with contextlib.suppress(AttributeError):
            spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec


class _NamesSoFar(dict[Any, Any]):
    """An import structure that lacks the names of most models."""

    arguments: tuple[Any, ...] = ()


def _patch(utils: Any) -> None:
    """Let the lazy modules of transformers begin with a few names.

    Upstream: ``define_import_structure`` and ``_LazyModule`` in ``utils/import_utils.py``.
    """
    if not _is_as_expected(utils):
        return
    define, lazy_module = utils.define_import_structure, utils._LazyModule

    def define_some(module_path: Any, prefix: str | None = None) -> Any:
        path = Path(module_path)
        folder = path.parent if path.is_file() else path
        if folder.name != "models" or not (folder / _AUTO).is_dir():
            return define(module_path, prefix)
        begin = _AUTO if prefix is None else f"{prefix}.{_AUTO}"
        defined = define(str(folder / _AUTO), begin)
        known = _NamesSoFar({backends: dict(names) for backends, names in defined.items()})
        known.setdefault(frozenset(), {})
        known.arguments = (module_path, prefix)
        return known

    class LazyModule(lazy_module):  # type: ignore[misc, valid-type]
        """Reads the missing names when one of them is needed."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._made_of: tuple[Any, Any] | None = None
            given = (*args, *options.values())
            super().__init__(*args, **options)
            if any(isinstance(argument, _NamesSoFar) for argument in given):
                self._made_of = (args, options)
                del self.__all__  # looking it up reads the names

        def __getattr__(self, name: str) -> Any:
            if self._made_of is not None and not self._knows(name):
                self._read_names(*self._made_of)
                return getattr(self, name)
            return super().__getattr__(name)

        def _knows(self, name: str) -> bool:
            if name.startswith("__"):
                return name != "__all__"
            return any(
                name in names
                for names in (
                    self._objects,
                    self._class_to_module,
                    self._modules,
                    self._object_missing_backend,
                )
            )

        def _read_names(self, args: Any, options: Any) -> None:
            whole = lazy_module(
                *(_whole(define, argument) for argument in args),
                **{key: _whole(define, value) for key, value in options.items()},
            )
            # At once, because other threads may ask for other names.
            self.__dict__.update(vars(whole) | {"_made_of": None})

    utils.define_import_structure = define_some
    utils._LazyModule = LazyModule


def _whole(define: Any, given: Any) -> Any:
    """Return an import structure with its missing names added; any other value unchanged.

    Upstream: ``define_import_structure`` in ``utils/import_utils.py``.
    """
    if not isinstance(given, _NamesSoFar):
        return given
    whole = {backends: dict(names) for backends, names in define(*given.arguments).items()}
    for backends, names in given.items():
        whole.setdefault(backends, {}).update(names)
    return whole


def bound_templates() -> None:
    """Let transformers compile chat templates in an environment with bounds.

    Upstream: ``_cached_compile_jinja_template`` in ``utils/chat_template_utils.py``.
    """
    from engine.conversation.bounded_jinja import BoundedEnvironment

    utils: Any = import_module("transformers.utils.chat_template_utils")
    utils.ImmutableSandboxedEnvironment = BoundedEnvironment


def _is_as_expected(utils: Any) -> bool:
    """Whether the lazy modules of transformers work as ``_patch`` assumes.

    Upstream: ``_LazyModule`` in ``utils/import_utils.py``.
    """
    try:
        made = utils._LazyModule("made", __file__, {frozenset(): {"one": {"Two"}}})
        return (
            callable(utils.define_import_structure)
            and made._class_to_module == {"Two": "one"}
            and made._modules == {"one"}
            and not made._objects
            and not made._object_missing_backend
            and {*made.__all__} == {"one", "Two"}
        )
    except Exception:
        return False
