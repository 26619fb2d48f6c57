"""Code that several methods share: hashing, choices, counts, channels, green lists.

Arithmetic of one method belongs to that method; tests and p-values belong to ``stats``.
"""
