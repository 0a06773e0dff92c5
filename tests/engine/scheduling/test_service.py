"""The engine as its callers use it: acceptance, cancelling, queueing, faults, models."""

import asyncio
import time
from pathlib import Path

import pytest

from engine.errors import (
    EngineClosed,
    InvalidRequest,
    ModelLoadFailed,
    NoModel,
    QueueFull,
)
from engine.scheduling.limits import Limits
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.chat import Message
from engine.values.events import Event, Finished, PromptProgress, TextDelta, ThinkingDelta
from engine.values.request import GenerationRequest, Sampling, TraceLevel
from tests.support.asking import ask, events_of, request, run
from tests.support.scripted import Stage

COUNT = "Count from 1 to 10, one number per line"


def stage_of(folder: Path, **options: object) -> Stage:
    long = [f"w{n} " for n in range(400)]
    return Stage(folder, {"long": long, "short": ["yes"]}, **options)  # type: ignore[arg-type]


def test_without_a_model_a_request_is_refused_in_words() -> None:
    async def play() -> None:
        engine = Engine()
        with pytest.raises(NoModel):
            await engine.generate(request("hi"))
        await engine.aclose()

    run(play())


def test_a_folder_that_is_no_model_is_named_with_the_reason(tmp_path: Path) -> None:
    async def play() -> None:
        engine = Engine()
        with pytest.raises(ModelLoadFailed, match=r"config\.json is missing"):
            await engine.load(tmp_path)
        assert engine.status.state == "failed"
        await engine.aclose()

    run(play())


def test_damaged_weights_are_named_with_expected_and_actual_bytes(
    tmp_path: Path, demo_model_path: Path
) -> None:
    for file in demo_model_path.iterdir():
        if file.suffix in {".json", ".jinja"}:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = (demo_model_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[:-100])

    async def play() -> None:
        engine = Engine()
        with pytest.raises(ModelLoadFailed, match=rf"expected {len(weights)} bytes, found"):
            await engine.load(tmp_path)
        await engine.aclose()

    run(play())


def test_events_begin_with_progress_and_end_with_one_finished(engine: Engine) -> None:
    events = run(events_of(engine, COUNT, "6"))
    assert isinstance(events[0], PromptProgress)
    assert [type(event) for event in events].count(Finished) == 1
    assert isinstance(events[-1], Finished)


def test_bad_requests_never_reach_the_model_and_name_the_field(engine: Engine) -> None:
    async def refused(asked: GenerationRequest) -> InvalidRequest:
        with pytest.raises(InvalidRequest) as caught:
            await engine.generate(asked)
        return caught.value

    async def play() -> None:
        assert (await refused(GenerationRequest())).field == "messages"
        assert (await refused(request("x", max_tokens=0))).field == "max_tokens"
        ids = StopRules(token_ids=(1, 10**6))
        assert (await refused(request("x", rules=ids))).field == "stops.token_ids[1]"
        long = await refused(request("word " * 40_000))
        assert "context" in long.reason
        assert (await ask(engine, COUNT, "6")).finished.stop.value == "6"

    run(play())


def test_a_cancel_while_decoding_ends_within_a_step(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.02)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        generation = await engine.generate(request("long"))
        seen: list[Event] = []
        async for event in generation.events():
            seen.append(event)
            if isinstance(event, TextDelta) and not generation.is_finished:
                calls = len(stage.model.calls)
                generation.cancel()
        finished = seen[-1]
        assert isinstance(finished, Finished)
        assert finished.stop.kind is StopKind.CANCELLED
        assert len(stage.model.calls) <= calls + 3
        await engine.aclose()

    run(play())


def test_a_cancel_during_a_long_prefill_does_not_wait_for_its_end(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, context=100_000, step_s=0.05)

    async def play() -> None:
        engine = Engine(Limits(prefill_chunk=16), loader=stage.load)
        await engine.load(tmp_path)
        generation = await engine.generate(request("x" * 2000))
        async for event in generation.events():
            if isinstance(event, PromptProgress) and event.processed > 0:
                generation.cancel()
                break
        answer = await generation.collect()
        assert answer.finished.stop.kind is StopKind.CANCELLED
        assert answer.finished.usage.output_tokens == 0
        assert len(stage.model.calls) < 20
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def test_a_cancelled_task_cancels_its_generation(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.01)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        task = asyncio.ensure_future(ask(engine, "long"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)
        assert engine.status.running == 0
        await engine.aclose()

    run(play())


def test_requests_beyond_the_queue_are_refused_and_the_others_answered(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.005)

    async def play() -> None:
        engine = Engine(Limits(max_rows=2, max_waiting=3), loader=stage.load)
        await engine.load(tmp_path)
        taken = [await engine.generate(request("long", max_tokens=20)) for _ in range(5)]
        with pytest.raises(QueueFull):
            await engine.generate(request("short"))
        answers = await asyncio.gather(*(generation.collect() for generation in taken))
        assert {answer.finished.stop.kind for answer in answers} == {StopKind.MAX_TOKENS}
        assert len({answer.text for answer in answers}) == 1
        await engine.aclose()

    run(play())


def test_a_step_that_raises_ends_its_requests_and_the_engine_serves_on(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)

    def break_at_ten(number: int) -> None:
        if number == 10:
            raise RuntimeError("no memory left")

    stage.model.fault = break_at_ten

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        answer = await ask(engine, "long")
        assert answer.finished.stop.kind is StopKind.ERROR
        assert answer.finished.error is not None
        assert "no memory left" in answer.finished.error
        assert answer.text.startswith("w0 w1 ")
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


@pytest.mark.engine_dies
def test_if_the_thread_dies_open_requests_end_and_the_next_one_finds_a_fresh_one(
    tmp_path: Path,
) -> None:
    stage = stage_of(tmp_path)

    def die_at_ten(number: int) -> None:
        if number == 10:
            raise SystemExit("killed")

    stage.model.fault = die_at_ten

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        answer = await ask(engine, "long")
        assert answer.finished.stop.kind is StopKind.ERROR
        assert "killed" in (answer.finished.error or "")
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def test_closing_ends_what_runs_and_refuses_what_comes(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.01)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        generation = await engine.generate(request("long"))
        await engine.aclose()
        assert (await generation.collect()).finished.stop.kind is StopKind.CANCELLED
        with pytest.raises(EngineClosed):
            await engine.generate(request("short"))

    run(play())


def test_the_second_turn_reads_only_what_is_new(engine: Engine) -> None:
    async def play() -> None:
        first = await ask(engine, COUNT, "6")
        turns = (
            Message("user", COUNT),
            Message("assistant", first.text),
            Message("user", "Count from 1 to 3"),
        )
        generation = await engine.generate(
            GenerationRequest(messages=turns, sampling=Sampling(temperature=0))
        )
        usage = (await generation.collect()).finished.usage
        kept = first.finished.usage.prompt_tokens + first.finished.usage.output_tokens - 2
        assert usage.cached_tokens >= kept
        assert usage.cached_tokens < usage.prompt_tokens

    run(play())


def test_a_cached_prompt_gives_the_same_answer_as_a_fresh_one(engine: Engine) -> None:
    async def play() -> None:
        prompt = "Repeat exactly: alpha beta gamma"
        answers = [await ask(engine, prompt) for _ in range(3)]
        assert len({answer.text for answer in answers}) == 1
        assert answers[-1].finished.usage.cached_tokens > 0

    run(play())


def test_rows_in_a_batch_answer_as_they_do_alone(engine: Engine) -> None:
    prompts = [COUNT, "List letters A through F, separated by spaces.", "Repeat exactly: x y z"]

    async def play() -> None:
        alone = [(await ask(engine, prompt)).text for prompt in prompts]
        together = await asyncio.gather(*(ask(engine, prompt) for prompt in prompts * 4))
        assert [answer.text for answer in together] == alone * 4

    run(play())


def test_a_seed_gives_the_same_draw_again(engine: Engine) -> None:
    async def play() -> None:
        hot = Sampling(temperature=1.5, seed=7)
        texts = {(await ask(engine, "Hello", max_tokens=20, sampling=hot)).text for _ in range(3)}
        assert len(texts) == 1

    run(play())


def test_the_least_temperatures_draw_what_temperature_zero_draws(engine: Engine) -> None:
    async def play() -> None:
        texts = {
            (await ask(engine, "Hello", max_tokens=12, sampling=Sampling(temperature=one))).text
            for one in (0.0, 5e-324, 1e-40)
        }
        assert len(texts) == 1

    run(play())


def test_a_slow_reader_finds_its_deltas_merged_and_nothing_lost(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        generation = await engine.generate(request("long"))
        time.sleep(1.0)  # noqa: ASYNC251  the reader's loop is busy elsewhere
        events = [event async for event in generation.events()]
        texts = [event for event in events if isinstance(event, TextDelta)]
        assert "".join(event.text for event in texts) == "".join(f"w{n} " for n in range(400))
        assert len(texts) < 100
        await engine.aclose()

    run(play())


def test_thinking_is_done_when_asked_for_and_only_then(engine: Engine) -> None:
    async def play() -> None:
        without = await events_of(engine, COUNT, thinking=False)
        assert not any(isinstance(event, ThinkingDelta) for event in without)
        answer = await ask(engine, COUNT, thinking=True)
        assert answer.thinking.strip()

    run(play())


def test_two_loops_are_served_at_once(engine: Engine) -> None:
    import threading

    texts: list[str] = []

    def other() -> None:
        texts.append(run(ask(engine, COUNT)).text)

    threads = [threading.Thread(target=other) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 4
    assert len(set(texts)) == 1


def test_a_change_of_model_waits_for_running_work_or_cancels_it(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.002)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        generation = await engine.generate(request("long", max_tokens=50))
        _, answer = await asyncio.gather(engine.load(tmp_path), generation.collect())
        assert answer.finished.stop.kind is StopKind.MAX_TOKENS
        generation = await engine.generate(request("long"))
        await engine.load(tmp_path, cancels_running=True)
        assert (await generation.collect()).finished.stop.kind is StopKind.CANCELLED
        assert (await ask(engine, "short")).text == "yes"
        await engine.unload()
        assert engine.model is None
        with pytest.raises(NoModel):
            await engine.generate(request("short"))
        await engine.aclose()

    run(play())


def test_decoding_goes_on_while_a_long_prompt_is_read(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, context=100_000, step_s=0.002)

    async def play() -> None:
        engine = Engine(Limits(prefill_chunk=16), loader=stage.load)
        await engine.load(tmp_path)
        running = await engine.generate(request("long"))
        reader = asyncio.ensure_future(running.collect())
        await asyncio.sleep(0.05)
        long = await engine.generate(request("y" * 1600, max_tokens=1))
        await long.collect()
        # 1,600 characters are 100 chunks: had they held up decoding, the other answer would
        # have stood still while they were read.
        running.cancel()
        answer = await reader
        assert answer.finished.usage.output_tokens > 60
        await engine.aclose()

    run(play())


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_a_seed_gives_the_same_answer_alone_and_in_a_batch(
    engine: Engine, temperature: float
) -> None:
    async def play() -> None:
        drawn = Sampling(temperature=temperature, seed=11)
        alone = (await ask(engine, "Hello there", max_tokens=16, sampling=drawn)).text
        others = [ask(engine, f"Repeat exactly: a {n}", max_tokens=16) for n in range(5)]
        answers = await asyncio.gather(
            ask(engine, "Hello there", max_tokens=16, sampling=drawn), *others
        )
        assert answers[0].text == alone

    run(play())


def test_a_cancel_while_queued_takes_no_row(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.005)

    async def play() -> None:
        engine = Engine(Limits(max_rows=1), loader=stage.load)
        await engine.load(tmp_path)
        first = await engine.generate(request("long", max_tokens=30))
        queued = await engine.generate(request("short"))
        queued.cancel()
        answer = await queued.collect()
        assert answer.finished.stop.kind is StopKind.CANCELLED
        assert answer.finished.usage.output_tokens == 0
        assert (await first.collect()).finished.stop.kind is StopKind.MAX_TOKENS
        await engine.aclose()

    run(play())


def test_a_cancel_while_holding_releases_what_was_held(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "EN", *["é"] * 50]}, step_s=0.02)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        generation = await engine.generate(request("go", "ENéééééééé" + "é" * 60))
        await asyncio.sleep(0.5)
        generation.cancel()
        answer = await generation.collect()
        assert answer.text.startswith("aENé")
        assert answer.finished.stop.held == answer.text[1:]
        await engine.aclose()

    run(play())


def test_negative_seeds_are_seeds(engine: Engine) -> None:
    hot = Sampling(temperature=1.0, seed=-5)
    assert run(ask(engine, "hi", max_tokens=4, sampling=hot)).finished.error is None


def test_a_change_of_model_happens_after_the_last_row_was_cancelled(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.005)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        generation = await engine.generate(request("long"))
        loading = asyncio.ensure_future(engine.load(tmp_path))
        await asyncio.sleep(0.05)
        generation.cancel()
        await loading
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def test_a_request_given_up_before_a_change_of_model_never_runs(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.005)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        first = await engine.generate(request("long", max_tokens=40))
        loading = asyncio.ensure_future(engine.load(tmp_path))
        await asyncio.sleep(0.02)
        behind = asyncio.ensure_future(engine.generate(request("long")))
        await asyncio.sleep(0.02)
        behind.cancel()
        await asyncio.gather(first.collect(), loading)
        await asyncio.sleep(0.1)
        assert engine.status.running == 0
        await engine.aclose()

    run(play())


def test_the_whole_prompt_can_be_seen_token_by_token(engine: Engine) -> None:
    request = GenerationRequest((Message("system", "Be brief."), Message("user", "Hi")))

    async def look() -> tuple[tuple[tuple[int, str], ...], int]:
        return await engine.prompt_pieces(request), await engine.count_tokens(request)

    pieces, count = run(look())
    assert len(pieces) == count
    text = "".join(piece for _, piece in pieces)
    assert text.startswith(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>"
    )


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux does")
def test_loading_models_again_and_again_leaves_no_thread_behind(demo_model_path: Path) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    async def load_often() -> list[int]:
        engine = Engine()
        counts = []
        for _ in range(5):
            await engine.load(demo_model_path)
            message = Message("user", "Count from 1 to 3")
            request = GenerationRequest((message,), max_tokens=3, trace=TraceLevel.FULL)
            await (await engine.generate(request)).collect()
            counts.append(threads())
        await engine.aclose()
        return counts

    counts = run(load_often())
    assert counts[-1] <= counts[1]
