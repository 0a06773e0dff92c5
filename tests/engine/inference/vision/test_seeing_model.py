"""The small model of ours that sees, on the real pipeline."""

import sys
from importlib import import_module

import pytest

pytest.importorskip("mlx_vlm")

from app import paths
from engine.engine import Engine
from engine.values.request import Message


async def test_seeing_model_answers_about_held_out_pictures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(paths.seeing_model() / "training")])
    evaluation = import_module("evaluate")
    engine = Engine()
    assert (await engine.load(paths.seeing_model())).can_see
    asked = evaluation.held_out(40)
    greeting, unseen = Message("user", "Hello!"), Message("user", "What shape is it?")
    *answers, greeted, not_seen = await evaluation.answer_all(
        engine, [*(message for message, _ in asked), greeting, unseen]
    )
    await engine.aclose()
    right = [answer == expected for answer, (_, expected) in zip(answers, asked, strict=True)]
    assert sum(right) >= 0.95 * len(right)
    assert (greeted, not_seen) == ("Hello! Show me a picture.", "I see no picture.")
