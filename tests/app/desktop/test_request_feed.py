import asyncio
import threading
from types import SimpleNamespace

from api.service.record import MAX_BODY_BYTES, RecordedBody, RecordedRun, RequestRecord
from app.desktop.request_feed import RequestFeed, ended_entry_of, entry_of
from engine.generation import Generation
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    Finished,
    TextDelta,
    ThinkingDelta,
    Timing,
    ToolCallCompleted,
    Usage,
)
from engine.values.request import GenerationRequest, Message, ToolCall
from ui.server.requests import RequestAnswer, RequestBody, RequestEntry

HEADERS = (("User-Agent", "curl/8"), ("Accept", "*/*"))
END = Finished(StopInfo(StopKind.EOS), Usage(5, 2, 3), Timing())
ASKED = GenerationRequest((Message("user", "go"),), max_tokens=7)
CALL = ToolCall("call_1", "look", "{}")


def began(request_id: str = "req_1") -> RequestRecord:
    return RequestRecord(request_id, 12.5, "127.0.0.1", "POST", "/v1/messages", "Messages", HEADERS)


def ended(record: RequestRecord) -> RequestRecord:
    record.took_s, record.status, record.is_stream, record.model = 0.25, 200, True, "demo"
    record.request_body = RecordedBody(b"{}")
    record.response_body = RecordedBody(b"x" * MAX_BODY_BYTES + b"y")
    record.response_headers = (("X", "y"),)
    record.not_applied, record.tools_left_out = ("seed",), ("web_search",)
    record.runs = [observed()]
    return record


def observed() -> RecordedRun:
    loop = asyncio.new_event_loop()
    run = RecordedRun(Generation(ASKED, loop, lambda _: None))
    loop.close()
    run.record([ThinkingDelta("hm"), TextDelta("a"), TextDelta("b")])
    run.record([ToolCallCompleted(0, CALL, "{}"), END])
    return run


def test_request_feed_converts_records() -> None:
    assert ended_entry_of(ended(began())) == RequestEntry(
        id="req_1",
        began_at=12.5,
        client="127.0.0.1",
        agent="curl/8",
        method="POST",
        path="/v1/messages",
        dialect="Messages",
        headers=HEADERS,
        model="demo",
        is_stream=True,
        no_effect=("seed", "tools (web_search)"),
        status=200,
        took_s=0.25,
        request_body=RequestBody("{}", 2),
        response_body=RequestBody("x" * MAX_BODY_BYTES, MAX_BODY_BYTES + 1, is_whole=False),
        answer_headers=(("X", "y"),),
        answers=(RequestAnswer(ASKED, END, "ab", "hm", (CALL,), "req_1/1"),),
    )
    assert entry_of(began()).is_open
    assert entry_of(began()).is_stream is None
    running = began()
    running.runs, running.wants_stream = [observed()], True
    assert entry_of(running).is_stream


async def test_request_feed_batches_wake_ups() -> None:
    batches: list[list[RequestEntry]] = []
    threads: set[threading.Thread] = set()

    def take(entries: list[RequestEntry]) -> None:
        threads.add(threading.current_thread())
        batches.append(entries)

    log = SimpleNamespace(take=take)
    feed = RequestFeed(asyncio.get_running_loop(), log)

    def server() -> None:
        for number in range(100):
            note = began(f"req_{number}")
            feed.request_began(note)
            feed.request_ended(ended(note))

    thread = threading.Thread(target=server)
    thread.start()
    thread.join()  # the loop is busy all the time
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [len(batch) for batch in batches] == [200]
    assert threads == {threading.main_thread()}
