"""Draft tokens: their sources, whether to verify them, their verification in one forward pass.

The model verifies several draft tokens in one pass, and only those stay that it draws itself. So
drafts change the time of an answer, never its text.
"""
