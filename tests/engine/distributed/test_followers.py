"""Rank 0 and its followers: which are admitted, which are lost, and the messages about it."""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from engine.distributed.followers import Arrivals, Followers, RankLost
from engine.distributed.link import (
    End,
    Failed,
    Hello,
    Keepalive,
    Link,
    LinkLost,
    ShardLoaded,
    StepBatch,
)
from engine.distributed.world import World

TWO = World(0, ("127.0.0.1", "127.0.0.1"), "ring")


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


def test_a_follower_with_other_versions_is_refused_and_both_are_named(
    followers: Followers, lost: list[str], peer_of: Callable[..., Peer]
) -> None:
    peer_of(followers, versions="v2")
    with pytest.raises(RankLost, match=r"rank 1 .* runs v2, rank 0 runs v1"):
        followers.gather()
    assert len(lost) == 1


def test_a_follower_that_falls_silent_is_lost_once_and_for_good(
    lost: list[str], peer_of: Callable[..., Peer]
) -> None:
    with closing_followers(silence_s=1.5, lost=lost) as followers:
        peer_of(followers)
        followers.gather()
        deadline_s = time.monotonic() + 60
        while not lost and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert lost == ["rank 1 (127.0.0.1) is lost: it was silent for 1.5 s"]
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


def test_followers_that_were_told_to_end_do_not_count_as_lost(
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
