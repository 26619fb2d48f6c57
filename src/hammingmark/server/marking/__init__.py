"""Completions and chats with marked answers: requests, responses, streams, records."""
