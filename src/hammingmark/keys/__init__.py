"""The secret and all that a key is made of: its configuration, its parameters, its files.

Whatever turns a secret into numbers, or reads and writes the files that hold one, belongs here.
"""
