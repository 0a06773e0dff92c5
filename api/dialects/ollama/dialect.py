"""Ollama's API as one value, from which the server is built. Pure; any thread."""

from api.dialects.ollama.ask import ask
from api.dialects.ollama.embeddings import ROUTES as EMBEDDINGS
from api.dialects.ollama.errors import error_to_wire
from api.dialects.ollama.queries import (
    admit,
    keep_as_wanted,
    list_running,
    list_tags,
    model_of,
    reply_without_question,
    show,
    version,
)
from api.dialects.ollama.read import chat_from_wire, is_streamed, prompt_from_wire
from api.dialects.ollama.wire import (
    ChatParams,
    OllamaChatAnswer,
    OllamaChatLine,
    OllamaErrorAnswer,
    OllamaGenerateAnswer,
    OllamaGenerateLine,
    OllamaModel,
    OllamaModels,
    OllamaVersion,
    PromptParams,
    ShowParams,
)
from api.dialects.ollama.write import (
    ChatLineEncoder,
    PromptLineEncoder,
    write_chat,
    write_response,
)
from api.dialects.shared.dialect import LINES, AnswerRoute, Dialect, QueryRoute

DIALECT = Dialect(
    name="Ollama",
    title="Ollama",
    vendor="Ollama",
    reference="https://github.com/ollama/ollama/blob/main/docs/api.md",
    render_error=error_to_wire,
    error_type=OllamaErrorAnswer,
    field_names={
        "stops.strings": "options.stop",
        "max_tokens": "options.num_predict",
        "constraint.json_schema": "format",
        "constraint": "format",
    },
    prefix="/api/",
    ask=ask,
    answers=(
        AnswerRoute(
            path="/api/chat",
            summary="Ollama's chat",
            request=ChatParams,
            read=chat_from_wire,
            answer=OllamaChatAnswer,
            write_whole=write_chat,
            event=OllamaChatLine,
            encoder=ChatLineEncoder,
            media_type=LINES,
            wants_stream=is_streamed,
            admit=admit,
            model_of=model_of,
            on_accepted=keep_as_wanted,
            reply_without_question=reply_without_question,
        ),
        AnswerRoute(
            path="/api/generate",
            operation="text_completion",
            summary="Ollama's single prompts",
            request=PromptParams,
            read=prompt_from_wire,
            answer=OllamaGenerateAnswer,
            write_whole=write_response,
            event=OllamaGenerateLine,
            encoder=PromptLineEncoder,
            media_type=LINES,
            wants_stream=is_streamed,
            admit=admit,
            model_of=model_of,
            has_instructions=lambda params: bool(params.system),
            on_accepted=keep_as_wanted,
            reply_without_question=reply_without_question,
        ),
    ),
    queries=(
        *EMBEDDINGS,
        QueryRoute(
            method="POST",
            path="/api/show",
            summary="What a model can do, for Ollama's clients",
            request=ShowParams,
            reply=show,
            answer=OllamaModel,
        ),
        QueryRoute(
            method="GET",
            path="/api/tags",
            summary="The models that requests may name, for Ollama's clients",
            reply=list_tags,
            answer=OllamaModels,
        ),
        QueryRoute(
            method="HEAD",
            path="/api/tags",
            summary="Whether the list of models is available",
            reply=list_tags,
        ),
        QueryRoute(
            method="GET",
            path="/api/ps",
            summary="The models in memory, their size and how long they stay, for Ollama's clients",
            reply=list_running,
            answer=OllamaModels,
        ),
        QueryRoute(
            method="GET",
            path="/api/version",
            summary="The version of Ollama's API that is supported",
            reply=version,
            answer=OllamaVersion,
        ),
        QueryRoute(
            method="HEAD",
            path="/api/version",
            summary="Whether Ollama's API is available",
            reply=version,
        ),
    ),
)
