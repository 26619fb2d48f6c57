"""Verdicts on texts, and the keys to search, over HTTP."""
