"""Language models that draw candidates, and their tokenizers.

A backend draws candidates for requests. It knows no key and no method; ``generation`` decides
which candidates are accepted.
"""
