"""The parts of the window: each shows one view-model with widgets and sends it intents."""
