"""Text to sentences, words and characters, by the same rules at generation and at detection.

Splitters, normalisation and the structure of Markdown belong here; embeddings do not.
"""
