"""Language models that draw candidates, and their tokenizers.

A backend draws what a request asks for. It knows no key and no method; acceptance is decided in
``generation``.
"""
