"""What is asked of the engine: the request of an answer, and of a second one beside it. Pure."""
