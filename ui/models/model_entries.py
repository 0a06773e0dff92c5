"""The rows of the models window: models of this computer, then those of the hub. Main thread."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PySide6.QtCore import QAbstractListModel, QObject, Qt

from engine.library.local_models import FoundModel, Origin
from engine.library.memory_need import Fit
from engine.wording import as_sentence, counted, format_size
from ui.kit.dialogs import show_in_files_label
from ui.kit.rows import CONTENT, DISPLAY, NO_PARENT, Index, RowContent, RowPart
from ui.kit.theme import current_theme
from ui.models.finder import FITS, Finder, HubResult, fit_state, list_summary
from ui.models.model_library import LibraryModel, ModelLibrary
from ui.models.model_words import (
    arrived_percent,
    figures,
    loading_text,
    matches,
    memory_text,
    paused_text,
    percent,
    row_facts,
    short_reason,
)
from ui.models.upkeep import Upkeep
from ui.words import THIS_COMPUTER, Tone, display_name

Action = Literal[
    "", "get", "pause", "resume", "retry_download", "load", "cancel", "retry", "restart", "loaded",
    "remove", "get_again", "show",
]  # fmt: skip
ACTION_LABELS: dict[Action, str] = {
    "get": "Get",
    "pause": "Pause",
    "resume": "Resume",
    "retry_download": "Try Again",
    "load": "Load",
    "cancel": "Cancel",
    "retry": "Try Again",
    "restart": "Restart",
    "loaded": "Loaded",
    "remove": "Remove",
    "get_again": "Download Again",
    "show": show_in_files_label(),
}
_COMPUTER = THIS_COMPUTER.title()
# Beside the title of a model of this computer, which a narrow window would hide otherwise.
_LOCAL_FITS = {Fit.TIGHT: "May not fit", Fit.TOO_LARGE: "Too large"}
ENTRY, STATE = int(Qt.ItemDataRole.UserRole) + 1, int(Qt.ItemDataRole.UserRole) + 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: a model of this computer, of the hub or of both, or a folder of models.

    Attributes:
        name: Of the repository or the folder; the words of a heading.
        note: The text at the right of a heading; None for other rows.
    """

    name: str
    local: LibraryModel | None = None
    hub: HubResult | None = None
    folder: Path | None = None
    note: str | None = None

    @property
    def title(self) -> str:
        if self.folder is not None and self.folder.is_relative_to(Path.home()):
            return str(Path("~") / self.folder.relative_to(Path.home()))
        is_model = self.folder is None and self.note is None
        return display_name(self.name) if is_model else self.name

    @property
    def key(self) -> tuple[str, Path | None]:
        return self.name, self.local.found.folder if self.local is not None else self.folder


@dataclass(frozen=True, slots=True)
class EntryState:
    """The action of a row's model now, and the line below its title.

    Attributes:
        percent: Of a load or a download.
        reason: The whole text where the line has only its beginning.
    """

    action: Action
    text: str
    tone: Tone = "quiet"
    percent: int | None = None
    reason: str = ""


def state_of(entry: Entry, library: ModelLibrary) -> EntryState:
    """Return the content and the action of a row that is not a heading."""
    if entry.folder is not None:
        count = len(library.in_folder(entry.folder))
        text = counted(count, "model") if count else "No models were found in it."
        return EntryState("remove", text)
    download = library.downloads.unfinished(entry.name)
    # A paused or failed update leaves the present revision usable.
    is_usable = entry.local is not None and entry.local.found.can_be_loaded
    if download is not None and not (is_usable and download.stage != "running"):
        progress, done = download.progress, arrived_percent(download.progress)
        match download.stage:
            case "running":
                return EntryState("pause", download.rate.text(progress), "busy", done)
            case "failed":
                return _failure("retry_download", download.message)
        return EntryState("resume", paused_text(progress), "limit", done, download.message)
    if entry.local is not None:
        return _local_state(entry.local, library)
    if library.downloads.is_done(entry.name) and library.is_looking:  # it is listed soon
        return EntryState("", "Downloaded", "busy", 100)
    if entry.hub is None:
        return EntryState("", "")
    model = entry.hub.model
    owner, _, _ = model.name.rpartition("/")
    text = " · ".join(filter(None, (figures(model.bits, model.size_bytes), owner)))
    return EntryState("" if model.problem else "get", text)


def _failure(action: Action, message: str) -> EntryState:
    return EntryState(action, short_reason(message), "fault", reason=as_sentence(message))


def _local_state(model: LibraryModel, library: ModelLibrary) -> EntryState:
    found, models = model.found, library.models
    folder = model.folder
    shown = models.status(folder)
    if models.failed_at in (folder, found.folder):
        action: Action = "retry" if shown.stage != "ready" else "loaded"
        if models.is_damaged and action == "retry":
            action = _remedy(found)
        return _failure("restart" if shown.is_stuck else action, models.message)
    if shown.is_stuck:
        return EntryState(
            "restart", "Not responding.", "fault", reason=f"Not responding. {shown.message}"
        )
    if shown.is_loading:
        progress = shown.progress
        done = percent(progress.done_bytes, progress.total_bytes) if progress else 0
        text = loading_text(progress, shown.loading_s, models.answers_under_way())
        return EntryState("cancel" if shown.stage == "loading" else "", text, "busy", done)
    if shown.is_idle:
        return EntryState("load", "Unloaded to free its memory. The next request loads it again.")
    if shown.stage == "ready":
        if folder in library.waiting:
            return EntryState("loaded", "Needs your approval.", "limit")
        if library.is_lost(model):
            text = "Its folder can’t be found. It stays available until it is unloaded."
            return EntryState("loaded", text, "limit")
        memory = next((m for m in models.in_memory if m.folder == folder), None)
        text = "" if memory is None else memory_text(memory)
        bits = f"{found.bits}-bit" if found.bits else ""
        return EntryState("loaded", " · ".join(filter(None, (bits, text))), "done")
    if found.is_partial and "/" in found.name:
        text = f"Incomplete. {found.arrived}." if found.arrived else "Incomplete."
        return EntryState("resume", text, "limit", reason=found.trouble)
    if found.problem:
        return _failure(_remedy(found), found.problem)
    if found.trouble:
        return EntryState("", found.trouble)
    return EntryState("load", row_facts(found, model.used_at))


def _remedy(found: FoundModel) -> Action:
    """Return the action for a damaged model."""
    return "get_again" if found.can_be_fetched_again else "show"


class ModelEntries(QAbstractListModel):
    """The models that match the search: those of this computer, then those of the hub."""

    def __init__(
        self, library: ModelLibrary, finder: Finder, upkeep: Upkeep, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._library, self._finder, self._upkeep = library, finder, upkeep
        self._rows: list[Entry] = []
        self._terms: tuple[str, ...] = ()
        self._chat_folder: Path | None = None

    def mark_chat(self, folder: Path | None) -> None:
        """Mark the model of the open conversation."""
        self._chat_folder = None if folder is None else folder.resolve()
        self.refresh()

    def look_for(self, text: str) -> None:
        """List only the models of this computer whose name has these words."""
        self._terms = tuple(text.casefold().split())
        self.refresh()

    def refresh(self) -> None:
        """List the entries again; the view keeps its selection where only their states changed."""
        rows = self._entries()
        if [row.key for row in rows] == [row.key for row in self._rows]:
            self._rows = rows
            if rows:
                self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))
            return
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def row_of(self, entry: Entry | None) -> int:
        """Return the row of an entry, or else of its name, or else of the first model; -1."""
        keys = [row.key if row.note is None else None for row in self._rows]
        if entry is not None and entry.key in keys:
            return keys.index(entry.key)
        named = None if entry is None else entry.name
        models = [n for n, key in enumerate(keys) if key is not None]
        same = (n for n in models if self._rows[n].name == named)
        return next(same, models[0] if models else -1)

    def state(self, entry: Entry) -> EntryState:
        return state_of(entry, self._library)

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if index.isValid() and self._rows[index.row()].note is not None:
            return Qt.ItemFlag.NoItemFlags
        return super().flags(index)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        entry = self._rows[index.row()]
        if role == ENTRY:
            return entry
        if role == DISPLAY:
            return entry.title
        if entry.note is not None:
            return self._heading(entry) if role == CONTENT else None
        if role == STATE:
            return self.state(entry)
        if role == CONTENT:
            return self._content(entry)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(entry)
        if role == Qt.ItemDataRole.ToolTipRole:
            where = entry.name if entry.local is None else str(entry.local.found.folder)
            return "\n".join(filter(None, (self.state(entry).reason, where)))
        return None

    # -- inside --------------------------------------------------------------------------------

    def _entries(self) -> list[Entry]:
        library, finder = self._library, self._finder
        on_hub = {result.name: result for result in finder.results}
        every = library.every()
        # A pasted address finds a model whose name does not have its words.
        found = () if finder.is_suggesting else on_hub
        here = [
            Entry(model.found.name, model, on_hub.get(model.found.name))
            for model in every
            if matches(model.found.name, self._terms) or model.found.name in found
        ]
        names = {model.found.name for model in every}
        coming = [
            Entry(item.repository)
            for item in library.downloads.items
            if item.repository not in names
            and item.repository not in on_hub  # it stays where it was got, below the pointer
            and (item.stage != "done" or library.is_looking)
            and matches(item.repository, self._terms)
        ]
        names |= {entry.name for entry in coming}
        hub = [Entry(name, hub=result) for name, result in on_hub.items() if name not in names]
        rows: list[Entry] = []
        if coming:
            rows += [Entry("Downloads", note=counted(len(coming), "model")), *coming]
        if here:
            size = format_size(sum(entry.local.found.size_bytes for entry in here if entry.local))
            total = f"{counted(len(here), 'model')} · {size}"
            note = total if library.has_looked else "Searching…"
            rows += [Entry(f"On {_COMPUTER}", note=note), *here]
        folders = [] if self._terms else [Entry(str(f), folder=f) for f in library.folders]
        if folders:
            rows += [Entry("Your Folders", note=""), *folders]
        has_none = bool(finder.query) and finder.stage == "listed" and not finder.results
        if hub or has_none or finder.stage == "asking":
            heading = f"Suggested for {_COMPUTER}" if finder.is_suggesting else "Hugging Face"
            rows += [Entry(heading, note=list_summary(finder)), *hub]
        return rows

    def _heading(self, entry: Entry) -> RowContent:
        colors = current_theme().colors
        note = RowPart(entry.note or "", colors.faint)
        return RowContent(RowPart(entry.name, colors.muted), right=note, has_ground=False)

    def _content(self, entry: Entry) -> RowContent:
        colors, state = current_theme().colors, self.state(entry)
        is_quiet = state.tone in ("quiet", "done")
        color = colors.muted if is_quiet else colors.tone(state.tone)[0]
        fit = detail = RowPart()
        if (shown := self._fit(entry, state)) is not None:
            text, icon, tone = shown
            ink = colors.tone(tone)[0]
            if entry.local is not None:
                fit = RowPart(text, ink, icon)
            else:
                text = self._detail(entry, text)
                detail = RowPart(text, ink if tone == "fault" else colors.muted, icon, ink)
        return RowContent(
            RowPart(entry.title),
            note=RowPart(self._note(entry), colors.match),
            right=fit,
            subtitle=RowPart(state.text, color),
            detail=detail,
            has_ground=False,
        )

    def _fit(self, entry: Entry, state: EntryState) -> tuple[str, str, Tone] | None:
        """Return whether a model fits; None where that goes without saying."""
        if entry.local is not None:
            if entry.local.fit is Fit.FITS or state.action != "load":
                return None
            _, icon, tone = FITS[entry.local.fit]
            return _LOCAL_FITS[entry.local.fit], icon, tone
        return None if entry.hub is None else fit_state(entry.hub, self._finder.memory)

    def _note(self, entry: Entry) -> str:
        """Return the text beside the title."""
        if entry.local is None:
            return ""
        in_chat = "This chat" if entry.local.folder == self._chat_folder else ""
        newer = "Update available" if self._upkeep.newer(entry.local.found) else ""
        return " · ".join(filter(None, (in_chat, newer)))

    @staticmethod
    def _detail(entry: Entry, fit: str) -> str:
        """Return the last line of a model of the hub, but for a reason that it cannot be loaded."""
        is_whole = entry.hub is None or bool(entry.hub.model.problem) or not entry.hub.standing
        return fit if is_whole or entry.hub is None else f"{fit} · {entry.hub.standing}"

    def _spoken(self, entry: Entry) -> str:
        state, parts = self.state(entry), [entry.title]
        parts += [entry.name if entry.title != entry.name else "", self._note(entry)]
        parts.append(state.text)
        if (fit := self._fit(entry, state)) is not None:
            parts.append(fit[0] if entry.local is not None else self._detail(entry, fit[0]))
        return ", ".join(filter(None, (*parts, ACTION_LABELS.get(state.action, ""))))


def is_deletable(found: FoundModel) -> bool:
    """Return whether a model is neither bundled nor a file of the user's own folders."""
    return found.origin in (Origin.HUGGING_FACE, Origin.LM_STUDIO)
