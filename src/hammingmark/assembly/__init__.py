"""Names and files to connected objects, and the functions of ``import hammingmark``.

Besides the keyring the only caller of the registry, and the only reader of the environment below
the commands. Rules, tests and loops do not belong here.
"""
