"""The state behind the window as QObjects: no widgets, so that tests drive it without a screen."""
