"""Model files: the catalogue, the sources of files, and their pinned hashes.

This package loads no models; ``encoders`` and ``backends`` do.
"""
