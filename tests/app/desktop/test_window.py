from app.desktop.window import requested_conversation
from app.settings.options import AnswerOptions, ChatOptions
from ui.preferences import NewConversation


def test_conversation_from_options() -> None:
    answer = AnswerOptions(
        ("END", "\n"),
        NewConversation("Brief.", max_tokens=9, temperature=0.5, is_thinking=True),
    )
    conversation = requested_conversation(ChatOptions(answer=answer))
    assert conversation is not None
    assert conversation.enabled_stops() == ("END", "\n")
    settings = conversation.settings
    assert (settings.system_prompt, settings.temperature) == ("Brief.", 0.5)
    assert (settings.max_tokens, settings.is_thinking) == (9, True)
