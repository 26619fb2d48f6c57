"""Encoders, which embed sentences as vectors of length one, and wrappers of encoders.

There is one encoder per runtime. ``assembly`` finds an encoder by its name, and ``models`` provides
the weights.
"""
