"""Documents of corpora, and splits without common texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import SHARED

from hammingmark.errors import InputError, UnknownName
from hammingmark.evaluation.datasets.corpora import (
    CORPORA,
    Document,
    load_corpus,
    split_documents,
)
from hammingmark.models.store import ModelStore


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_plain_texts_by_name_folder_and_file(tmp_path: Path) -> None:
    file = write(tmp_path / "c4.jsonl", {"id": 7, "text": "A."}, {"text": "B."})
    documents = [Document("7", "A."), Document("1", "B.")]
    assert load_corpus("c4", location=tmp_path) == documents
    assert load_corpus("c4", location=file) == documents
    assert load_corpus(str(file)) == documents


def test_a_folder_of_parts(tmp_path: Path) -> None:
    write(tmp_path / "booksum" / "1.jsonl", {"id": 1, "text": "A."})
    write(tmp_path / "booksum" / "2.jsonl", {"id": 2, "text": "B."})
    assert [each.id for each in load_corpus("booksum", location=tmp_path)] == ["1", "2"]


def test_questions_and_summaries(tmp_path: Path) -> None:
    row = {"id": 0, "input": "Why?", "context": "Articles.", "references": ["So.", "Because."]}
    write(tmp_path / "eli5.jsonl", row)
    write(tmp_path / "multi_news.jsonl", row)
    write(tmp_path / "cnn_dailymail.jsonl", {"id": 0, "text": "News.", "reference": "Brief."})
    answers = ("So.", "Because.")
    assert load_corpus("eli5", location=tmp_path) == [Document("0", "So.", "Why?", answers)]
    assert load_corpus("multi_news", location=tmp_path)[0].question == "Articles."
    assert load_corpus("cnn_dailymail", location=tmp_path) == [
        Document("0", "News.", references=("Brief.",))
    ]


def test_missing_corpora_and_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName):
        load_corpus("c5", location=tmp_path)
    for location in (None, tmp_path, tmp_path / "c4.jsonl"):
        with pytest.raises(InputError):
            load_corpus("c4", location=location)
    write(tmp_path / "c4.jsonl", {"id": 0, "content": "A."})
    write(tmp_path / "eli5.jsonl", {"id": 0, "input": "Why?", "references": []})
    for name in ("c4", "eli5"):
        with pytest.raises(InputError):
            load_corpus(name, location=tmp_path)


def test_corpora_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelStore, "ensure", lambda self, name: tmp_path / name)
    store = ModelStore(tmp_path, offline=True)
    write(tmp_path / "wiki100" / "wiki100.jsonl", {"id": "Ants", "text": "Ants."})
    write(
        tmp_path / "gutenberg" / "gutenberg.jsonl",
        {"id": "austen-emma", "text": "Emma."},
        {"id": "blake-poems", "text": "Tyger."},
    )
    (tmp_path / "enwik8").mkdir()
    page = '<title>Ants</title>\n<text xml:space="preserve">[[Ant]]s.</text>\n'
    (tmp_path / "enwik8" / "enwik8").write_text(page)
    stored = {name: load_corpus(name, store=store) for name in CORPORA if CORPORA[name].stored}
    assert {name: [each.id for each in documents] for name, documents in stored.items()} == {
        "wiki100": ["Ants"],
        "enwik8": ["Ants"],
        "gutenberg": ["austen-emma"],
    }
    assert CORPORA["enwik8"].sections(stored["enwik8"][0].text) == ["Ants."]


def test_no_text_is_in_both_parts() -> None:
    documents = [Document(str(n), f"Text {n % 150}.") for n in range(300)]
    calibration, test = split_documents(documents)
    assert len(calibration) + len(test) == 300
    assert not {each.text for each in calibration} & {each.text for each in test}
    assert 100 < len(calibration) < 200
    assert split_documents(documents[:200])[0] == [e for e in calibration if int(e.id) < 200]
    assert split_documents(documents, seed=1)[0] != calibration
    assert len(split_documents(documents, calibration=0.2)[0]) < 100
    for refused in (0.0, 1.0):
        with pytest.raises(InputError):
            split_documents(documents, calibration=refused)
    with pytest.raises(InputError):
        split_documents(documents[:1])


@pytest.mark.parametrize("name", [name for name, corpus in CORPORA.items() if not corpus.stored])
def test_the_corpora_beside_the_checkout(name: str) -> None:
    if not (SHARED / f"{name}.jsonl").is_file():
        pytest.skip(f"the corpus {name} does not lie beside this checkout")
    documents = load_corpus(name, location=SHARED)
    assert len(documents) >= 100
    assert all(each.text.strip() for each in documents)
    assert len({each.id for each in documents}) == len(documents)
