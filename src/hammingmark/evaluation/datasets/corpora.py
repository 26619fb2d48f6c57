"""The named corpora and their documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hammingmark.assembly.environment import model_store
from hammingmark.errors import InputError, UnknownName
from hammingmark.evaluation.datasets import prose, wikitext
from hammingmark.evaluation.datasets.files import ARROW, JSON_LINES, Record, read_records
from hammingmark.models.store import ModelStore


@dataclass(frozen=True, slots=True)
class Document:
    """One entry of a corpus.

    Attributes:
        id: unique in the corpus.
        text: human text: for a question its first answer, for articles to summarise a summary.
        question: the question or the articles; empty in a corpus of plain texts.
        references: all human answers or summaries; if the corpus has questions, the first is
            ``text``.
    """

    id: str
    text: str
    question: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """A named corpus.

    Attributes:
        name: its name, also the stem of its local file.
        text: the field with human text; empty if the references are the only human text.
        question: the field with the question or the articles; empty for plain texts.
        references: the field with reference answers: a string or a list of strings.
        stored: whether the model store has it, as plain texts.
        sections: extracts the sections of prose from a document's raw text.
        no_prose: ids of documents in verse or dialogue, which have hardly any sentences.
    """

    name: str
    text: str = "text"
    question: str = ""
    references: str = ""
    stored: bool = False
    sections: Callable[[str], list[str]] = prose.text_sections
    no_prose: frozenset[str] = frozenset()


_GUTENBERG_NO_PROSE = frozenset(
    {
        "bible-kjv",
        "blake-poems",
        "milton-paradise",
        "shakespeare-caesar",
        "shakespeare-hamlet",
        "shakespeare-macbeth",
        "whitman-leaves",
    }
)

_CORPORA = (
    Corpus("c4"),
    Corpus("booksum"),
    Corpus("cnn_dailymail", references="reference"),
    Corpus("eli5", text="", question="input", references="references"),
    Corpus("multi_news", text="", question="context", references="references"),
    Corpus("wiki100", stored=True, sections=prose.article_sections),
    Corpus("enwik8", stored=True, sections=wikitext.sections),
    Corpus("gutenberg", stored=True, sections=prose.book_sections, no_prose=_GUTENBERG_NO_PROSE),
)

CORPORA: Mapping[str, Corpus] = {corpus.name: corpus for corpus in _CORPORA}


def find_corpus(name: str) -> Corpus:
    """The corpus of that name.

    Raises:
        UnknownName: there is none.
    """
    if name not in CORPORA:
        raise UnknownName(f"There is no corpus {name!r}. Available: {', '.join(CORPORA)}.")
    return CORPORA[name]


def load_corpus(
    name: str, *, location: Path | None = None, store: ModelStore | None = None
) -> list[Document]:
    """The documents of a corpus, by its name or by its file.

    Args:
        name: of a corpus, or the path of a JSON Lines or Arrow file with a field ``text``.
        location: the corpus's file, or the folder that contains it as ``NAME.jsonl``,
            ``NAME.arrow`` or ``NAME/``. A corpus of the model store needs none.
        store: the store of corpora; by default this machine's model store.

    Raises:
        UnknownName: there is no corpus of that name.
        InputError: its file is missing, or a record lacks a field.
    """
    if name.endswith(JSON_LINES + ARROW):
        return _documents(Corpus(Path(name).stem), read_records(Path(name)))
    corpus = find_corpus(name)
    if location is None and corpus.stored:
        return _stored(corpus, store or model_store())
    if location is None:
        raise InputError(
            f"The corpus {name!r} is not in the model store; give the location of its file."
        )
    return _documents(corpus, read_records(_file_of(corpus, location)))


def split_documents(
    documents: Sequence[Document], *, calibration: float = 0.5, seed: int = 0
) -> tuple[list[Document], list[Document]]:
    """Split documents into those for calibration and those for the test, without common texts.

    A document's part depends only on its text and the seed, so equal texts are in one part, and
    the parts are stable when a corpus grows.

    Args:
        documents: of any corpora.
        calibration: the share for calibration.
        seed: of the split.

    Raises:
        InputError: the share is not between 0 and 1, or a part would be empty.
    """
    if not 0.0 < calibration < 1.0:
        raise InputError(f"The share for calibration must be between 0 and 1, not {calibration}.")
    parts: tuple[list[Document], list[Document]] = [], []
    for document in documents:
        digest = sha256(f"{seed} {' '.join(document.text.split())}".encode()).digest()
        parts[int.from_bytes(digest[:8], "big") >= calibration * 2**64].append(document)
    if not all(parts):
        raise InputError(f"{len(documents)} documents are too few to split.")
    return parts


def _file_of(corpus: Corpus, location: Path) -> Path:
    if location.is_file():
        return location
    files = [location / f"{corpus.name}{ending}" for ending in JSON_LINES + ARROW]
    for path in (*files, location / corpus.name):
        if path.exists():
            return path
    raise InputError(f"{location} contains no {corpus.name}.jsonl or {corpus.name}.arrow.")


def _stored(corpus: Corpus, store: ModelStore) -> list[Document]:
    folder = store.ensure(corpus.name)
    if corpus.name == "enwik8":
        with (folder / "enwik8").open(encoding="utf-8", errors="replace") as lines:
            return [Document(title, markup) for title, markup in wikitext.pages(lines)]
    documents = _documents(corpus, read_records(folder / f"{corpus.name}.jsonl"))
    return [document for document in documents if document.id not in corpus.no_prose]


def _documents(corpus: Corpus, records: Sequence[Record]) -> list[Document]:
    return list(_read(corpus, records))


def _read(corpus: Corpus, records: Sequence[Record]) -> Iterator[Document]:
    for number, record in enumerate(records):
        try:
            references = record[corpus.references] if corpus.references else ()
            references = (references,) if isinstance(references, str) else tuple(references)
            yield Document(
                id=str(record.get("id", number)),
                text=record[corpus.text] if corpus.text else references[0],
                question=record[corpus.question] if corpus.question else "",
                references=references,
            )
        except (KeyError, IndexError) as error:
            raise InputError(
                f"Record {number} of the corpus {corpus.name!r} has no {error}."
            ) from None
