"""Model files: the catalogue, where files come from, and their pinned hashes.

Nothing here loads a model; that is done by ``encoders`` and ``backends``.
"""
