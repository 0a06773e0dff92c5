"""Answers to questions with pictures, on the real pipeline."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_vlm")

import mlx.core as mx
from mlx_vlm.models import cache as oracle_cache

from engine.engine import Engine
from engine.errors import InvalidRequest, PictureUnseen
from engine.inference.backend import BatchLimits
from engine.inference.cache import index
from engine.inference.cache.disk import DiskCache
from engine.inference.decoding_groups import DecodingGroups
from engine.inference.mlx_loading import load
from engine.inference.vision import vision
from engine.inference.vision.tower import Tower
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.limits import Limits
from engine.values.request import (
    PICTURE_MARK,
    CacheOwner,
    GenerationRequest,
    Message,
    OutputConstraint,
    Picture,
    Sampling,
    TextForm,
)
from tests.support.models.seeing import picture, question, write_seeing_model

_TOKENS = 12
RED, BLUE, TALL = picture("red"), picture("blue"), picture("green", (32, 160))
CONVERSATIONS = (
    (question("What is it?", RED),),
    (question("Compare them", RED, BLUE, TALL),),
    (question("one two three four five six seven " * 8, BLUE),),
)


@pytest.fixture
def seeing(tmp_path: Path) -> Iterator[Engine]:
    """An engine with a tiny model that sees."""
    write_seeing_model(tmp_path)
    with closing(Engine()) as engine:
        asyncio.run(engine.load(tmp_path))
        yield engine


async def answer(engine: Engine, *messages: Message, **options: Any) -> Any:
    options = {"stops": StopRules(ignore_eos=True), **options}
    request = GenerationRequest(
        messages=messages, max_tokens=_TOKENS, sampling=Sampling(temperature=0), **options
    )
    return await (await engine.generate(request)).collect()


def expected(
    whole: Any, ids: list[int], pictures: tuple[Picture, ...], processor: Any
) -> list[int]:
    """Return the answer of mlx-vlm's model to a prompt."""
    from engine.inference.vision.pictures import decoded

    marks = "<|image_pad|>" * len(pictures)
    images = [decoded(one, "") for one in pictures]
    made = processor(text=[marks], images=images)
    text = whole.language_model
    cache = oracle_cache.make_prompt_cache(text)
    pixels, grid = made["pixel_values"], made["image_grid_thw"]
    logits = whole(mx.array([ids]), pixels, cache=cache, image_grid_thw=grid).logits
    tokens = []
    for _ in range(_TOKENS):
        tokens.append(int(mx.argmax(logits[0, -1]).item()))
        logits = text(mx.array([[tokens[-1]]]), cache=cache).logits
    special = whole.config.vision_start_token_id  # it and the ids behind it have no text
    return [token for token in tokens if token < special]


@pytest.mark.parametrize("are_apart", [False, True])
@pytest.mark.parametrize("family", ["qwen3_vl", "qwen3_5"])
async def test_answers_equal_those_of_mlx_vlm_alone_and_together(
    family: str, are_apart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if are_apart:  # as beside a long text
        monkeypatch.setattr(DecodingGroups, "split", lambda _, lengths: range(len(lengths)))
    from mlx_vlm import utils

    whole = write_seeing_model(tmp_path, family)
    processor = utils.load_processor(tmp_path, add_detokenizer=False)
    texts: list[str] = []
    for limits in (Limits(), Limits(prefill_chunk=7), Limits(plain_decoding=True)):
        engine = Engine(limits=limits)
        assert (await engine.load(tmp_path)).can_see
        if not texts:
            for messages in CONVERSATIONS:
                prompt = await engine.render_prompt(GenerationRequest(messages=messages))
                tokens = expected(whole, list(prompt.tokens), messages[0].pictures, processor)
                texts.append(await engine.detokenize(tokens))
        alone = [(await answer(engine, *messages)).text for messages in CONVERSATIONS]
        beside = answer(engine, question("Hello there"))
        *together, _ = await asyncio.gather(
            *(answer(engine, *messages) for messages in CONVERSATIONS), beside
        )
        assert alone == texts
        assert [one.text for one in together] == texts
        await engine.aclose()


async def test_cached_prompt_is_used_for_the_same_picture_alone(seeing: Engine) -> None:
    first, again, other = [
        (await answer(seeing, question("What is it?", shown))).finished.usage
        for shown in (RED, RED, BLUE)
    ]
    assert (first.cached_tokens, again.cached_tokens) == (0, first.prompt_tokens - 1)
    assert other.prompt_tokens == first.prompt_tokens
    assert other.cached_tokens < 8


async def test_model_of_text_alone_refuses_a_picture_or_reads_its_note(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match=r"messages\[0\].*cannot see"):
        await answer(engine, question("What is it?", RED))
    noted = Picture(b"", note="[no picture]")
    raw = GenerationRequest(prompt=f"{PICTURE_MARK}What is it?", pictures=(noted,))
    for request in (raw, GenerationRequest(messages=(question("What is it?", noted),))):
        assert "[no picture]\nWhat is it?" in (await engine.render_prompt(request)).text


async def test_raw_prompts_end_behind_pictures_of_their_own(seeing: Engine) -> None:
    with pytest.raises(InvalidRequest, match="prompt: ends with a picture"):
        await answer(seeing, prompt=f"Look: {PICTURE_MARK}", pictures=(RED,))
    assert (await answer(seeing, prompt=f"{PICTURE_MARK} It is", pictures=(RED,))).text
    request = GenerationRequest(prompt=f"{PICTURE_MARK} It is", max_tokens=0)
    requests = [replace(request, pictures=(one,)) for one in (TALL, picture("red", (256, 256)))]
    answers = [await one.collect() for one in await seeing.generate_together(requests)]
    counts = [one.finished.usage.prompt_tokens for one in answers]
    assert counts[1] - counts[0] == 64 - 5


async def test_text_is_answered_while_a_picture_is_decoded(
    seeing: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answered = threading.Event()
    decode = vision.decoded

    def slow(shown: Picture, field: str) -> Any:
        assert is_answered.wait(10)
        return decode(shown, field)

    monkeypatch.setattr(vision, "decoded", slow)
    seen = asyncio.create_task(answer(seeing, question("What is it?", RED)))
    await asyncio.sleep(0.1)
    assert (await answer(seeing, question("Hello there"))).text
    is_answered.set()
    assert (await seen).text


async def test_unreadable_picture_is_refused_by_its_message(seeing: Engine) -> None:
    messages = (Message("system", "Look."), question("What is it?", Picture(RED.data[:60])))
    with pytest.raises(InvalidRequest, match=r"messages\[1\]"):
        await answer(seeing, *messages)
    assert len((await answer(seeing, question("And this?", TALL))).text) > 0


async def test_next_turn_after_a_restart_reads_the_picture_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "BLOCK_TOKENS", 16)  # files hold full blocks
    folder, files = tmp_path / "model", tmp_path / "disk"
    folder.mkdir()
    write_seeing_model(folder)
    long = question("one two three four five six seven " * 8, BLUE, RED)
    owner = CacheOwner("me", "a conversation")
    texts, usages = [], []
    for run in range(3):
        disk = DiskCache(files if run < 2 else tmp_path / "empty", 1 << 30)
        engine = Engine(disk=disk)
        await engine.load(folder)
        turns = (long,) if run == 0 else (long, Message("assistant", texts[0]), question("And?"))
        one = await answer(engine, *turns, cache_owner=owner)
        texts.append(one.text)
        usages.append(one.finished.usage)
        await engine.aclose()
        disk.close()
    assert usages[1].disk_tokens > usages[0].prompt_tokens - 64
    assert usages[2].cached_tokens == 0
    assert texts[1] == texts[2]


async def test_a_faulty_tower_ends_its_answer_alone(
    seeing: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:

    await answer(seeing, question("What is it?", RED))  # known, unlike the one behind it

    def fail(*_: object) -> None:
        raise ValueError("shapes do not match")

    monkeypatch.setattr(Tower, "features", fail)
    seen, text = await asyncio.gather(
        answer(seeing, Message("system", "Look."), question("What is it?", RED, BLUE)),
        answer(seeing, question("Hello there")),
    )
    assert seen.finished.stop.kind is StopKind.ERROR
    assert "cannot read the picture: shapes do not match" in (seen.finished.error or "")
    assert text.finished.stop.kind is StopKind.MAX_TOKENS


async def test_tower_runs_once_for_each_picture_of_prompts_read_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision, "_MAX_KEPT_BYTES", 1)
    write_seeing_model(tmp_path)
    engine = Engine(limits=Limits(prefill_chunk=16))
    await engine.load(tmp_path)
    runs: list[int] = []
    features = Tower.features

    def counting(self: Tower, tokens: int, pixels: Any) -> Any:
        runs.append(tokens)
        return features(self, tokens, pixels)

    monkeypatch.setattr(Tower, "features", counting)
    large = [picture("red", (256, 512)), picture("blue", (256, 256))]
    both = [answer(engine, question("What is it?", one)) for one in large]
    together = [one.text for one in await asyncio.gather(*both)]
    assert sorted(runs) == [64, 128]
    await engine.unload()
    await engine.load(tmp_path)
    assert [(await answer(engine, question("What is it?", one))).text for one in large] == together
    await engine.aclose()


async def test_pictures_beyond_the_kept_ones_delay_no_stream_and_no_later_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision, "_MAX_KEPT_BYTES", 1)
    write_seeing_model(tmp_path)
    threads: list[str] = []
    process = vision.Vision._arrays_of

    def noting(self: vision.Vision, image: Any) -> Any:
        threads.append(threading.current_thread().name)
        return process(self, image)

    monkeypatch.setattr(vision.Vision, "_arrays_of", noting)
    with closing(Engine()) as engine:
        await engine.load(tmp_path)
        first = question("Compare them", RED, BLUE, TALL)
        one = await answer(engine, first)
        assert "fullstop-engine" not in threads
        threads.clear()
        await engine.count_tokens(GenerationRequest(messages=(first,)))
        await answer(engine, first, Message("assistant", one.text), question("And?"))
        assert threads == []
        again = await answer(engine, first, cache_owner=CacheOwner("another"))
        assert (again.text, len(threads) > 0) == (one.text, True)


async def test_picture_of_one_owner_is_processed_anew_for_another_and_once_forgotten(
    seeing: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Picture] = []
    decode = vision.decoded

    def noting(shown: Picture, field: str) -> Any:
        decoded.append(shown)
        return decode(shown, field)

    monkeypatch.setattr(vision, "decoded", noting)
    for name in ("one", "another", "one"):
        await answer(seeing, question("What is it?", RED), cache_owner=CacheOwner(name))
    assert len(decoded) == 2
    await seeing.forget_prompts(CacheOwner("one"))
    await answer(seeing, question("What is it?", RED), cache_owner=CacheOwner("one"))
    assert len(decoded) == 3


async def test_model_without_its_tower_reads_text(tmp_path: Path) -> None:
    write_seeing_model(tmp_path)
    file = tmp_path / "model.safetensors"
    weights: Any = mx.load(str(file))
    kept = {name: value for name, value in weights.items() if "vision_tower" not in name}
    mx.save_safetensors(str(file), kept)
    engine = Engine()
    info = await engine.load(tmp_path)
    assert not info.can_see
    assert "vision_tower" in info.vision_problem
    with pytest.raises(PictureUnseen, match="vision_tower"):
        await answer(engine, question("What is it?", RED))
    assert (await answer(engine, question("Hello there"))).finished.usage.output_tokens == _TOKENS
    await engine.aclose()


def test_sharded_model_reads_text_and_names_why_it_refuses_pictures(tmp_path: Path) -> None:
    write_seeing_model(tmp_path)
    backend = load(tmp_path, limits=BatchLimits(512, 1 << 24, 4), shard=lambda *_: None)
    assert backend.render(GenerationRequest(messages=(question("Why?"),))).tokens
    with pytest.raises(PictureUnseen, match="sharded across several processes"):
        backend.render(GenerationRequest(messages=(question("Why?", RED),)))
    backend.close()


async def test_stop_ends_an_answer_about_a_picture_where_it_ends_the_text(seeing: Engine) -> None:
    whole = await answer(seeing, question("What is it?", RED))
    stop = whole.text[3:6]
    ended = await answer(seeing, question("What is it?", RED), stops=StopRules.of(stop))
    assert (ended.text, ended.finished.stop.value) == (whole.text[: whole.text.index(stop)], stop)
    choices = TextForm(choices=("red", "blue"))
    chosen = await answer(
        seeing,
        question("What is it?", BLUE),
        constraint=OutputConstraint(text_form=choices),
        thinking_budget=0,
        stops=StopRules(),
    )
    assert chosen.text in ("red", "blue")
