"""The server: its application, its routes, its documents, and who may use it."""
