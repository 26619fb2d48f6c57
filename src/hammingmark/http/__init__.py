"""HTTP: base URLs with their credentials, one client with retries, server-sent events."""
