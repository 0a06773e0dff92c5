"""One engine of several processes: their launch, their messages, and the loss of one of them."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.distributed import sharding
from engine.distributed.arrivals import Arrivals
from engine.distributed.copies import fingerprint_of, portable
from engine.distributed.followers import Followers, RankLost
from engine.distributed.following import FollowerFailed, follow
from engine.distributed.link import Link, LinkLost
from engine.distributed.messages import (
    Close,
    End,
    Failed,
    Hello,
    Insert,
    Keepalive,
    Leave,
    LoadShard,
    Message,
    ShardLoaded,
    StepBatch,
    decoded,
    encoded,
)
from engine.distributed.sharding import shard
from engine.distributed.world import BadLaunch, Meeting, World, launched
from engine.errors import EngineClosed, ModelLoadFailed
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from tests.support.asking import ask, request, run
from tests.support.scripted import Stage

TWO = World(0, ("127.0.0.1", "127.0.0.1"), "ring")


# -- the launch --------------------------------------------------------------------------------


def hostfile(folder: Path, text: str) -> str:
    file = folder / "hosts.json"
    file.write_text(text)
    return str(file)


def test_without_a_launcher_or_with_one_process_there_is_no_world(tmp_path: Path) -> None:
    assert launched({}) is None
    assert launched({"MLX_RANK": "0"}) is None
    assert launched({"MLX_RANK": "0", "MLX_HOSTFILE": hostfile(tmp_path, "\n")}) is None
    one = hostfile(tmp_path, '[["10.0.0.1:5000"]]')
    assert launched({"MLX_RANK": "0", "MLX_HOSTFILE": one}) is None


def test_the_launcher_names_rank_and_peers(tmp_path: Path) -> None:
    file = hostfile(tmp_path, '[["10.0.0.1:5000", "10.0.1.1:5001"], ["10.0.0.2:5002"]]')
    world = launched({"MLX_RANK": "1", "MLX_HOSTFILE": file})
    assert world == World(1, ("10.0.0.1", "10.0.0.2"), "ring")
    assert world.size == 2
    assert world.name_of(0) == "rank 0 (10.0.0.1)"


def test_the_other_transports_of_the_launcher_are_known(tmp_path: Path) -> None:
    devices = hostfile(tmp_path, '[[null, "rdma_en2"], ["rdma_en2", null]]')
    by_cable = {"MLX_IBV_DEVICES": devices, "MLX_JACCL_COORDINATOR": "10.0.0.1:32323"}
    assert launched({"MLX_RANK": "1", **by_cable}) == World(1, ("10.0.0.1", ""), "jaccl")
    on_cards = {"MLX_WORLD_SIZE": "2", "NCCL_HOST_IP": "10.0.0.1"}
    assert launched({"MLX_RANK": "0", **on_cards}) == World(0, ("10.0.0.1", ""), "nccl")


@pytest.mark.parametrize(
    ("rank", "text", "said"),
    [
        ("x", '[["a:1"], ["b:2"]]', "MLX_RANK is 'x', which is not a number"),
        ("2", '[["a:1"], ["b:2"]]', "names 2 processes"),
        ("0", "[[", "cannot be read"),
        ("0", "{}", "does not hold a list"),
        ("0", "[1, 2]", "does not list addresses"),
    ],
)
def test_a_launch_that_makes_no_sense_is_told(
    tmp_path: Path, rank: str, text: str, said: str
) -> None:
    with pytest.raises(BadLaunch, match=said):
        launched({"MLX_RANK": rank, "MLX_HOSTFILE": hostfile(tmp_path, text)})


# -- messages ----------------------------------------------------------------------------------

tokens = st.lists(st.integers(0, 1 << 20), max_size=20)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, st.integers(0, 9), st.text()),
    st.builds(LoadShard, st.text(), st.text(), st.integers(1), st.integers(1)),
    st.builds(ShardLoaded, st.integers(0), st.text()),
    st.builds(Insert, tokens, st.integers(0), st.integers(0), st.integers(0)),
    st.builds(Leave, st.integers(0), tokens),
    st.builds(Failed, st.text()),
    st.sampled_from([Keepalive(), StepBatch(64), Close(), End()]),
)


@given(messages)
def test_every_message_survives_the_wire(message: Message) -> None:
    assert decoded(encoded(message)) == message


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b'["StepBatch"]', b'["Nothing",{}]', b'["StepBatch",{"a":1}]']
)
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own errors are some of them
        decoded(payload)


# -- one link ----------------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            yield near, far


def test_messages_arrive_in_order_however_they_are_cut(ends: Any) -> None:
    near, far = ends
    link = Link(far, 5)
    sent = [Insert(list(range(50_000)), 1, 2, 3), StepBatch(64), Leave(1, [5])]
    writer = threading.Thread(target=lambda: [Link(near, 5).send(message) for message in sent])
    writer.start()
    assert [link.receive() for _ in sent] == sent
    writer.join()


def test_an_end_a_silence_and_nonsense_lose_the_link_each_in_its_words(ends: Any) -> None:
    near, far = ends
    link = Link(far, 0.1)
    with pytest.raises(LinkLost, match=r"silent for 0.1 s"):
        link.receive()
    near.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(LinkLost, match="not a message of Fullstop"):
        link.receive()
    near.close()
    with pytest.raises(LinkLost, match="its process has ended"):
        link.receive()


def test_signs_of_life_keep_a_link_that_has_nothing_to_say(ends: Any) -> None:
    near, far = ends
    quiet, link = Link(near, 1), Link(far, 1)
    quiet.send_keepalives()
    began_s = time.monotonic()
    while time.monotonic() - began_s < 1.5:
        assert link.receive() == Keepalive()
    quiet.close()


# -- rank 0 and its followers ------------------------------------------------------------------


class Peer:
    """A follower's end, played by a test."""

    def __init__(self, followers: Followers, *, secret: str = "", versions: str = "v1") -> None:
        told = json.loads(followers.invitation())
        connection = socket.create_connection((told["hosts"][0], told["port"]))
        connection.sendall((secret or told["secret"]).encode())
        self.link = Link(connection, 60)
        self.link.send(Hello(1, versions))


@pytest.fixture
def lost() -> list[str]:
    return []


@pytest.fixture
def followers(lost: list[str]) -> Iterator[Followers]:
    with closing_followers(silence_s=10, lost=lost) as found:
        yield found


@contextlib.contextmanager
def closing_followers(*, silence_s: float, lost: list[str]) -> Iterator[Followers]:
    found = Followers(TWO, "v1", lost.append, silence_s=silence_s)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def peer_of() -> Iterator[Callable[..., Peer]]:
    """Makes peers, and closes their ends after the test."""
    made: list[Peer] = []

    def make(followers: Followers, **told: str) -> Peer:
        made.append(Peer(followers, **told))
        return made[-1]

    yield make
    for peer in made:
        peer.link.close()


def test_orders_reach_a_follower_and_its_replies_come_back(
    followers: Followers, peer_of: Callable[..., Peer]
) -> None:
    peer = peer_of(followers)
    followers.gather()
    peer.link.send_keepalives()
    followers.announce(StepBatch(64))
    while (order := peer.link.receive()) == Keepalive():
        pass
    assert order == StepBatch(64)
    peer.link.send(ShardLoaded(7))
    assert followers.wait_until_loaded() == [(1, ShardLoaded(7))]
    followers.end()
    while (order := peer.link.receive()) == Keepalive():
        pass
    assert order == End()


def test_a_stranger_is_not_let_in(
    followers: Followers, lost: list[str], peer_of: Callable[..., Peer]
) -> None:
    stranger = peer_of(followers, secret="guessed")
    peer = peer_of(followers)
    followers.gather()
    with pytest.raises(LinkLost):
        stranger.link.receive()
    peer.link.send_keepalives()
    followers.announce(StepBatch(64))
    assert lost == []


def test_strangers_delay_nobody_and_nothing_they_send_is_parsed() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    place = listener.getsockname()
    # A stranger that were waited for would be waited for longer than any test runs.
    arrivals = Arrivals(listener, b"secret", patience_s=3600)
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(socket.create_connection(place)) for _ in range(100)]
        for number, stranger in enumerate(strangers):
            stranger.sendall((b"", b"sec", b"[" * 100_000, b"\xff\xff\xff\xff")[number % 4])
        strangers[0].shutdown(socket.SHUT_RDWR)
        for _ in range(2):
            follower = stack.enter_context(socket.create_connection(place))
            follower.sendall(b"sec")
            follower.sendall(b"ret and more")
            connection = stack.enter_context(arrivals.next(60))
            connection.settimeout(60)
            assert connection.recv(100) == b" and more"
        with pytest.raises(TimeoutError):
            arrivals.next(0)
        arrivals.close()
        with pytest.raises(ConnectionAbortedError):
            arrivals.next(1)


def test_a_connection_that_proves_nothing_is_dropped_after_a_while() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    arrivals = Arrivals(listener, b"secret", patience_s=0.05)
    with socket.create_connection(listener.getsockname()) as stranger:
        with pytest.raises(TimeoutError):
            arrivals.next(2)
        stranger.settimeout(60)
        assert stranger.recv(1) == b""
    arrivals.close()


def test_other_versions_are_refused_with_both_named(
    followers: Followers, lost: list[str], peer_of: Callable[..., Peer]
) -> None:
    peer_of(followers, versions="v2")
    with pytest.raises(RankLost, match=r"rank 1 .* runs v2, rank 0 runs v1"):
        followers.gather()
    assert len(lost) == 1


def test_a_follower_that_falls_silent_is_lost_once_and_for_good(
    lost: list[str], peer_of: Callable[..., Peer]
) -> None:
    with closing_followers(silence_s=0.3, lost=lost) as followers:
        peer_of(followers)
        followers.gather()
        deadline_s = time.monotonic() + 60
        while not lost and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert lost == ["rank 1 (127.0.0.1) is lost: it was silent for 0.3 s"]
        with pytest.raises(RankLost, match="silent"):
            followers.announce(StepBatch(64))
        assert followers.blame(RuntimeError("x")).args == (lost[0],)
        assert len(lost) == 1


def test_a_follower_that_fails_says_why(
    followers: Followers, lost: list[str], peer_of: Callable[..., Peer]
) -> None:
    peer = peer_of(followers)
    followers.gather()
    peer.link.send(Failed("out of memory"))
    with pytest.raises(RankLost, match=r"rank 1 .* failed: out of memory"):
        followers.wait_until_loaded()
    assert lost == ["rank 1 (127.0.0.1) failed: out of memory"]


def test_letting_them_go_is_no_loss(
    followers: Followers, lost: list[str], peer_of: Callable[..., Peer]
) -> None:
    peer = peer_of(followers)
    followers.gather()
    followers.end()
    peer.link.close()
    time.sleep(0.1)
    assert lost == []
    with pytest.raises(RankLost, match="have been ended"):
        followers.check()


# -- a follower --------------------------------------------------------------------------------


def test_a_follower_obeys_and_what_it_cannot_do_it_says_once(
    demo_model_path: Path, lost: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Followers(TWO, sharding.versions(), lost.append, silence_s=10)
    monkeypatch.setattr(sharding, "shared", lambda *_: leader.invitation())
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
            leader.announce(StepBatch(64))
        leader.announce(Leave(0, [7]))
        leader.announce(Insert([1, 2, 3, 7, 9], 1, 4, 1))  # found under what rank 0 drew
        leader.announce(Insert([4, 5], 9, 0, 1))

    leading = threading.Thread(target=lead)
    leading.start()
    alone = mx.distributed.init()
    ended: list[str] = []
    with pytest.raises(FollowerFailed, match="row 2 with 0 cached tokens, where rank 0 has row 9"):
        follow(Meeting(World(1, TWO.hosts, "ring"), alone), ended.append)
    leading.join(5)
    assert "/nowhere does not exist" in said[0].error
    assert "is not the model that rank 0 has" in said[1].error
    assert said[2].error == ""
    assert said[2].weights_bytes > 3_000_000
    deadline_s = time.monotonic() + 60
    while not lost and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert len(lost) == 1
    assert lost[0].startswith("rank 1 (127.0.0.1) failed: row 2 with 0 cached tokens")
    assert ended == []
    leader.end()


# -- meeting -----------------------------------------------------------------------------------


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
    monkeypatch.setattr(sharding, "_TRIED_AGAIN_AFTER_S", 0)
    return left


def test_a_process_that_starts_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    left = group_after(monkeypatch, *["[ring] Couldn't connect (error: 111)"] * 3)
    assert sharding.meet(TWO).world == TWO
    assert not left


def test_what_no_waiting_mends_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left = group_after(monkeypatch, "[ring] Rank cannot be larger than the size", "never asked")
    with pytest.raises(BadLaunch, match="Rank cannot be larger"):
        sharding.meet(TWO)
    assert left == ["never asked"]


# -- sharding ----------------------------------------------------------------------------------


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


def test_copies_of_a_model_have_one_mark_and_other_models_another(
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


# -- an engine that waits for what never comes ---------------------------------------------------


def test_an_engine_that_is_given_up_ends_its_answers_although_its_thread_is_stuck(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, {"go": [f"w{n} " for n in range(400)]})
    goes_on = threading.Event()

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        stage.model.fault = lambda number: None if number < 8 else (goes_on.wait(30), None)[1]
        running = await engine.generate(request("go"))
        async with asyncio.timeout(5):
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
        run(play(), timeout_s=10)
    finally:
        goes_on.set()
