"""The HTTP client: retries, errors, server-sent events, and the event loop of its requests.

Every component that calls a server uses it. Formats of single services belong to their backend or
encoder; the server side is in ``server``.
"""
