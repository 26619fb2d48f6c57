"""HTTP: base URLs with their credentials, the client with its retries, server-sent events.

Every component that calls a server uses it. Formats of single services belong to their backend or
encoder; the server side is in ``server``.
"""
