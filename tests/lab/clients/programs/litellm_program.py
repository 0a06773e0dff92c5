"""LiteLLM against a server: its error for a full context. Run with the server's address."""

import sys

import litellm
from common import report, text_of

litellm.telemetry = False
litellm.suppress_debug_info = True
URL = sys.argv[1]
ROUTES = {
    "openai/m": f"{URL}/v1",
    "anthropic/m": URL,
    "text-completion-openai/m": f"{URL}/v1",
}


def asking(model: str, base: str, *, is_streamed: bool) -> object:
    def ask(text: str) -> str:
        answer = litellm.completion(
            model=model,
            api_base=base,
            api_key="none",
            messages=[{"role": "user", "content": text}],
            stream=is_streamed,
            max_tokens=8,
            num_retries=0,
        )
        if is_streamed:
            return text_of(chunk.choices[0].delta.content or "" for chunk in answer)
        return str(answer.choices[0].message.content)

    return ask


for model, base in ROUTES.items():
    # LiteLLM has no separate class for errors of streamed text completions, whatever the server.
    for is_streamed in (False, True) if "text" not in model else (False,):
        name = f"LiteLLM {model} {'streamed' if is_streamed else 'whole'}"
        ask = asking(model, base, is_streamed=is_streamed)
        report(name, ask, litellm.ContextWindowExceededError)
