"""Passages of long documents for questions in the terminal, from an index in memory."""

import asyncio
from collections.abc import Sequence

from app.exits import CommandError
from app.printer import Printer
from app.store import passages
from engine.errors import EngineError
from engine.values.request import GenerationRequest
from engine.values.verdict import plain_cause
from ui.records.messages import ConversationMessage
from ui.records.passages import Document, Excerpt, Found, PassageSearch
from ui.records.prompt_fit import MakeRequest, TokenCounter, fitted_prompt


async def find_in_memory(documents: Sequence[Document], questions: Sequence[str]) -> Found:
    """Return the passages about questions, the present one last."""
    search = PassageSearch(documents, questions)
    return await asyncio.to_thread(passages.find_in_memory, search)


async def read_documents(
    message: ConversationMessage, make: MakeRequest, counter: TokenCounter, printer: Printer
) -> GenerationRequest:
    """Return the request of a question, with passages of documents that do not fit."""
    try:
        fit = await fitted_prompt(
            [message], [message], make, counter, uncut=message.id, find=find_in_memory
        )
    except EngineError as error:
        raise CommandError(plain_cause(str(error))) from error
    print_excerpts(fit.excerpts, printer)
    return fit.request


def print_excerpts(excerpts: Sequence[Excerpt] | None, printer: Printer) -> None:
    """Print on standard error how many passages of each document are read."""
    for excerpt in excerpts or ():
        printer.remark(f"{excerpt.name}: {excerpt.extent}")
