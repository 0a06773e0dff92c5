"""LangChain against a server, several turns each. Run with the server's address."""

import asyncio
import sys

from common import conversation
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

OPTIONS = {
    "model": "m",
    "base_url": f"{sys.argv[1]}/v1",
    "api_key": "none",
    "max_retries": 0,
    "max_tokens": 40,
    "temperature": 0,
}
MODELS = {
    "Chat": ChatOpenAI(**OPTIONS),
    "Responses": ChatOpenAI(**OPTIONS, use_responses_api=True),
    "Responses by previous_response_id": ChatOpenAI(
        **OPTIONS, use_responses_api=True, use_previous_response_id=True
    ),
}


async def main():
    for name, model in MODELS.items():
        turns = []

        async def ask(question, model=model, turns=turns):
            turns.append(HumanMessage(question))
            answer = await model.ainvoke(turns)
            turns.append(answer)
            return answer.text, answer.usage_metadata["input_tokens"]

        await conversation(f"LangChain {name}", ask)


asyncio.run(main())
