"""Requests with pictures as clients and agents send them, answered by a model that sees."""

import asyncio
import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest

pytest.importorskip("mlx_vlm")

from engine.engine import Engine
from engine.values.request import PICTURE_MARK
from tests.api.conftest import Site, serving
from tests.support.answers.watched import watched
from tests.support.models.seeing import picture, write_seeing_model

RED, BLUE = picture("red").data, picture("blue", kind="JPEG").data
PNG, JPEG = (base64.b64encode(data).decode() for data in (RED, BLUE))
URL, JPEG_URL = f"data:image/png;base64,{PNG}", f"data:image/jpeg;base64,{JPEG}"
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
# Stand for the two pictures in the table.
SEEN, BLUE_SEEN = "▣", "▢"


def text(value: str, kind: str = "text", **more: Any) -> dict[str, Any]:
    return {"type": kind, "text": value, **more}


def part(url: Any = URL, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def item(url: Any = URL, **more: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, **more}


def block(data: str = PNG, kind: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}, **more}


def user(*content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content), **more}


def chat(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 2, "messages": list(turns), **more}


def responses(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_output_tokens": 2, "input": list(items), **more}


def shown(*images: str, prompt: str = "Why?", **more: Any) -> dict[str, Any]:
    turn = {"role": "user", "content": prompt, "images": list(images)}
    options = {"num_predict": 2}
    return {"model": "m", "options": options, "stream": False, "messages": [turn], **more}


CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "shot", "arguments": "{}"}}
    ],
}
USED = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.png"}}],
}
CALL = {"type": "function_call", "call_id": "c1", "name": "view_image", "arguments": "{}"}


def result(*content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": list(content), **more}


def output(*content: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c1", "output": list(content)}


def generated(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "stream": False, "options": {"num_predict": 2}, **fields}


PAD = "<|vision_start|><|image_pad|><|vision_end|>"
_SHORT = {"num_predict": 2}
CACHED = {"cache_control": {"type": "ephemeral"}}
# By client: its path, its body as its documentation has it, and the turns with pictures as the
# engine gets them.
BODIES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "OpenAI, two": (
        CHAT,
        chat(user(text("Compare"), part(), text("with"), part(JPEG_URL))),
        [f"Compare{SEEN}with{BLUE_SEEN}"],
    ),
    "LangChain, older": (
        CHAT,
        chat(user(text("Why?"), {"type": "image_url", "image_url": URL})),
        [f"Why?{SEEN}"],
    ),
    "LiteLLM, file": (
        CHAT,
        chat(user(text("Why?"), {"type": "file", "file": {"file_data": URL}})),
        [f"Why?{SEEN}"],
    ),
    "Open WebUI": (
        CHAT,
        chat({"role": "system", "content": "Be brief."}, user(text("Why?"), part())),
        [f"Why?{SEEN}"],
    ),
    "Continue": (CHAT, chat(user(part(detail="auto"), text("Why?"))), [f"{SEEN}Why?"]),
    "aider": (
        CHAT,
        chat(
            {"role": "system", "content": "Act as a developer."},
            user(text("Here are image files:"), text("a.png"), part(detail="high")),
            {"role": "assistant", "content": "Ok."},
            user(text("Why?")),
        ),
        [f"Here are image files:\na.png{SEEN}"],
    ),
    "Zed": (CHAT, chat(user(part(detail=None), text("Why?"))), [f"{SEEN}Why?"]),
    "LibreChat": (CHAT, chat(user(text("Why?"), part(detail="low"))), [f"Why?{SEEN}"]),
    "mlx-vlm": (
        CHAT,
        chat(user(text("Why?", "input_text"), item())),
        [f"Why?{SEEN}"],
    ),
    "line breaks": (
        CHAT,
        chat(user(part(f"data:image/png;base64,{base64.encodebytes(RED).decode()}"), text("Why?"))),
        [f"{SEEN}Why?"],
    ),
    "parameters of the type": (
        CHAT,
        chat(user(part(f"data:image/png;charset=utf-8;base64,{PNG}"), text("Why?"))),
        [f"{SEEN}Why?"],
    ),
    "Claude Code, paste": (
        MESSAGES,
        chat(
            user(text("[Image #1] Why?"), block(**CACHED)),
            system=[text("You are an agent.", **CACHED)],
        ),
        [f"[Image #1] Why?{SEEN}"],
    ),
    "Claude Code, screenshot": (
        MESSAGES,
        chat(
            user(text("Look")),
            USED,
            user(result(text("Took a screenshot"), block(JPEG, "image/jpeg")), text("Go on")),
        ),
        [f"Took a screenshot{BLUE_SEEN}"],
    ),
    "Anthropic, two": (
        MESSAGES,
        chat(user(text("Image 1:"), block(), text("Image 2:"), block(JPEG, "image/jpeg"))),
        [f"Image 1:{SEEN}Image 2:{BLUE_SEEN}"],
    ),
    "Anthropic, document of blocks": (
        MESSAGES,
        chat(
            user(
                {
                    "type": "document",
                    "source": {"type": "content", "content": [text("Page 1"), block()]},
                },
                text("Why?"),
            )
        ),
        [f"Page 1{SEEN}Why?"],
    ),
    "Cline": (
        MESSAGES,
        chat(user(text("Look")), USED, user(result(text("Saved"), block())), stream=True),
        [f"Saved{SEEN}"],
    ),
    "an object as in Chat": (
        RESPONSES,
        responses(user(text("Why?", "input_text"), item({"url": URL}))),
        [f"Why?{SEEN}"],
    ),
    "Codex, view_image, original": (
        RESPONSES,
        responses(user(text("Look", "input_text")), CALL, output(item(detail="original"))),
        [SEEN],
    ),
    "Codex, MCP": (
        RESPONSES,
        responses(
            user(text("Look", "input_text")), CALL, output(text("Shot", "input_text"), item())
        ),
        [f"Shot{SEEN}"],
    ),
    "AI SDK, Responses, file": (
        RESPONSES,
        responses(
            user(
                {"type": "input_file", "filename": "a.png", "file_data": URL},
                text("Why?", "input_text"),
            )
        ),
        [f"{SEEN}Why?"],
    ),
    "Open WebUI, Ollama": ("/api/chat", shown(PNG, JPEG, stream=True), [f"{SEEN}{BLUE_SEEN}Why?"]),
    "Ollama, data URL": ("/api/chat", shown(URL), [f"{SEEN}Why?"]),
    "Continue, Ollama": ("/api/chat", shown(JPEG), [f"{BLUE_SEEN}Why?"]),
    "Ollama, tool": (
        "/api/chat",
        shown(
            messages=[
                {"role": "user", "content": "Look"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "shot", "arguments": {}}}],
                },
                {"role": "tool", "tool_name": "shot", "content": "Done", "images": [PNG]},
            ]
        ),
        [f"{SEEN}Done"],
    ),
    "Ollama, raw": (
        "/api/generate",
        generated(prompt="Why?", images=[PNG], raw=True),
        [f"{SEEN}Why?"],
    ),
    "SGLang": (
        "/generate",
        {"text": f"{PAD}Why?", "image_data": URL, "sampling_params": {"max_new_tokens": 2}},
        [f"{PAD}Why?{SEEN}"],
    ),
    "SGLang, two prompts": (
        "/generate",
        {
            "text": [f"{PAD}Why?", f"{PAD}{PAD}And?"],
            "image_data": [[PNG], [PNG, JPEG]],
            "sampling_params": {"max_new_tokens": 2},
        },
        [f"{PAD}Why?{SEEN}", f"{PAD}{PAD}And?{SEEN}{BLUE_SEEN}"],
    ),
}


def recorded() -> dict[str, tuple[str, dict[str, Any], list[str]]]:
    """Return what programs of these versions sent; texts are shortened, tools left out."""
    file = Path(__file__).with_name("recorded_pictures.json")
    rows = json.loads(file.read_text().replace("@PNG@", PNG))
    return {row["client"]: (row["path"], row["body"], row["turns"]) for row in rows}


BODIES |= recorded()


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("seeing")
    write_seeing_model(folder)
    engine = Engine()
    asyncio.run(engine.load(folder))
    with serving(engine) as site:
        yield site
    asyncio.run(engine.aclose())


@pytest.fixture
def read(seeing: Site, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return watched(seeing, monkeypatch)


def turns(requests: list[Any]) -> list[str]:
    """Return the turns with pictures of requests; of prompts with the model's own marks, behind."""
    found = []
    for request in requests:
        shown = [(one.content, one.pictures) for one in request.messages if one.pictures]
        if request.pictures:
            marks = 0 if PICTURE_MARK in request.prompt else len(request.pictures)
            shown.append((f"{request.prompt}{PICTURE_MARK * marks}", request.pictures))
        for content, pictures in shown:
            for one in pictures:
                sign = SEEN if one.data == RED else BLUE_SEEN if one.data == BLUE else "?"
                content = content.replace(PICTURE_MARK, sign, 1)
            found.append(content)
    return found


@pytest.mark.parametrize("client", BODIES)
def test_picture_of_a_client_reaches_the_model_at_its_place(
    seeing: Site, read: list[Any], client: str
) -> None:
    path, body, expected = BODIES[client]
    reply = seeing.send("POST", path, body)
    assert reply.status == 200, reply.body
    assert turns(read) == expected
    assert "\ufdd0".encode() not in reply.body


def test_pictures_of_the_vendors_packages_are_read(seeing: Site, read: list[Any]) -> None:
    with openai.OpenAI(base_url=f"{seeing.url}/v1", api_key="none", max_retries=0) as client:
        client.chat.completions.create(
            model="m", max_tokens=2, messages=[user(text("Why?"), part())]
        )
        client.responses.create(
            model="m", max_output_tokens=2, input=[user(text("Why?", "input_text"), item())]
        )
    with anthropic.Anthropic(base_url=seeing.url, api_key="none", max_retries=0) as client:
        client.messages.create(model="m", max_tokens=2, messages=[user(text("Why?"), block())])
        count = client.messages.count_tokens(model="m", messages=[user(text("Why?"), block())])
        plain = client.messages.count_tokens(model="m", messages=[user(text("Why?"))])
    older = ollama.Client(seeing.url)
    older.chat("m", [{"role": "user", "content": "Why?", "images": [RED]}], options=_SHORT)
    answer = older.generate("m", "Why?", images=[RED], options=_SHORT)
    older._client.close()
    assert turns(read) == [f"Why?{SEEN}"] * 3 + [f"{SEEN}Why?"] * 2
    assert count.input_tokens > plain.input_tokens + 2
    assert answer.prompt_eval_count == count.input_tokens


def test_pictures_and_text_at_once_are_answered_as_alone(seeing: Site) -> None:
    greedy = {"temperature": 0, "max_tokens": 24, "ignore_eos": True}
    bodies = [
        chat(user(text("What is it?"), part()), **greedy),
        chat(user(text("Tell me a story")), **greedy),
        chat(user(text("Compare"), part(), part(JPEG_URL)), **greedy),
        chat(user(text("And another one, please")), **greedy),
    ]

    def answer(body: dict[str, Any]) -> str:
        reply = seeing.send("POST", CHAT, body)
        assert reply.status == 200, reply.body
        return str(reply.json["choices"][0]["message"]["content"])

    alone = [answer(body) for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as at_once:
        assert list(at_once.map(answer, bodies)) == alone
    assert len({*alone}) == len(bodies)


def test_prompts_with_pictures_are_rendered_and_counted(seeing: Site) -> None:
    body = chat(user(text("Why?"), part()))
    used = seeing.send("POST", CHAT, body).json["usage"]["prompt_tokens"]
    rendered = seeing.send("POST", f"{CHAT}/render", body)
    tokenized = seeing.send("POST", "/tokenize", {"messages": body["messages"]}).json
    asked = responses(user(text("Why?", "input_text"), item()))
    counted = seeing.send("POST", f"{RESPONSES}/input_tokens", asked).json["input_tokens"]
    assert (tokenized["count"], counted, len(rendered.json["token_ids"])) == (used, used, used)
    assert "\ufdd0".encode() not in rendered.body


def test_earlier_picture_of_a_stored_response_is_read(seeing: Site, read: list[Any]) -> None:
    asked = responses(user(text("Why?", "input_text"), item()))
    first = seeing.send("POST", RESPONSES, asked).json
    later = responses(user(text("And?", "input_text")), previous_response_id=first["id"])
    reply = seeing.send("POST", RESPONSES, later)
    assert turns(read) == [f"Why?{SEEN}"] * 2, reply.body
    items = seeing.send("GET", f"{RESPONSES}/{first['id']}/input_items").json["data"]
    assert items[0]["content"][1]["image_url"] == URL


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/completions", {"model": "m", "prompt": [user(text("Why?"), part())]}, "prompt"),
        (CHAT, chat(user(part("https://example.com/a.png"))), "messages[0].content[0]"),
        (CHAT, chat(user(part("data:image/png;base64,%%"))), "messages[0].content[0]"),
        (RESPONSES, responses(user({"type": "input_image", "file_id": "f"})), "without data"),
        (MESSAGES, chat(user(block(PNG[:40]))), "messages.0.content.0"),
        (RESPONSES, responses(CALL, output(item("data:image/png;base64,AAAA"))), "input[1]"),
        ("/api/chat", shown("AAAA"), "messages[0].images[0]"),
        ("/generate", {"text": "Why?", "image_data": URL}, "<|image_pad|>"),
    ],
)
def test_unreadable_picture_is_refused_by_its_place(
    seeing: Site, path: str, body: dict[str, Any], field: str
) -> None:
    reply = seeing.send("POST", path, body)
    assert reply.status == 400
    assert field in reply.body.decode()
    assert "\ufdd0".encode() not in reply.body
    assert PNG[:24] not in reply.body.decode()
