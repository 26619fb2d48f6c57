"""Everything this package raises on purpose.

::

    HammingMarkError
    ├── KeyProblem              a key that is missing, unreadable or unusable
    │   ├── KeyFileError        the file: absent, malformed, readable by others
    │   └── KeyMismatch         the key needs another encoder
    ├── ModelError              a model file that cannot be had
    │   ├── UnknownModel        no such name in the catalogue
    │   ├── ModelUnavailable    no source gave it: network, offline switch, disk
    │   └── HashMismatch        a file is not the one that was pinned
    ├── EncoderError            sentences that could not be embedded
    ├── BackendError            a language model that could not answer
    ├── AuditError              a record that the audit log could not take
    ├── InputError              a text, file or option that makes no sense
    ├── CalibrationError        a calibration that cannot be fitted or does not fit
    └── UnknownName             no part of that name is registered

Each message is a sentence that says what to do next.
"""

from __future__ import annotations


class HammingMarkError(Exception):
    """Anything that went wrong and that a user can fix."""


class KeyProblem(HammingMarkError):
    """A key that is missing, unreadable or unusable."""


class KeyFileError(KeyProblem):
    """A key file that is absent, malformed, or readable by others."""


class KeyMismatch(KeyProblem):
    """A key used with an encoder, or a method, it was not made for."""


class ModelError(HammingMarkError):
    """A model file that cannot be had."""


class UnknownModel(ModelError):
    """A name the catalogue does not hold."""


class ModelUnavailable(ModelError):
    """No source gave the file."""


class HashMismatch(ModelError):
    """A file whose content is not the pinned one."""


class EncoderError(HammingMarkError):
    """Sentences that could not be embedded."""


class BackendError(HammingMarkError):
    """A language model that could not answer."""


class AuditError(HammingMarkError):
    """An audit log that cannot be used, or could not take a record."""


class InputError(HammingMarkError):
    """A text, a file or an option that makes no sense."""


class CalibrationError(HammingMarkError):
    """A calibration that cannot be fitted, or that does not fit its use."""


class UnknownName(HammingMarkError):
    """A part that no table and no installed package offers."""
