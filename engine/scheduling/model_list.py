"""The models that requests may name: how a name is looked up, and what each model is doing.

A name is looked up and never used as a path: a request can reach only models that were offered. Any
thread.
"""

import difflib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from engine.errors import UnknownModel
from engine.inference.backend import LoadProgress
from engine.library.adapters import adapted_name
from engine.library.local_models import FoundModel
from engine.library.model_info import ModelInfo

if TYPE_CHECKING:
    from engine.inference.cache.index import MemoryUsage

_TAG = ":latest"


def untagged(name: str) -> str:
    """Return a model's name without Ollama's tag for the latest version."""
    return name[: -len(_TAG)] if name.lower().endswith(_TAG) else name


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that requests may name by its ``id`` or an alias; it is loaded when one does.

    ``found`` has its figures from the folder, if they were read; ``user_template`` replaces the
    chat template of the model. With a ``base``, the folder is that of an adapter.
    """

    id: str
    folder: Path
    aliases: tuple[str, ...] = ()
    draft: Path | None = None
    is_pinned: bool = False
    found: FoundModel | None = None
    user_template: str | None = None
    base: Path | None = None

    @property
    def last_part(self) -> str:
        return self.id.rpartition("/")[2]


class Offering:
    """The offered models, found by their names; of models with the same id, the first."""

    def __init__(self, models: Iterable[OfferedModel] = ()) -> None:
        self._by_id: dict[str, OfferedModel] = {}
        for model in models:
            self._by_id.setdefault(model.id, model)
        self._by_alias = {
            alias: model for model in reversed(self.models) for alias in model.aliases
        }

    @property
    def models(self) -> Sequence[OfferedModel]:
        return tuple(self._by_id.values())

    def find(self, name: str) -> OfferedModel:
        """Return the model that a name means: by its id, an alias, or its id without the owner.

        Each is compared exactly, then without regard to upper and lower case, and without the tag
        ``:latest``, which Ollama's clients add.

        Raises:
            UnknownModel: No model has that name, or several have; the error has the nearest names.
        """
        exact = self._by_id.get(name) or self._by_alias.get(name)
        if exact is not None:
            return exact
        plain = untagged(name)
        same = [model for model in self.models if model.last_part in (name, plain)]
        if not same:
            lower = plain.lower()
            same = [
                model
                for model in self.models
                if lower in map(str.lower, (model.id, model.last_part, *model.aliases))
            ]
        if len(same) == 1:
            return same[0]
        if same:
            raise UnknownModel(name, [model.id for model in same], is_ambiguous=True)
        raise UnknownModel(name, self._nearest(name))

    def of_folder(self, folder: Path) -> OfferedModel | None:
        resolved = folder.resolve()
        same = (model for model in self.models if model.folder == folder)
        return next(same, None) or next(
            (model for model in self.models if model.folder.resolve() == resolved), None
        )

    def _nearest(self, name: str) -> list[str]:
        names = {
            text.lower(): model.id
            for model in reversed(self.models)
            for text in (model.id, model.last_part, *model.aliases)
        }
        lower = name.lower()
        near = [
            *(text for text in names if lower and lower in text),
            *difflib.get_close_matches(lower, names, cutoff=0.5),
        ]
        return list(dict.fromkeys(names[text] for text in near))[:3]


ModelState = Literal["unloaded", "loading", "ready", "failed"]
"""``unloaded`` and ``failed``: loaded when next needed; ``failed`` if the last load failed."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """The status of one model, or of the engine: that is its default model's.

    Attributes:
        message: Why loading failed or waits, or the name of the model being loaded; else empty.
        info: Its figures from loading; None until it was loaded once.
        memory_bytes: Of its weights and caches, as of the last change of the other figures.
        shared_bytes: The part of its weights in ``memory_bytes`` of another model.
        cache_use: Each owner's share of the prompt cache.
        used_at: When it was last used, in Unix seconds; ``unloads_at`` in the same.
        is_stuck: Whether it hung, because of ``message``; it answers no request until it is
            restarted or its thread returns.
    """

    id: str = ""
    folder: Path = Path()
    state: ModelState = "unloaded"
    message: str = ""
    loading: LoadProgress | None = None
    info: ModelInfo | None = None
    offered: OfferedModel | None = None
    memory_bytes: int = 0
    shared_bytes: int = 0
    cache_use: "Mapping[str, MemoryUsage]" = field(default_factory=dict)
    running: int = 0
    waiting: int = 0
    used_at: float | None = None
    unloads_at: float | None = None
    is_pinned: bool = False
    is_default: bool = False
    is_stuck: bool = False

    @property
    def is_loaded(self) -> bool:
        return self.state == "ready"

    def has_name(self, name: str) -> bool:
        """Whether a name means this model where there is no other, with or without its tag."""
        return name == self.id or untagged(name).lower() == untagged(self.id).lower()

    @property
    def user_template(self) -> str | None:
        """The user's own chat template that its prompts have; None where the model's is used."""
        known = self.info or self.offered
        return None if known is None else known.user_template

    @property
    def base(self) -> Path | None:
        """The folder of its base, if it is an adapter."""
        known = self.offered or self.info
        return None if known is None else known.base

    @property
    def model_folder(self) -> Path:
        """The folder with its configuration, tokenizer and template."""
        return self.base or self.folder

    @property
    def is_unloaded(self) -> bool:
        """Whether its memory was freed; the next request loads it again."""
        return self.state == "unloaded" and self.info is not None


class Shown(Protocol):
    """A model of the engine thread, whose status is replaced as a whole."""

    offered: OfferedModel | None
    status: ModelStatus


class ModelList:
    """The models that requests may name, and the status of each model of the engine thread.

    Until models are offered, one model answers every request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offering: Offering | None = None
        self._slots: Sequence[Shown] = ()
        self._default: Shown | None = None

    @property
    def status(self) -> ModelStatus:
        default = self._default
        return ModelStatus() if default is None else default.status

    @property
    def is_choosing(self) -> bool:
        return self._offering is not None

    def offer(self, models: Sequence[OfferedModel] | None) -> None:
        """Let requests name these models; None lets the default model answer all of them."""
        with self._lock:
            self._offering = None if models is None else Offering(models)

    def find(self, name: str | None) -> OfferedModel | None:
        return self._find(name, self._offering)

    def known(self, folder: Path) -> OfferedModel | None:
        """Return the offered model of a folder."""
        return None if self._offering is None else self._offering.of_folder(folder)

    @staticmethod
    def _find(name: str | None, offering: Offering | None) -> OfferedModel | None:
        return None if offering is None or not name else offering.find(name)

    def add_offer(
        self, folder: Path, draft: Path | None, user_template: str | None, base: Path | None = None
    ) -> OfferedModel | None:
        """Return which of several models is to be loaded, now offered; None for only one."""
        with self._lock:
            if self._offering is None:
                return None
            known = self._offering.of_folder(folder)
            name = adapted_name(folder.resolve(), base and base.resolve())
            model = known or OfferedModel(name, folder)
            base = base or model.base
            if (
                draft is not None
                or known is None
                or (user_template, base) != (model.user_template, model.base)
            ):
                draft = model.draft if draft is None else draft
                model = replace(model, draft=draft, user_template=user_template, base=base)
                others = [other for other in self._offering.models if other.id != model.id]
                self._offering = Offering([*others, model])
            return model

    def resolve(self, name: str | None) -> ModelStatus | None:
        offering = self._offering  # another thread may renew it
        model = self._find(name, offering)
        statuses = self._statuses(offering)
        if model is None:
            return next((status for status in statuses if status.is_default), None)
        return next(status for status in statuses if status.id == model.id)

    @property
    def statuses(self) -> tuple[ModelStatus, ...]:
        """The status of every model: offered ones, then others, loaded or loading."""
        return self._statuses(self._offering)

    def _statuses(self, offering: Offering | None) -> tuple[ModelStatus, ...]:
        default = self._default
        # Two models can have one folder; the default one is listed.
        slots = sorted(self._slots, key=lambda slot: slot is not default)
        statuses: dict[str, ModelStatus] = {}
        for model in () if offering is None else offering.models:
            own = next((slot for slot in slots if _belongs_to(slot.status, model)), None)
            status = ModelStatus(is_pinned=model.is_pinned) if own is None else own.status
            if own is not None:
                slots.remove(own)
            statuses[model.id] = replace(
                status,
                id=model.id,
                folder=model.folder,
                offered=model,
                is_default=own is default and own is not None,
            )
        for slot in slots:
            status = replace(slot.status, is_default=slot is default)
            is_in_use = status.state in ("loading", "ready") or status.is_stuck
            if status.id and (is_in_use or status.is_default or offering is None):
                statuses.setdefault(status.id, status)
        return _count_shared_once(statuses.values())

    # -- for the engine thread -------------------------------------------------------------

    def show(self, slots: Sequence[Shown], default: Shown) -> None:
        """Show these models, also as the list of them changes."""
        self._slots, self._default = slots, default

    def end(self, status: ModelStatus) -> None:
        """Show a last status of the default model alone: the engine has ended."""
        if (default := self._default) is not None:
            default.status = replace(status, offered=default.offered)
            self._slots = (default,)


def _count_shared_once(statuses: Iterable[ModelStatus]) -> tuple[ModelStatus, ...]:
    """Count the weights that models of one base share for the first of them."""
    counted: set[Path] = set()
    shown = []
    for status in statuses:
        info = status.info
        if status.is_loaded and info is not None and info.shared_bytes:
            if info.model_folder in counted:
                status = replace(
                    status,
                    memory_bytes=status.memory_bytes - info.shared_bytes,
                    shared_bytes=info.shared_bytes,
                )
            counted.add(info.model_folder)
        shown.append(status)
    return tuple(shown)


def _belongs_to(status: ModelStatus, model: OfferedModel) -> bool:
    if status.offered is not None:
        return status.offered.id == model.id
    info = status.info
    return info is not None and info.path in (model.folder, model.folder.resolve())
