"""Prompts to marked texts: candidates, the loop that accepts or refuses them, the engine."""
