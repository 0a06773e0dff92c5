"""The field for messages alone."""

import pytest
from pytestqt.qtbot import QtBot

from ui.chat.composer.composer import Composer
from ui.kit.theme import Theme


@pytest.fixture
def composer(qtbot: QtBot, theme: Theme) -> Composer:
    made = Composer()
    qtbot.addWidget(made)
    made.show()
    made.show_stage(is_ready=True, is_running=False, placeholder="")
    return made
