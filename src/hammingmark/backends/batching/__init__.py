"""Continuous batching for models of the transformers library: slots, caches and draws."""
