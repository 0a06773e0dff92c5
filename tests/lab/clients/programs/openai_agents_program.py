"""openai-agents against a server, several turns each. Run with the server's address.

The runner goes on by its own list, by a session that keeps the items, by the server's
``previous_response_id``, and by a session that has the server compact it.
"""

import asyncio
import json
import sys

from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, SQLiteSession
from agents.memory import OpenAIResponsesCompactionSession
from common import QUESTIONS, conversation
from openai import AsyncOpenAI

CLIENT = AsyncOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none", max_retries=0)
AGENT = Agent(
    name="Agent",
    model=OpenAIResponsesModel(model="m", openai_client=CLIENT),
    model_settings=ModelSettings(temperature=0, max_tokens=40),
)


def said(result):
    return str(result.final_output), result.context_wrapper.usage.input_tokens


def with_session(session):
    async def ask(question):
        return said(await Runner.run(AGENT, question, session=session))

    return ask


async def main():
    items = []

    async def with_list(question):
        result = await Runner.run(AGENT, [*items, {"role": "user", "content": question}])
        items[:] = result.to_input_list()
        return said(result)

    last = [None]

    async def with_id(question):
        result = await Runner.run(AGENT, question, previous_response_id=last[0])
        last[0] = result.last_response_id
        return said(result)

    await conversation("openai-agents by its list", with_list)
    await conversation("openai-agents by a session", with_session(SQLiteSession("one")))
    await conversation("openai-agents by previous_response_id", with_id)

    session = OpenAIResponsesCompactionSession(
        "two",
        SQLiteSession("two"),
        client=CLIENT,
        model="gpt-4.1",  # it accepts no other names; the server answers to any name
        should_trigger_compaction=lambda _: False,
    )
    answer, tokens = await with_session(session)(QUESTIONS[0])
    await session.run_compaction({"force": True})
    items = [*await session.get_items(), {"role": "user", "content": QUESTIONS[1]}]
    # The demo model's answer to its own summary does not matter; that it is asked does.
    after = await CLIENT.responses.create(model="m", input=items, max_output_tokens=4)
    found = {
        "name": "openai-agents by a compacted session",
        "wanted": ["apple", "compaction"],
        "answers": [answer, items[-2].get("type", "message")],
        "input_tokens": [tokens, after.usage.input_tokens],
    }
    json.dump(found, sys.stdout)
    print(flush=True)


asyncio.run(main())
