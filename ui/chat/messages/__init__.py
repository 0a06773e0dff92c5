"""The messages on screen: questions, answers, tool calls and the reason of an end."""
