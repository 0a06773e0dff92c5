"""Loading a model: its progress, cancelling it, unloading it while idle, failures in words."""

import asyncio
import json
import math
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from engine.errors import EngineError, ModelLoadFailed, NoModel
from engine.inference import weights
from engine.inference.backend import BatchLimits
from engine.inference.mlx_backend import MlxBackend
from engine.library.loading import LoadCancelled, LoadProgress, OnLoadProgress
from engine.library.models import check_folder
from engine.scheduling.service import Engine
from engine.scheduling.thread import worker
from engine.stopping.record import StopKind
from tests.support.asking import ask, request, run
from tests.support.scripted import Stage


def stage_of(folder: Path, **options: Any) -> Stage:
    return Stage(folder, {"long": [f"w{n} " for n in range(400)], "short": ["yes"]}, **options)


class SlowLoading:
    """Loads a stage's model, as slowly as weights from a disk; counts what was loaded."""

    def __init__(self, stage: Stage, part_s: float = 0.02) -> None:
        self.stage = stage
        self.loaded = 0
        self._part_s = part_s

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> MlxBackend:
        for done in range(0, 101, 10):
            on_progress(LoadProgress("weights", done, 100))
            time.sleep(self._part_s)
        self.loaded += 1
        return self.stage.load(folder, **options)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what changes is another thread's
            await asyncio.sleep(0.005)


def test_loading_tells_its_phases_and_all_bytes_of_the_weights(demo_model_path: Path) -> None:
    from engine.inference import mlx_loading

    seen: list[LoadProgress] = []
    mlx_loading.load(
        demo_model_path, limits=BatchLimits(512, 1 << 20, 2), on_progress=seen.append
    ).close()

    size = (demo_model_path / "model.safetensors").stat().st_size
    assert [progress.phase for progress in seen][:2] == ["checking", "tokenizer"]
    assert seen[-1] == LoadProgress("weights", size, size)


def test_the_status_tells_how_far_loading_has_come(tmp_path: Path) -> None:
    async def play() -> None:
        engine = Engine(loader=SlowLoading(stage_of(tmp_path)))
        loading = asyncio.ensure_future(engine.load(tmp_path))
        await until(lambda: (now := engine.status.loading) is not None and now.done_bytes >= 50)
        assert engine.status.state == "loading"
        await loading
        assert engine.status.loading is None
        await engine.aclose()

    run(play())


def test_loading_that_is_cancelled_ends_soon_and_another_model_can_be_loaded(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        loader = SlowLoading(stage_of(tmp_path))
        engine = Engine(loader=loader)
        loading = asyncio.ensure_future(engine.load(tmp_path))
        await until(lambda: engine.status.loading is not None)
        engine.cancel_load()
        with pytest.raises(LoadCancelled):
            await loading
        assert (engine.status.state, engine.model, loader.loaded) == ("none", None, 0)
        with pytest.raises(NoModel, match="cancelled"):
            await engine.generate(request("short"))
        await engine.load(tmp_path)
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def test_a_change_that_is_cancelled_while_it_waits_keeps_model_and_answer(tmp_path: Path) -> None:
    async def play() -> None:
        loader = SlowLoading(stage_of(tmp_path, step_s=0.005), part_s=0)
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        generation = await engine.generate(request("long", max_tokens=60))
        change = asyncio.ensure_future(engine.load(tmp_path))
        asked_later = asyncio.ensure_future(ask(engine, "short"))
        await asyncio.sleep(0.05)
        engine.cancel_load()
        with pytest.raises(LoadCancelled):
            await change
        assert (await asked_later).text == "yes"
        assert (await generation.collect()).finished.stop.kind is StopKind.MAX_TOKENS
        assert loader.loaded == 1
        await engine.aclose()

    run(play())


def test_an_idle_model_is_unloaded_and_loaded_again_for_the_next_request(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        loader = SlowLoading(stage_of(tmp_path), part_s=0)
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        engine.unload_after(0.05)
        await until(lambda: engine.status.is_unloaded)
        # It is still the loaded model for everybody who asks.
        assert engine.model is not None
        assert engine.status.state == "ready"
        assert (await ask(engine, "short")).text == "yes"
        assert loader.loaded == 2
        await until(lambda: engine.status.is_unloaded)
        assert len(await engine.tokenize("yes")) > 0
        assert loader.loaded == 3
        await engine.aclose()

    run(play())


def test_freed_memory_is_returned_once_after_answers_and_once_after_unloading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[bool] = []

    async def play() -> None:
        engine = Engine(loader=stage_of(tmp_path).load)
        await engine.load(tmp_path)
        monkeypatch.setattr(worker, "return_freed_memory", lambda: returned.append(is_over))
        is_over = False
        answers = [await engine.generate(request("short")) for _ in range(3)]
        await asyncio.gather(*(one.collect() for one in answers))
        is_over = True
        await until(lambda: True in returned)
        engine.unload_when_idle()
        await until(lambda: engine.status.is_unloaded and returned.count(True) >= 2)
        await engine.aclose()

    run(play())


class Waking:
    """Loads a stage's model at once, and from the second time on until the test lets it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._loads = 0
        self.may_wake = threading.Event()

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> MlxBackend:
        self._loads += 1
        deadline_s = time.monotonic() + 60
        while self._loads > 1 and not self.may_wake.is_set() and time.monotonic() < deadline_s:
            on_progress(LoadProgress("weights", 1, 100))
            time.sleep(0.005)
        return self._stage.load(folder, **options)


def test_closing_does_not_wait_for_a_model_that_is_being_read_again(tmp_path: Path) -> None:
    async def play() -> None:
        loader = Waking(stage_of(tmp_path))
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        engine.unload_after(0.01)
        await until(lambda: engine.status.is_unloaded)
        asked = asyncio.create_task(engine.generate(request("short")))
        await until(lambda: engine.status.state == "loading")
        async with asyncio.timeout(30):
            await engine.aclose()
        assert not loader.may_wake.is_set()
        with pytest.raises(EngineError):
            await asked

    run(play())


def test_a_question_given_up_while_the_model_is_read_again_is_never_answered(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        loader = Waking(stage_of(tmp_path))
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        engine.unload_after(0.2)
        await until(lambda: engine.status.is_unloaded)
        asked = asyncio.create_task(engine.generate(request("long")))
        await until(lambda: engine.status.state == "loading")
        # It stays the loaded model for everybody who looks meanwhile.
        assert engine.model is not None
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        loader.may_wake.set()
        assert (await ask(engine, "short")).text == "yes"
        await until(lambda: engine.status.running + engine.status.waiting == 0)
        await engine.aclose()

    run(play())


def test_a_model_that_works_does_not_rest(tmp_path: Path) -> None:
    async def play() -> None:
        loader = SlowLoading(stage_of(tmp_path, step_s=0.01), part_s=0)
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        engine.unload_after(0.2)
        answer = await ask(engine, "long", max_tokens=60)
        assert answer.finished.usage.output_tokens == 60
        assert loader.loaded == 1
        engine.unload_after(None)
        await asyncio.sleep(0.4)
        assert not engine.status.is_unloaded
        await engine.aclose()

    run(play())


def test_unloading_waits_for_the_answer_that_runs_and_the_next_request_loads_the_model_again(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        loader = SlowLoading(stage_of(tmp_path, step_s=0.005), part_s=0)
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        generation = await engine.generate(request("long", max_tokens=20))
        engine.unload_when_idle()
        assert (await generation.collect()).finished.usage.output_tokens == 20
        await until(lambda: engine.status.is_unloaded)
        assert (loader.loaded, engine.model is not None) == (1, True)
        assert (await ask(engine, "short")).text == "yes"
        assert loader.loaded == 2
        # It was asked for once, and has been done.
        await asyncio.sleep(0.2)
        assert not engine.status.is_unloaded
        await engine.aclose()

    run(play())


def test_a_request_that_comes_before_the_rest_keeps_the_model(tmp_path: Path) -> None:
    async def play() -> None:
        loader = SlowLoading(stage_of(tmp_path, step_s=0.005), part_s=0)
        engine = Engine(loader=loader)
        engine.unload_when_idle()
        await engine.load(tmp_path)
        first = await engine.generate(request("long", max_tokens=20))
        engine.unload_when_idle()
        second = await engine.generate(request("long", max_tokens=40))
        assert (await first.collect()).finished.usage.output_tokens == 20
        assert (await second.collect()).finished.usage.output_tokens == 40
        assert (await ask(engine, "short")).text == "yes"
        assert loader.loaded == 1
        await engine.aclose()

    run(play())


def test_unloading_a_model_that_was_unloaded_while_idle_leaves_none(tmp_path: Path) -> None:
    async def play() -> None:
        engine = Engine(loader=stage_of(tmp_path).load)
        await engine.load(tmp_path)
        engine.unload_after(0.01)
        await until(lambda: engine.status.is_unloaded)
        await engine.unload()
        assert engine.model is None
        with pytest.raises(NoModel):
            await engine.generate(request("short"))
        await engine.aclose()

    run(play())


class Failing:
    """Loads a stage's model, unless there is something to fail with."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.failures: list[Exception] = []
        self.loaded = 0

    def __call__(self, folder: Path, **options: Any) -> MlxBackend:
        self.loaded += 1
        if self.failures:
            raise self.failures.pop()
        return self.stage.load(folder, **options)


def test_a_model_that_could_not_be_read_again_once_is_tried_at_the_next_request(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        loader = Failing(stage_of(tmp_path))
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        engine.unload_after(0.01)
        await until(lambda: engine.status.is_unloaded)
        loader.failures = [MemoryError("no room"), ModelLoadFailed("still no room")]
        with pytest.raises(NoModel, match="scripted could not be read again: still no room"):
            await engine.generate(request("short"))
        # It is still the loaded model for everybody who asks.
        assert (engine.status.state, engine.status.is_unloaded) == ("ready", True)
        assert engine.model is not None
        with pytest.raises(NoModel, match="MemoryError: no room"):
            await engine.count_tokens(request("short"))
        assert (await ask(engine, "short")).text == "yes"
        assert loader.loaded == 4
        await engine.aclose()

    run(play())


def test_a_model_that_cannot_be_loaded_does_not_take_the_one_that_works_away(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        loader = Failing(stage_of(tmp_path))
        engine = Engine(loader=loader)
        before = await engine.load(tmp_path)
        loader.failures = [MemoryError("no room")]
        with pytest.raises(ModelLoadFailed, match="no room"):
            await engine.load(tmp_path / "other")
        assert engine.model == before
        assert engine.status.is_unloaded
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def test_a_mistyped_folder_costs_nothing_not_even_the_running_answers(tmp_path: Path) -> None:
    async def play() -> None:
        loader = Failing(stage_of(tmp_path, step_s=0.005))
        engine = Engine(loader=loader, check=check_folder)
        before = await engine.load(tmp_path)
        running = await engine.generate(request("long", max_tokens=60))
        with pytest.raises(ModelLoadFailed, match="does not exist"):
            await engine.load(tmp_path / "mistyped", cancels_running=True)
        assert (await running.collect()).finished.stop.kind is StopKind.MAX_TOKENS
        assert (engine.model, engine.status.is_unloaded, loader.loaded) == (before, False, 1)
        await engine.aclose()

    run(play())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "wonder"}, "architecture wonder"),
        ({"model_file": "evil.py"}, "never run"),
        ({"model_type": None}, "not a language model"),
    ],
)
def test_what_mlx_cannot_load_is_seen_before_the_present_model_is_freed(
    copied: Path, demo_model_path: Path, fields: dict[str, object], words: str
) -> None:
    changed_config(copied, **fields)

    async def play() -> None:
        engine = Engine()
        before = await engine.load(demo_model_path)
        with pytest.raises(ModelLoadFailed, match=words):
            await engine.load(copied)
        assert (engine.model, engine.status.is_unloaded) == (before, False)
        await engine.aclose()

    run(play())


@pytest.mark.parametrize("has_model", [True, False])
def test_a_caller_that_gives_up_breaks_the_loading_off(tmp_path: Path, has_model: bool) -> None:
    async def play() -> None:
        loader = SlowLoading(stage_of(tmp_path))
        engine = Engine(loader=loader)
        before = await engine.load(tmp_path) if has_model else None
        loading = asyncio.ensure_future(engine.load(tmp_path))
        await until(lambda: engine.status.loading is not None)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        await until(lambda: engine.status.state != "loading")
        assert (engine.model, engine.status.is_unloaded) == (before, has_model)
        assert loader.loaded == int(has_model)
        if has_model:
            assert (await ask(engine, "short")).text == "yes"
        else:
            with pytest.raises(NoModel, match="cancelled"):
                await engine.generate(request("short"))
        await engine.aclose()

    run(play())


def test_a_fresh_thread_has_the_model_that_was_kept_although_another_load_failed(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        loader = Failing(stage_of(tmp_path))
        engine = Engine(loader=loader)
        await engine.load(tmp_path)
        loader.failures = [MemoryError("no room")]
        with pytest.raises(ModelLoadFailed):
            await engine.load(tmp_path / "other")
        loader.stage.model.fault = die_once()
        generation = await engine.generate(request("short"))
        assert (await generation.collect()).finished.stop.kind is StopKind.ERROR
        await until(lambda: engine.status.state == "failed")
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def die_once() -> Callable[[int], None]:
    left = [SystemExit("the thread dies")]

    def die(_: int) -> None:
        if left:
            raise left.pop()

    return die


# -- failures in words ------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path: Path, demo_model_path: Path) -> Path:
    folder = tmp_path / "a-model"
    shutil.copytree(demo_model_path, folder, ignore=shutil.ignore_patterns("*.py"))
    return folder


def changed_config(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def failure(folder: Path) -> str:
    async def play() -> str:
        engine = Engine()
        with pytest.raises(ModelLoadFailed) as caught:
            await engine.load(folder)
        assert engine.status.message == str(caught.value)
        await engine.aclose()
        return str(caught.value)

    return run(play())


def test_an_architecture_that_is_not_supported_is_named_with_the_version(copied: Path) -> None:
    changed_config(copied, model_type="mamba9")

    assert failure(copied) == (
        f"a-model is of architecture mamba9, which mlx-lm {mlx_lm.__version__} does not support; "
        "a later version may"
    )


def test_what_is_no_language_model_is_said_to_be_none(copied: Path) -> None:
    changed_config(copied, model_type=None)

    assert failure(copied) == "a-model is not a language model: its config.json names no model_type"


def test_weights_that_do_not_fit_the_architecture_are_named(copied: Path) -> None:
    changed_config(copied, hidden_size=64, head_dim=16)

    assert failure(copied).startswith("a-model could not be loaded: ")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\x1b[2J\nb", r"architecture a\x1b[2J b,"), ("\ud800", r"architecture \ud800,")],
)
def test_what_a_model_says_of_itself_steers_no_terminal(
    copied: Path, name: str, shown: str
) -> None:
    changed_config(copied, model_type=name)

    assert shown in failure(copied)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_attention_heads": 0, "head_dim": None},
        {"hidden_size": 10**18},
        {"rope_scaling": ["x"]},
        {"quantization": 5},
        {"vocab_size": -1},
        {"num_hidden_layers": 1e308},
    ],
    ids=json.dumps,
)
def test_absurd_values_of_a_configuration_are_refused_in_words(
    copied: Path, fields: dict[str, object]
) -> None:
    changed_config(copied, **fields)

    assert failure(copied).startswith("a-model could not be loaded: ")


def test_a_long_complaint_about_a_model_is_cut(copied: Path) -> None:
    changed_config(copied, num_hidden_layers=900)

    assert len(failure(copied)) < 700


def test_code_that_lies_in_a_model_is_not_run(copied: Path, tmp_path: Path) -> None:
    proof = tmp_path / "run"
    (copied / "evil.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    changed_config(copied, model_file="evil.py", auto_map={"AutoTokenizer": "evil.T"})

    assert failure(copied) == (
        "a-model needs code of its own (evil.py), and code from models is never run"
    )
    assert not proof.exists()


def damaged(folder: Path, name: str, place: int, value: float, dtype: mx.Dtype) -> None:
    """Write one value into a weight of a model folder."""
    file = folder / "model.safetensors"
    weights: dict[str, mx.array] = mx.load(str(file))  # type: ignore[assignment]
    shape = weights[name].shape
    flat = weights[name].reshape(-1).astype(dtype)
    flat[place] = value
    weights[name] = flat.reshape(shape)
    mx.save_safetensors(str(folder / "whole.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "whole.safetensors").replace(file)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("place", [0, 777, -1])
def test_weights_that_are_no_numbers_are_refused_by_name(
    copied: Path, dtype: mx.Dtype, place: int
) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    damaged(copied, name, place, math.nan, dtype)

    async def play() -> None:
        engine = Engine()
        with pytest.raises(ModelLoadFailed) as failed:
            await engine.load(copied)
        assert str(failed.value) == (
            f"{copied.name} is damaged: its weights {name} contain values that are not numbers "
            "(NaN). "
            "Download it again, or convert it again"
        )
        assert engine.status.state == "failed"
        await engine.aclose()

    run(play())


def test_a_model_that_works_is_kept_where_another_one_is_damaged(
    copied: Path, demo_model_path: Path
) -> None:
    damaged(copied, "model.embed_tokens.weight", 5, math.nan, mx.float32)

    async def play() -> None:
        engine = Engine()
        await engine.load(demo_model_path)
        with pytest.raises(ModelLoadFailed):
            await engine.load(copied)
        assert (await ask(engine, "Hi", max_tokens=2)).finished.usage.output_tokens == 2
        await engine.aclose()

    run(play())


@pytest.mark.parametrize("value", [math.inf, -math.inf, 3.3e38])
def test_weights_whose_sum_is_beyond_all_numbers_are_no_damage(copied: Path, value: float) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    damaged(copied, name, 0, value, mx.float32)
    damaged(copied, name, 1, abs(value), mx.float32)
    run(load_and_close(copied))


async def load_and_close(folder: Path) -> None:
    engine = Engine()
    await engine.load(folder)
    await engine.aclose()


def test_weights_that_are_whole_numbers_are_not_looked_at(tmp_path: Path) -> None:
    """Packed weights may look like anything, also like NaN."""
    model = SimpleNamespace(parameters=lambda: {"packed": mx.full((8, 8), 0x7FC0_7FC0, mx.uint32)})
    told: list[LoadProgress] = []
    weights.read(model, 256, told.append)
    assert [one.done_bytes for one in told] == [0, 256]


def test_weights_are_checked_without_a_copy() -> None:
    mx.eval(large := mx.zeros((64 << 20,), mx.float16))
    large[-1] = math.nan
    mx.eval(large)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    with pytest.raises(weights.DamagedWeights):
        weights.read(SimpleNamespace(parameters=lambda: {"large": large}), 1, lambda _: None)
    assert mx.get_peak_memory() - before < 16 << 20
