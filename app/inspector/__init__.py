"""A recorded answer in every API, and programs that repeat its request."""
