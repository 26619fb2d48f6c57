"""Edits of a text that try to remove the mark and keep the meaning, and the runner of attacks.

An attack knows no key. Attackers who use a detector get it as an argument.
"""
