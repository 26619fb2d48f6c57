"""The secret, the configuration of a key, and key files.

Only this room turns a secret into numbers or reads and writes files that hold one. What a method
does with those numbers belongs to the method.
"""
