"""The Stop Inspector: its window and its tabs, over the view-models. Main thread."""
