"""Building connected objects from names and files, and the functions of ``import hammingmark``.

Besides the keyring, only these modules call the registry, and below the commands only they read the
environment. Rules, tests and loops do not belong here.
"""
