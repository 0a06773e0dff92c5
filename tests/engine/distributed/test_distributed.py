"""One engine of several processes: a follower's work, their meeting, and sharding."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.distributed import follower, shared_batch
from engine.distributed.follower import FollowerFailed, follow
from engine.distributed.followers import Followers
from engine.distributed.link import Insert, Leave, LoadShard, ShardLoaded, StepBatch
from engine.distributed.shared_batch import meet, shard, versions
from engine.distributed.world import BadLaunch, Meeting, World, fingerprint_of, portable
from engine.errors import EngineClosed, ModelLoadFailed
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from tests.support.asking import ask, request, run
from tests.support.scripted import Stage

TWO = World(0, ("127.0.0.1", "127.0.0.1"), "ring")


def test_a_follower_carries_out_orders_and_reports_once_what_it_cannot_do(
    demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []
    leader = Followers(TWO, versions(), lost.append, silence_s=10)
    monkeypatch.setattr(shared_batch, "shared", lambda *_: leader.invitation())
    monkeypatch.setattr(follower, "NOTICED_S", 0.1)  # rank 0 does not end
    said: list[ShardLoaded] = []

    def lead() -> None:
        leader.gather()
        fingerprint = fingerprint_of(demo_model_path)
        for folder, stated in (
            ("/nowhere", ""),
            (demo_model_path, "x"),
            (demo_model_path, fingerprint),
        ):
            leader.announce(LoadShard(str(folder), stated, 8, 2))
            [(_, reply)] = leader.wait_until_loaded()
            said.append(reply)
        leader.announce(Insert([1, 2, 3], 0, 0, 0))
        for _ in range(3):
            leader.announce(StepBatch(64, together=2))
        leader.announce(Leave([0], [[7]]))
        leader.announce(Insert([1, 2, 3, 7, 9], 1, 4, 1))  # found under what rank 0 drew
        leader.announce(Insert([4, 5], 9, 0, 1))

    leading = threading.Thread(target=lead)
    leading.start()
    alone = mx.distributed.init()
    ended: list[str] = []
    why = "sequence 2 with 0 cached tokens, where rank 0 has sequence 9"
    with pytest.raises(FollowerFailed, match=why):
        follow(Meeting(World(1, TWO.hosts, "ring"), alone), ended.append)
    leading.join(60)
    assert "nowhere does not exist" in said[0].error
    assert "is not the model that rank 0 has" in said[1].error
    assert said[2].error == ""
    assert said[2].weights_bytes > 3_000_000
    deadline_s = time.monotonic() + 60
    while not lost and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert len(lost) == 1
    assert lost[0].startswith("rank 1 (127.0.0.1) failed: sequence 2 with 0 cached tokens")
    assert ended == []
    leader.end()


def group_after(monkeypatch: pytest.MonkeyPatch, *errors: str) -> list[str]:
    """Let MLX fail with each of these errors before it connects; return those that are left."""
    left = list(errors)

    class Group:
        rank = staticmethod(lambda: 0)
        size = staticmethod(lambda: 2)

    def init(**_: Any) -> Group:
        if left:
            raise RuntimeError(left.pop(0))
        return Group()

    monkeypatch.setattr(mx.distributed, "init", init)
    monkeypatch.setattr(shared_batch, "_TRIED_AGAIN_AFTER_S", 0)
    return left


def test_a_process_that_starts_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    left = group_after(monkeypatch, *["[ring] Couldn't connect (error: 111)"] * 3)
    assert meet(TWO).world == TWO
    assert not left


def test_an_error_that_no_wait_fixes_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = group_after(monkeypatch, "[ring] Rank cannot be larger than the size", "never asked")
    with pytest.raises(BadLaunch, match="Rank cannot be larger"):
        meet(TWO)
    assert left == ["never asked"]


class Group:
    """So many processes, as far as sharding asks."""

    def __init__(self, size: int) -> None:
        self._size = size

    def size(self) -> int:
        return self._size


def test_a_model_that_cannot_be_sharded_says_why() -> None:
    class Whole:
        pass

    class Headed:
        def shard(self, group: Group) -> None:
            raise AssertionError("its heads do not fit")

    with pytest.raises(ModelLoadFailed, match="cannot shard models of architecture odd"):
        shard(Whole(), {"model_type": "odd"}, Group(2))
    with pytest.raises(ModelLoadFailed, match=r"its 4 heads \(num_attention_heads\)"):
        shard(Headed(), {"num_attention_heads": 4}, Group(3))
    inner = {"text_config": {"num_attention_heads": 8, "num_key_value_heads": 3}}
    with pytest.raises(ModelLoadFailed, match=r"its 3 heads \(num_key_value_heads\)"):
        shard(Headed(), inner, Group(2))


def test_copies_of_a_model_have_the_same_fingerprint_and_other_models_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "copy", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"model_type": "qwen3"}')
        (tmp_path / name / "model.safetensors").write_bytes(b"x" * (5 if name == "other" else 4))
    one, copy, other = (fingerprint_of(tmp_path / name) for name in ("one", "copy", "other"))
    assert one == copy != other
    monkeypatch.setenv("HOME", str(tmp_path))
    assert portable(tmp_path / "one") == "~/one"
    assert portable(Path("/elsewhere/one")) == "/elsewhere/one"


def test_an_engine_that_is_given_up_ends_its_answers_although_its_thread_is_stuck(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": [f"w{n} " for n in range(400)]})
    goes_on = threading.Event()

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        stage.model.fault = lambda number: None if number < 8 else (goes_on.wait(180), None)[1]
        running = await engine.generate(request("go"))
        async with asyncio.timeout(60):
            while len(stage.model.calls) < 8:  # noqa: ASYNC110 - another thread's
                await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(ask(engine, "go"))  # behind the step that never ends
        await asyncio.sleep(0.05)
        await asyncio.to_thread(engine.give_up, "rank 1 is lost", 0.2)
        answer = await running.collect()
        assert answer.text.startswith("w0 ")
        assert answer.finished.stop.kind is StopKind.ERROR
        assert answer.finished.error == "rank 1 is lost"
        with pytest.raises(EngineClosed, match="rank 1 is lost"):
            await waiting
        with pytest.raises(EngineClosed):
            await engine.generate(request("go"))
        await engine.aclose()  # does not wait for the thread

    try:
        run(play(), timeout_s=180)
    finally:
        goes_on.set()
