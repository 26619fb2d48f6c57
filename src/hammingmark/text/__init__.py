"""Text to sentences, words and characters, by the same rules for generation and detection.

Splitters, normalisation and the structure of Markdown belong here; embeddings do not.
"""
