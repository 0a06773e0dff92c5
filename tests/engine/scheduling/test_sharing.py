"""Requests with one beginning, as their readers see them: what is counted, cancelled and failed."""

from pathlib import Path

from engine.inference.sequences import WORTH_TOKENS
from engine.values.events import PromptProgress
from tests.support.asking import loaded_engine, request
from tests.support.scripted import Stage

BEGINNING = "The rules of the house are many and they are long. " * 14
ANSWERS = {"a": ["yes"], "b": ["no"], "c": ["perhaps"], "d": ["never"]}


def stage_of(folder: Path) -> Stage:
    return Stage(folder, {BEGINNING + asked: pieces for asked, pieces in ANSWERS.items()})


def read_tokens(stage: Stage) -> int:
    """Return how many tokens of prompts the model has read, the last of each left out."""
    return sum(rows * width for rows, width in stage.model.calls if width > 1)


async def test_concurrent_requests_share_prompt_tokens(
    tmp_path: Path,
) -> None:
    stage = stage_of(tmp_path)

    async with loaded_engine(stage.folder, loader=stage.load) as engine:
        choices = [request(BEGINNING + one) for one in "abcd"]
        generations = await engine.generate_together(choices)
        answers = [await one.collect() for one in generations]
        assert [one.text for one in answers] == ["yes", "no", "perhaps", "never"]
        usages = [one.finished.usage for one in answers]
        shared = len(stage.ids(f"<|start|>user:{BEGINNING}"))
        assert [one.cached_tokens for one in usages] == [0, shared, shared, shared]
        # Each reads the few tokens of its own; no beginning is read twice.
        assert read_tokens(stage) < usages[0].prompt_tokens + 100
        use = engine.status.cache_use
        assert (use.hits, use.hit_tokens) == (3, 3 * shared)


async def test_cancelled_prefix_reader_hands_over_to_waiting_sequence(
    tmp_path: Path,
) -> None:
    stage = stage_of(tmp_path)

    async with loaded_engine(stage.folder, loader=stage.load) as engine:
        generations = await engine.generate_together([request(BEGINNING + one) for one in "abc"])
        async for event in generations[0].events():
            if isinstance(event, PromptProgress) and event.processed > 0:
                generations[0].cancel()
        answers = [await one.collect() for one in generations[1:]]
        assert [one.text for one in answers] == ["no", "perhaps"]
        # If the reader had read nearly all, both read the little that is left.
        most = answers[0].finished.usage.prompt_tokens + WORTH_TOKENS + 100
        assert read_tokens(stage) < most
