"""LangChain against a server: its error for a full context. Run with the server's address."""

import sys

from common import report, text_of
from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI

URL = sys.argv[1]
_OPENAI = {"model": "m", "base_url": f"{URL}/v1", "api_key": "none", "max_retries": 0}
MODELS = {
    "ChatOpenAI": ChatOpenAI(**_OPENAI, max_tokens=8),
    "ChatOpenAI with Responses": ChatOpenAI(**_OPENAI, max_tokens=16, use_responses_api=True),
    "ChatAnthropic": ChatAnthropic(
        model="m", base_url=URL, api_key="none", max_retries=0, max_tokens=8
    ),
}

for name, model in MODELS.items():
    report(
        f"LangChain {name} whole",
        lambda text, model=model: model.invoke(text).text,
        ContextOverflowError,
    )
    report(
        f"LangChain {name} streamed",
        lambda text, model=model: text_of(chunk.text for chunk in model.stream(text)),
        ContextOverflowError,
    )
