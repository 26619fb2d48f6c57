"""Sentences to embeddings."""
