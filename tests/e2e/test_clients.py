"""The vendors' own clients at a server that runs as a program.

``tests/api/dialects/test_vendor_clients.py`` asks all rows.
"""

import anthropic
import openai
import pytest

from tests.e2e.conftest import ROWS

ROW = ROWS["words"]
TURNS = [{"role": "user", "content": ROW.prompt}]


def test_messages_answers_whole_and_streamed_and_refuses_a_bad_stop(address: str) -> None:
    asked = {"model": "demo-model", "max_tokens": 200, "messages": TURNS}
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"stop_sequences"):
            client.messages.create(**asked, stop_sequences=[1])  # type: ignore[list-item]
        answer = client.messages.create(**asked, stop_sequences=[ROW.stop])
        with client.messages.stream(**asked, stop_sequences=[ROW.stop]) as stream:
            deltas = list(stream.text_stream)
            streamed = stream.get_final_message()
    assert answer.content[0].text == "".join(deltas) == ROW.text
    for one in (answer, streamed):
        assert (one.stop_reason, one.stop_sequence) == ("stop_sequence", ROW.stop)


def test_chat_completions_answers_whole_and_streamed_and_lists_the_model(address: str) -> None:
    asked = {"model": "demo-model", "messages": TURNS, "stop": ROW.stop}
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        [choice] = client.chat.completions.create(**asked).choices
        chunks = list(client.chat.completions.create(**asked, stream=True))
        assert [model.id for model in client.models.list()] == ["demo-model"]
    last = chunks[-1].choices[0]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert choice.message.content == text == ROW.text
    for one in (choice, last):
        assert (one.finish_reason, one.matched_stop) == ("stop", ROW.stop)
