"""The running and the waiting answers of one model: checks, preparation, memory, steps."""
