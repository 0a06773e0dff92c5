"""The models of the engine thread: a lane for each, and the memory that they share."""
