"""A chat in the terminal that is longer than the context goes on, and says what is not sent."""

from pathlib import Path

from app.printer import Printer
from app.process import Interrupts
from app.settings.options import AnswerOptions
from app.terminal_chat import ChatSession, _answer
from app.terminal_tools import ChatTools
from tests.support.asking import loaded_engine
from tests.support.scripted import Stage


class Remarks(Printer):
    """Notes what is said beside the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def remark(self, text: str) -> None:
        self.said.append(text)


async def nobody(_shown: str) -> str | None:
    return None


async def test_forty_turns_in_a_context_of_1024_tokens_are_all_answered(tmp_path: Path) -> None:
    asked = [f"What is the number of question {n}?" for n in range(40)]
    stage = Stage(tmp_path, {text: [f"It is {n}."] for n, text in enumerate(asked)}, context=1_024)
    printer = Remarks()

    session = ChatSession(AnswerOptions())
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        session.model = engine.model
        tools = ChatTools(printer, nobody)
        with Interrupts() as interrupts:
            for question in asked:
                await _answer(engine, session, question, printer, interrupts, tools)
        await tools.finish()
    answers = [one.text for one in session.conversation.messages if one.run is not None]
    assert answers == [f"It is {n}." for n in range(40)]
    left_out = [line for line in printer.said if line.endswith("earlier messages are not sent")]
    assert 1 < len(left_out) < 12, "said once for each change"
    last = session.conversation.messages[-1].run
    assert last is not None
    assert last.left_out is not None
    assert left_out[-1] == last.left_out.sentence
