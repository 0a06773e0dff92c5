"""One engine of several processes: a follower's work, their meeting, and sharding."""

import json
import socket
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.distributed import follower
from engine.distributed.follower import follow
from engine.distributed.ranks import Ranks
from engine.distributed.sharding import shard, versions
from engine.distributed.world import World, folder_digest, launched, portable
from engine.errors import EngineError, ModelLoadFailed

TWO = World(0, ("127.0.0.1", "127.0.0.1"), "ring")


class Launch:
    """Rank 0's connections, and a follower whose process has no peer in MLX.

    Attributes:
        failed: Why the follower ended, if not by order.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ranks: Ranks) -> None:
        monkeypatch.setattr(follower, "broadcast", lambda *_: ranks.invitation())
        self.failed = ""
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()
        ranks.connect()

    def _follow(self) -> None:
        try:
            follow(World(1, TWO.hosts, "ring", mx.distributed.init()))
        except EngineError as failed:
            self.failed = str(failed)

    def join(self) -> str:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.failed


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    ranks = Ranks(TWO, versions())
    yield ranks
    ranks.end()


def test_follower_carries_out_orders(
    demo_model_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: Ranks
) -> None:
    launch = Launch(monkeypatch, ranks)
    fingerprint = folder_digest(demo_model_path)
    replies: list[Any] = []
    for folder, stated in (
        ("/nowhere", ""),
        (demo_model_path, "x"),
        (demo_model_path, fingerprint),
    ):
        ranks.send("load", str(folder), stated, 8, 2)
        [(_, reply)] = ranks.receive()
        replies.append(reply)
    assert "nowhere does not exist" in replies[0]
    assert "is not the model that rank 0 has" in replies[1]
    assert replies[2] > 3_000_000
    ranks.send("follow_insert", [1, 2, 3], 0, 0, 0, 0, None, "me")
    for _ in range(2):
        ranks.send("_step", 64)
    ranks.send("follow_remove", [0], [[7]], [])
    # Found under the token that rank 0 sampled.
    ranks.send("follow_insert", [1, 2, 3, 7, 9], 1, 4, 1, 0, None, "me")
    ranks.send("follow_insert", [4, 5], 9, 0, 1, 0, None, "me")
    why = "sequence 2 with 0 cached tokens, where rank 0 has sequence 9"
    assert why in launch.join()
    assert f"rank 1 (127.0.0.1) failed: {why}" in str(ranks.fail_step(RuntimeError("MLX")))
    with pytest.raises(EngineError, match=why):
        ranks.send("_step", 64)


def test_follower_ends_with_rank_0(monkeypatch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    launch = Launch(monkeypatch, ranks)
    ranks.end()
    assert launch.join() == ""
    other = Ranks(TWO, versions())
    launch = Launch(monkeypatch, other)
    other._connections[1].close()
    assert launch.join() == "rank 0 (127.0.0.1) is lost: its process has ended"


def connected(ranks: Ranks, *, rank: int = 1, secret: str = "", version: str = "") -> Connection:
    """Return a connection to rank 0 that has sent this, in place of a follower's first words."""
    [host], port, own = json.loads(ranks.invitation())
    peer = socket.create_connection((host, port))
    peer.sendall((secret or own).encode())
    connection = Connection(peer.detach())
    if secret in ("", own):
        connection.send((rank, version or versions()))
    return connection


def test_rank_0_rejects_strangers_and_detects_lost_rank(ranks: Ranks) -> None:
    stranger = connected(ranks, secret="x" * 32)
    longer = connected(ranks, secret="x" * 99)
    shorter = connected(ranks, secret="x")  # keeps rank 0 waiting for no more
    unknown = connected(ranks, rank=7)
    peer = connected(ranks)
    ranks.connect()
    for refused in (stranger, longer, shorter, unknown):
        with pytest.raises((EOFError, ConnectionResetError)):
            refused.recv()
    ranks.send("_step", 64)
    assert peer.recv() == ("_step", (64,))
    assert not ranks.fault()
    peer.close()
    why = r"rank 1 \(127.0.0.1\) is lost: its process has ended; restart Fullstop"
    with pytest.raises(EngineError, match=why):
        ranks.receive()
    with pytest.raises(EngineError, match=why):
        ranks.check()


def test_lost_rank_is_detected_without_waiting_for_it(ranks: Ranks) -> None:
    peer = connected(ranks)
    ranks.connect()
    peer.close()
    assert "rank 1 (127.0.0.1) is lost" in ranks.fault()


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


def test_fingerprint_is_equal_for_copies_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = {"one": b"xxxx", "copy": b"xxxx", "longer": b"xxxxx", "tuned": b"xxxy"}
    for name, content in weights.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"model_type": "qwen3"}')
        (tmp_path / name / "model.safetensors").write_bytes(content)
    one, copy, *others = (folder_digest(tmp_path / name) for name in weights)
    assert one == copy
    assert one not in others
    monkeypatch.setenv("HOME", str(tmp_path))
    assert portable(tmp_path / "one") == "~/one"
    assert portable(Path("/elsewhere/one")) == "/elsewhere/one"


def hostfile(folder: Path, text: str) -> str:
    file = folder / "hosts.json"
    file.write_text(text)
    return str(file)


def test_no_world_without_launcher(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("rank", "text", "said"),
    [
        ("x", '[["a:1"], ["b:2"]]', "invalid literal"),
        ("2", '[["a:1"], ["b:2"]]', "names 2 processes"),
        ("0", "[[", "hosts.json, is wrong"),
        ("0", "[1, 2]", "hosts.json, is wrong"),
    ],
)
def test_a_launch_that_makes_no_sense_is_reported(
    tmp_path: Path, rank: str, text: str, said: str
) -> None:
    with pytest.raises(EngineError, match=said):
        launched({"MLX_RANK": rank, "MLX_HOSTFILE": hostfile(tmp_path, text)})
