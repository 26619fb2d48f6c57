"""Names and files to wired objects: the only caller of the registry besides the keyring.

Also the home of the front door's functions. Where an environment or a store matters, it can be
given; by default it is read from the process's environment.
"""
