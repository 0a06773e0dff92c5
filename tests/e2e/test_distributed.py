"""Two processes that ``mlx.launch`` starts are one server, which answers like a single process."""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.conformance.captures.values import WireDialect
from engine.engine import Engine
from tests.e2e.conftest import (
    COUNT,
    ROWS,
    ServeProcess,
    begin_answer,
    read_json,
    without_display,
)
from tests.support.asking import ask
from tests.support.models.hybrid_model import write_trained_hybrid
from tests.support.several.ranks import (
    Case,
    LaunchedServer,
    answer,
    answers,
    cases,
    essence,
    rank_settings,
)

pytestmark = pytest.mark.long

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def launched() -> Iterator[LaunchedServer]:
    """Two processes under MLX's own launcher; they must end without an error."""
    server = LaunchedServer(2, "--verbose", environment=without_display())
    try:
        server.wait_until_ready()
        yield server
    finally:
        code = server.end()
    assert code == 0
    # The indented lines and the last one tell a person how to use the server.
    usage = ("  ", "Ctrl-C ends it.")
    said = [one for one in server.lines if " INFO " not in one and not one.startswith(usage)]
    assert sorted(line.split()[0] for line in said) == ["listening", "waiting"], said
    assert "waiting for rank 1 (127.0.0.1)\n" in said


@pytest.fixture(scope="module")
def sharded(launched: LaunchedServer) -> str:
    return launched.wait_until_ready()


def chat(name: str, content: str = COUNT, **more: Any) -> Case:
    turns = [{"role": "user", "content": content}]
    body = {"model": "any", "messages": turns, "enable_thinking": False, "max_tokens": 12, **more}
    return Case(name, WireDialect.CHAT, CHAT, body)


def test_each_process_has_only_its_part_of_the_weights(
    launched: LaunchedServer, demo_model_path: Path
) -> None:
    whole = (demo_model_path / "model.safetensors").stat().st_size
    line = launched.wait_for("of the weights")
    part = int(line.split(" holds ")[1].split()[0])
    assert "rank 1 (127.0.0.1)" in line
    assert 0.4 * whole < part < 0.6 * whole


@pytest.mark.parametrize(
    "told",
    [
        (WireDialect.CHAT,),
        pytest.param(
            (WireDialect.MESSAGES, WireDialect.CHAT, WireDialect.OLLAMA), marks=pytest.mark.slow
        ),
    ],
    ids=["EOS and a limit in chat", "EOS and a limit in each that templates"],
)
def test_two_processes_answer_as_one_in_every_dialect(
    sharded: str, address: str, told: tuple[WireDialect, ...]
) -> None:
    # A stop across tokens in every dialect; EOS and a limit in those whose text a row contains.
    rows = {name: ROWS[name] for name in ("newline", "never", "limit")}
    asked = [
        case
        for name, row in rows.items()
        for case in cases(name, row.prompt, row.stop, row.max_tokens)
        if name == "newline" or case.dialect in told
    ]
    together = answers(sharded, asked, at_once=len(asked))
    assert together == answers(address, asked, at_once=len(asked))
    # The acceptance table is the reference, and not only the answer of one process.
    for name, row in rows.items():
        for dialect in told:
            for way in ("whole", "streamed"):
                assert together[f"{name} {dialect} {way}"].text == row.text
    assert {one.error for one in together.values()} == {None}


@pytest.mark.parametrize("seeds", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_sampling_is_decided_by_rank_0(sharded: str, address: str, seeds: int) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "is_even": {"type": "boolean"}},
        "required": ["n", "is_even"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema}}
    asked = [
        *(chat(f"seed {seed}", temperature=0.8, seed=seed) for seed in range(seeds)),
        chat("form", "Is 4 even?", response_format=form, temperature=0, max_tokens=40),
        chat("bias", logit_bias={"2": -100}, temperature=0),
        chat("penalty", frequency_penalty=1.0, temperature=0),
        chat("greedy", temperature=0),
    ]
    # An answer without a seed cannot be compared, but it must not disturb the others.
    unseeded = [chat(f"unseeded {n}", temperature=1.0, top_p=0.9) for n in range(2)]
    together = answers(sharded, [*asked, *unseeded], at_once=10)
    assert {one.error for one in together.values()} == {None}
    together = {case.name: together[case.name] for case in asked}
    assert together == answers(address, asked, at_once=10)
    assert set(json.loads(together["form"].text)) == {"n", "is_even"}


def test_disconnect_and_bad_request_keep_ranks_in_step(sharded: str) -> None:
    connection, _ = begin_answer(sharded)
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    refused = answer(sharded, chat("bad", stop_token_ids=[10**6]))
    assert refused.error is not None
    assert essence(answer(sharded, chat("good", stop="6", temperature=0)))[:1] == (
        "1\n2\n3\n4\n5\n",
    )
    deadline_s = time.perf_counter() + 60
    while read_json(f"{sharded}/health")["running"]:
        assert time.perf_counter() < deadline_s, "the answer of the client that hung up must end"


def test_lost_rank_ends_requests_with_error(serve: Callable[..., Any], tmp_path: Path) -> None:
    leader, follower = (serve("--port", "0", **rank) for rank in rank_settings(tmp_path, 2))
    url = leader.wait_until_ready()
    connection, stream = begin_answer(url)
    follower.end(signal.SIGKILL)
    events = [line for line in stream.read().decode().splitlines() if line.startswith("data: {")]
    connection.close()
    why = "rank 1 (127.0.0.1) is lost: its process has ended"
    assert why in json.loads(events[-1].removeprefix("data: "))["error"]["message"]
    assert why in (answer(url, chat("later")).error or "")
    assert leader.end() == 0


@pytest.fixture(scope="module")
def layered(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, ServeProcess, ServeProcess]]:
    """Two processes that share a model by layers: its folder, rank 0 and rank 1."""
    folder = tmp_path_factory.mktemp("layered")
    write_trained_hybrid(folder / "model")
    words = ("--port", "0", "--verbose", "--model", str(folder / "model"))
    leader, follower = (ServeProcess(*words, **rank) for rank in rank_settings(folder, 2))
    yield folder / "model", leader, follower
    for process in (leader, follower):
        if process.process.poll() is None:
            process.end(signal.SIGKILL)


@pytest.mark.slow
async def test_uneven_heads_are_sharded_by_layers(
    layered: tuple[Path, ServeProcess, ServeProcess],
) -> None:
    folder, leader, _ = layered
    prompts = [f"Count to {n}" for n in range(6)]
    asked = [chat(prompt, prompt, temperature=0) for prompt in prompts]

    together = answers(leader.wait_until_ready(), asked, at_once=6)
    engine = Engine()
    await engine.load(folder)
    found = [await ask(engine, one, max_tokens=12, thinking=False) for one in prompts]
    await engine.aclose()
    assert [together[prompt].text for prompt in prompts] == ([one.text for one in found])
    whole = (folder / "model.safetensors").stat().st_size
    [line] = [line for line in leader.errors if "of the weights" in line]
    assert int(line.split(" holds ")[1].split()[0]) < 0.6 * whole
