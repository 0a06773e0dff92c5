"""Ollama's dialect: ``/api/chat``, ``/api/generate`` and what its clients ask about models."""
