"""Completions and chats, marked."""
