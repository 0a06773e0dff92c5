"""The body of a request in each dialect that our own server does not offer. Pure; any thread.

If a dialect streams on another path, ``stream`` in the body selects it: see ``Driver.on_wire``.
"""

from api.conformance.probe.dialects.asks import Ask, Body


def llama_cpp_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to llama.cpp's ``/completion``."""
    return {
        "prompt": ask.prompt,
        "n_predict": ask.max_tokens,
        "temperature": 0,
        "stream": ask.is_streamed,
    }


def tgi_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Text Generation Inference."""
    # It refuses a temperature of 0, and is greedy without sampling.
    return {
        "inputs": ask.prompt,
        "parameters": {
            "max_new_tokens": ask.max_tokens,
            "do_sample": False,
            "details": True,
            "return_full_text": False,
        },
        "stream": ask.is_streamed,
    }


def gemini_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Gemini's ``generateContent``."""
    return {
        "contents": [{"role": "user", "parts": [{"text": ask.prompt}]}],
        "generationConfig": {"temperature": 0, "maxOutputTokens": ask.max_tokens},
        "stream": ask.is_streamed,
    }


def converse_body(ask: Ask, model: str) -> Body:
    """Return the body of a request to Bedrock's ``Converse``."""
    return {
        "messages": [{"role": "user", "content": [{"text": ask.prompt}]}],
        "inferenceConfig": {"temperature": 0, "maxTokens": ask.max_tokens},
        "stream": ask.is_streamed,
    }
