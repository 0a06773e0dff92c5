"""Answers under way and those that wait: checked, prepared, given room, stepped together."""
