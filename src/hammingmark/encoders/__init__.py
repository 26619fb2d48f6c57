"""Sentences to embeddings of length one: an encoder per runtime, pooling and batches.

Which name means which encoder is decided in ``assembly``; weights come from ``models``.
"""
