"""Secrets, configurations of methods, and key files.

Only this room derives random numbers from a secret, and reads and writes files that contain one.
What a method does with those numbers belongs to ``watermarks/``.
"""
