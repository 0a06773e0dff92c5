"""The launch of several processes, their messages, and the link between two of them."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.distributed.link import (
    Close,
    End,
    Failed,
    Hello,
    Insert,
    Keepalive,
    Leave,
    Link,
    LinkLost,
    LoadShard,
    Message,
    ShardLoaded,
    StepBatch,
    decoded,
    encoded,
)
from engine.distributed.world import BadLaunch, World, launched

tokens = st.lists(st.integers(0, 1 << 20), max_size=20)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            yield near, far


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
def test_a_launch_that_makes_no_sense_is_reported(
    tmp_path: Path, rank: str, text: str, said: str
) -> None:
    with pytest.raises(BadLaunch, match=said):
        launched({"MLX_RANK": rank, "MLX_HOSTFILE": hostfile(tmp_path, text)})


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
def test_bytes_that_are_not_a_message_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own errors are some of them
        decoded(payload)


def test_messages_arrive_in_order_however_they_are_cut(ends: Any) -> None:
    near, far = ends
    link = Link(far, 5)
    sent = [Insert(list(range(50_000)), 1, 2, 3), StepBatch(64), Leave([1], [[5]])]
    writer = threading.Thread(target=lambda: [Link(near, 5).send(message) for message in sent])
    writer.start()
    assert [link.receive() for _ in sent] == sent
    writer.join()


def test_each_way_to_lose_the_link_has_its_own_message(
    ends: Any,
) -> None:
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


class ClockOfAStoppedProcess:
    """A wait that has run out when the process goes on; what was sent meanwhile comes later."""

    def __init__(self) -> None:
        self.register = lambda *_: None
        self._waits = iter([[], [], [(0, select.POLLIN)]])

    def poll(self, _timeout_ms: float) -> list[tuple[int, int]]:
        return next(self._waits)


def test_a_timeout_while_this_process_was_stopped_does_not_count_as_silence(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = ends
    Link(near).send(Keepalive())
    select.select([far], [], [], 60)
    link = Link(far)
    monkeypatch.setattr(select, "poll", ClockOfAStoppedProcess)
    assert link.receive() == Keepalive()


def test_keepalives_keep_an_idle_link(ends: Any) -> None:
    near, far = ends
    quiet, link = Link(near, 1), Link(far, 1)
    quiet.send_keepalives()
    began_s = time.monotonic()
    while time.monotonic() - began_s < 1.5:
        assert link.receive() == Keepalive()
    quiet.close()
