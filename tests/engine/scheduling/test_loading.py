"""Loading a model: its progress, cancelling it, unloading it while idle, failures in words."""

import asyncio
import shutil
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import ModelLoadFailed, NoModel
from engine.inference.backend import BatchLimits, LoadCancelled, LoadProgress
from engine.library.model_folder import check_folder
from engine.library.weights import weights_size
from engine.stopping.record import StopKind
from tests.engine.scheduling.stages import Failing, SlowLoading, stage_of, until
from tests.support.asking import ask, request


def test_load_progress_reports_phases_and_bytes(demo_model_path: Path, tmp_path: Path) -> None:
    from engine.inference.mlx_loading import load

    seen: list[LoadProgress] = []
    # Weights that another engine of this process has in memory would be shared, not read.
    folder = Path(shutil.copytree(demo_model_path, tmp_path / "copy"))
    load(folder, limits=BatchLimits(512, 1 << 20, 2), on_progress=seen.append).close()

    assert [progress.phase for progress in seen][:2] == ["checking", "tokenizer"]
    total = seen[-1].total_bytes
    assert seen[-1] == LoadProgress("weights", total, total)
    assert 0 < total <= weights_size(demo_model_path)


async def test_cancelled_load_ends_and_another_model_loads(tmp_path: Path) -> None:
    loader = SlowLoading(stage_of(tmp_path))
    loader.goes_on.clear()
    engine = Engine(loader=loader)
    loading = asyncio.ensure_future(engine.load(tmp_path))
    await until(lambda: engine.status.loading is not None)
    engine.cancel_load()
    with pytest.raises(LoadCancelled):
        await loading
    loader.goes_on.set()
    assert (engine.status.state, engine.model, loader.loaded) == ("unloaded", None, 0)
    with pytest.raises(NoModel, match="cancelled"):
        await engine.generate(request("short"))
    await engine.load(tmp_path)
    assert (await ask(engine, "short")).text == "yes"
    await engine.aclose()


class Panic(BaseException):
    """As of a native library."""


@pytest.mark.parametrize("failure", [MemoryError("no room"), Panic("no room")])
async def test_failed_load_keeps_working_model(tmp_path: Path, failure: BaseException) -> None:
    loader = Failing(stage_of(tmp_path))
    engine = Engine(loader=loader)
    before = await engine.load(tmp_path)
    loader.failures = [failure]
    with pytest.raises(ModelLoadFailed, match="no room"):
        await engine.load(tmp_path / "other")
    assert engine.model == before
    assert engine.status.is_unloaded
    assert (await ask(engine, "short")).text == "yes"
    await engine.aclose()


async def test_a_mistyped_folder_does_not_disturb_running_answers(tmp_path: Path) -> None:
    loader = Failing(stage_of(tmp_path, step_s=0.005))
    engine = Engine(loader=loader, check=check_folder)
    before = await engine.load(tmp_path)
    running = await engine.generate(request("long", max_tokens=60))
    with pytest.raises(ModelLoadFailed, match="does not exist"):
        await engine.load(tmp_path / "mistyped", cancels_running=True)
    assert (await running.collect()).finished.stop.kind is StopKind.MAX_TOKENS
    assert (engine.model, engine.status.is_unloaded, loader.loaded) == (before, False, 1)
    await engine.aclose()


@pytest.mark.parametrize("has_model", [True, False])
async def test_a_caller_that_is_cancelled_cancels_the_load(tmp_path: Path, has_model: bool) -> None:
    loader = SlowLoading(stage_of(tmp_path))
    engine = Engine(loader=loader)
    before = await engine.load(tmp_path) if has_model else None
    loader.goes_on.clear()
    loading = asyncio.ensure_future(engine.load(tmp_path))
    await until(lambda: engine.status.loading is not None)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    await until(lambda: engine.status.state != "loading")
    loader.goes_on.set()
    assert (engine.model, engine.status.is_unloaded) == (before, has_model)
    assert loader.loaded == int(has_model)
    if has_model:
        assert (await ask(engine, "short")).text == "yes"
    else:
        with pytest.raises(NoModel, match="cancelled"):
            await engine.generate(request("short"))
    await engine.aclose()
