"""Damaged or foreign files are refused in the product's own words, and kept."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from app.settings.settings_file import StoredPreferences
from engine.files.json_fields import DamagedFile, Fields
from tests.support.attacks.file_attacks import ATTACKS, Attack
from tests.support.attacks.stored_attacks import STORED
from tests.support.random_cases import cases
from ui.records.codec import Preset, presets_from_json, presets_json
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.exchange.archive import (
    conversation_markdown,
    conversations_from_json,
    conversations_json,
)
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.stop_files import stops_from_json

_CASES = cases(60)


@pytest.mark.parametrize("attack", [*ATTACKS, *STORED], ids=lambda attack: attack.name)
def test_damaged_files_are_read_or_refused_and_never_lost(attack: Attack, tmp_path: Path) -> None:
    outcomes = [attack.carry_out(seed, tmp_path) for seed in range(_CASES)]
    assert set(outcomes) == {"read", "refused"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_sound_files_that_are_damaged_can_be_read(attack: Attack, tmp_path: Path) -> None:
    for original in attack.originals:
        path = tmp_path / attack.name
        path.write_text(original, encoding="utf-8")
        assert attack.read(path) == "read"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"n": 1e400}', "n: must be a number, not infinity or NaN"),
        ('{"n": NaN}', "n: must be a number, not infinity or NaN"),
        ('{"n": ' + "9" * 400 + "}", "n: the number is too large"),
    ],
)
def test_numbers_out_of_range_are_named(text: str, words: str) -> None:
    with pytest.raises(DamagedFile, match=words):
        Fields(json.loads(text)).take("n", float)


def test_a_message_with_an_impossible_time_is_still_shown() -> None:
    message = ConversationMessage("user", "Hello", created_at=1e300)
    answer = ConversationMessage("assistant", "Hi", Run(text="Hi"), created_at=-1e300)
    (found,) = conversations_from_json(
        conversations_json([Conversation("T", [message, answer], updated_at=1e308)])
    )
    assert [one.text for one in found.messages] == ["Hello", "Hi"]
    assert found.updated_at == 0
    assert f"{datetime.fromtimestamp(0):%Y-%m-%d}" in conversation_markdown(found)


def test_zeros_among_the_settings_are_kept() -> None:
    settings = ConversationSettings(temperature=0.0, top_k=0, min_p=0.0, seed=0)
    (preset,) = presets_from_json(presets_json([Preset("Greedy", settings)]))
    assert preset.settings == settings


def test_a_stop_list_with_half_a_character_is_refused_by_its_entry() -> None:
    with pytest.raises(ValueError, match="Entry 2 of the list: contains a lone surrogate"):
        stops_from_json('["END", "\\ud800"]')


@pytest.mark.parametrize("impossible", ["x" * 20_000, "a\x00b"])
def test_a_last_model_that_is_not_a_valid_path_is_ignored(impossible: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"last_model": impossible}))
    assert StoredPreferences(tmp_path).last_model is None


def test_unknown_settings_are_shown_without_control_characters(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"\x1b[2J" + "9" * 5_000: 1}))
    notice = StoredPreferences(tmp_path).notice
    assert "\x1b" not in notice
    assert len(notice) < 600
