"""The notice above the composer of a model without vision; offers another. Main thread."""

from PySide6.QtWidgets import QFrame

from engine.library.local_models import FoundModel
from engine.library.model_info import ModelInfo
from ui.chat.composer.composer import Composer
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import push_button
from ui.kit.labels import label
from ui.kit.layouts import row
from ui.records.attachments import Attachment
from ui.words import display_name


class PictureNotice(QFrame):
    """Shown while a message is written whose own or earlier pictures are not seen."""

    def __init__(self, workspace: Workspace, composer: Composer) -> None:
        super().__init__()
        self.setObjectName("card")
        self._workspace = workspace
        self._composer = composer
        self._offered: FoundModel | None = None
        self._is_written = False
        self.caption = label("", "muted", is_wrapped=True)
        self.use = push_button("Use Another Model", kind="link")
        self.use.setProperty("is_flush", True)
        self.use.clicked.connect(self._use)
        self.caption.setMinimumHeight(self.use.sizeHint().height())  # as the card above it
        row((self.caption, 1), self.use, spacing=12, margins=(12, 6, 12, 6), on=self)
        for changed in (
            composer.attachments.changed,
            workspace.opened,
            workspace.model_selection.changed,
            workspace.library.changed,
        ):
            changed.connect(self.refresh)
        composer.input.textChanged.connect(self._note_text)
        self.hide()

    def _note_text(self) -> None:
        # Files are found again in the texts of messages: not at each key.
        if self._is_written is not bool(self._composer.text.strip()):
            self.refresh()

    def refresh(self) -> None:
        library, selection = self._workspace.library, self._workspace.model_selection
        model = selection.state.info
        self._is_written = bool(self._composer.text.strip())
        pictures = [] if model is None or model.can_see else self._pictures()
        is_shown = bool(pictures)
        if is_shown and not (library.has_looked or library.is_looking):
            library.refresh()  # its end leads here again
        seeing = (each.found for each in library.local)
        self._offered = next((m for m in seeing if m.can_see and m.can_be_loaded), None)
        if model is not None and is_shown:
            self._show(model, pictures)
        self.setVisible(is_shown)

    def _pictures(self) -> list[Attachment]:
        files = list(self._composer.attachments.files)
        if files or self._is_written:
            shown = self._workspace.current.conversation.messages
            files += (file for message in shown if message.attached_chars for file in message.files)
        return [file for file in files if file.kept_file and not file.is_sound]

    def _show(self, model: ModelInfo, pictures: list[Attachment]) -> None:
        what = "the picture" if len(pictures) == 1 else "the pictures"
        cause = f": {model.vision_problem}" if model.vision_problem else ""
        sentences = [
            f"{display_name(model.id)} reads text only{cause}; it gets a note in place of {what}.",
        ]
        if self._offered is None and not model.vision_problem:
            sentences.append("Qwen3-VL and Gemma 3 see pictures.")
        self.caption.setText(" ".join(sentences))
        self.use.setVisible(self._offered is not None)
        if self._offered is not None:
            self.use.setText(f"Use {display_name(self._offered.name)}")
            self.use.setAccessibleName(f"Use {display_name(self._offered.name)}, which sees {what}")

    def _use(self) -> None:
        if self._offered is not None:
            self._workspace.model_selection.choose(self._offered.folder)
        self._composer.input.setFocus()
