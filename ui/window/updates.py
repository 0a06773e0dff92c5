"""Newer versions of the program: what a check finds, and the dialog of it. Main thread."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt, QUrl
from PySide6.QtWidgets import QCheckBox, QDialogButtonBox, QWidget

from ui.kit.buttons import IconBadge, push_button
from ui.kit.dialogs import confirm_link
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.menus import copy_from
from ui.kit.tasks import cancel_tasks, start_task
from ui.kit.windows import OwnDialog, lay_out_hidden
from ui.preferences_state import PreferencesState


class UpdateFailed(Exception):
    """Why the newest version is not known, with the remedy."""


@dataclass(frozen=True, slots=True)
class Release:
    """The newest version, and how it is installed."""

    version: str
    is_newer: bool
    command: str = ""  # typed into a terminal
    address: str = ""  # downloaded by the user


@dataclass(frozen=True, slots=True)
class Updates:
    """The running version, and the place that knows the newest one."""

    version: str
    host: str = ""  # empty if there is none
    reason: str = ""  # why there is none
    look: Callable[[], Release] | None = None  # blocks; raises ``UpdateFailed``


class UpdateDialog(OwnDialog):
    """Asks before the first check, then shows its result."""

    def __init__(
        self,
        updates: Updates,
        preferences: PreferencesState,
        parent: QWidget,
        release: Release | None = None,
    ) -> None:
        super().__init__("Check for Updates", parent)
        self._updates, self._preferences = updates, preferences
        self._release: Release | None = None
        self.heading = label("", "title", 1.08, is_wrapped=True)
        self.text = label("", "muted", is_wrapped=True)
        self.command = label("", "chip", is_wrapped=True)
        self.command.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.always = QCheckBox("Check automatically when Fullstop starts")
        self.always.setChecked(preferences.now.checks_for_updates)
        self.always.toggled.connect(lambda is_on: preferences.change(checks_for_updates=is_on))
        self.action = push_button("", kind="primary")
        self.action.clicked.connect(self._act)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._close = buttons.button(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        icon = IconBadge(48)
        icon.show_icon("stop-match", "match")
        texts = column(self.heading, self.text, self.command, self.always, STRETCH, spacing=8)
        column(
            row((icon, 0, Qt.AlignmentFlag.AlignTop), (texts, 1), spacing=16),
            row(STRETCH, buttons, self.action, spacing=8),
            spacing=16,
            margins=(24, 24, 24, 16),
            on=self,
        )
        self.setFixedWidth(512)
        if release is not None:
            self.show_release(release)
        elif updates.look is None:
            self.always.hide()
            self._show("Updates cannot be checked here.", updates.reason)
        elif preferences.now.asks_before_updates:
            host = updates.host
            text = f"Fullstop asks {host} for its newest version. Nothing else is sent."
            self._show(f"Check {host} for updates?", text, "Check Now")
        else:
            self.check()

    def check(self) -> None:
        """Look for the newest version."""
        self._preferences.change(asks_before_updates=False)
        self._show("Checking for Updates…", f"Asking {self._updates.host}.")
        start_task(self, self._check(), "check for updates")

    def show_release(self, release: Release) -> None:
        """Show the newest version."""
        self._release = release
        now = self._updates.version
        if not release.is_newer:
            self._show("Fullstop is up to date.", f"Version {now} is the newest version.")
        elif release.command:
            text = f"You have {now}. Quit Fullstop, and run this in a terminal:"
            self._show(f"Fullstop {release.version} is available.", text, "Copy Command")
        else:
            text = f"You have {now}. Download it, and replace the app with it."
            self._show(f"Fullstop {release.version} is available.", text, "Download…")

    def done(self, result: int) -> None:
        cancel_tasks(self)
        super().done(result)

    async def _check(self) -> None:
        assert self._updates.look is not None
        try:
            release = await asyncio.to_thread(self._updates.look)
        except UpdateFailed as failure:
            self._show("The newest version could not be found.", str(failure), "Try Again")
        else:
            self.show_release(release)

    def _show(self, heading: str, text: str, action: str = "") -> None:
        self.heading.setText(heading)
        self.text.setText(text)
        command = "" if self._release is None else self._release.command
        self.command.setText(command)
        self.command.setVisible(action == "Copy Command")
        self.action.setText(action)
        self.action.setVisible(bool(action))
        self.action.setDefault(bool(action))
        (self.action if action else self._close).setFocus()
        lay_out_hidden(self)
        if (layout := self.layout()) is not None:
            self.resize(self.width(), layout.totalHeightForWidth(self.width()))

    def _act(self) -> None:
        release = self._release
        if release is None:
            self.check()
        elif release.command:
            copy_from(self.action, release.command)
        else:
            confirm_link(self, QUrl(release.address))
