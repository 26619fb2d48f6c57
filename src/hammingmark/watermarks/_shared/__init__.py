"""What several methods share: hashing, green lists, channels, counts.

Arithmetic of one method belongs to that method; tests and p-values belong to ``stats``.
"""
