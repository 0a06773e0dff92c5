"""Saved runs that earlier versions wrote open, and replay as those versions replayed them.

The files in ``saved`` were written by the versions that their contents name; they are never
written again.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from engine.recording.replay import replay
from engine.recording.saved_run import from_json, to_json
from engine.stopping.rules import StopRules, StopScope

FILES = sorted((Path(__file__).parent / "saved").glob("*.json"))


def rules_of(values: dict[str, Any]) -> StopRules:
    options = {name: values[name] for name in ("include_stop", "ignore_eos", "min_tokens")}
    ids, scope = tuple(values["token_ids"]), StopScope(values["scope"])
    return StopRules.of(*values["strings"], token_ids=ids, scope=scope, **options)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_earlier_run_replays_as_it_did_and_can_be_saved_again(file: Path) -> None:
    saved = json.loads(file.read_text(encoding="utf-8"))
    recording = from_json(json.dumps(saved["run"]))
    assert from_json(to_json(recording)) == recording

    for wanted in saved["replays"]:
        found = replay(recording, rules_of(wanted["rules"]))
        assert found.stop is not None
        assert dataclasses.asdict(found.stop) == {"source": None, **wanted["stop"]}
        assert (found.text, found.thinking) == (wanted["text"], wanted["thinking"])
        assert [[call.name, call.arguments] for call in found.calls] == wanted["calls"]
        assert found.output_tokens == wanted["output_tokens"]
