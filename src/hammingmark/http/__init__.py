"""One HTTP client and its event loop, for every part that asks a server."""
