"""Edits that try to remove the mark and keep the meaning, and the runner that applies them.

An attack knows no key. An attack that queries a detector gets it as an argument.
"""
