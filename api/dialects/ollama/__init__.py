"""Ollama's API: ``/api/chat``, ``/api/generate`` and its queries about models."""
