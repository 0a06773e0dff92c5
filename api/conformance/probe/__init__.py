"""Tests any server's stop handling: sends requests, compares the answers, reports the faults."""
