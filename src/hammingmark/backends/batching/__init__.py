"""Continuous batching for models of transformers: slots, their caches, their draws."""
