"""Fitted arrays in files, one format for all of them: profiles of natural text, networks."""
