"""Profiles: fitted, written, read again, and refused where they do not fit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.errors import raises_naming

from hammingmark import registry as libraries
from hammingmark.artifacts.profile import (
    EncoderProfile,
    load_profile,
    profile_for,
    read_profile,
    save_profile,
    shipped_profile,
)
from hammingmark.errors import InputError
from hammingmark.evaluation import profiles as fitting
from hammingmark.keys.config import EncoderId
from hammingmark.testing import FakeEncoder
from hammingmark.text.sentencex import SentencexSplitter
from hammingmark.watermarks._shared.similarity import even_sample

TOPICS = ("rain wind snow storm", "bread cake flour oven", "goal ball team match")
TEXTS = [
    " ".join(f"{topic.replace(word, str(n)).capitalize()}." for word in topic.split())
    for n in range(6)
    for topic in TOPICS
]


def fitted(**changes: object) -> EncoderProfile:
    options = {"clusters": 3, "components": 4, "seed": 1, **changes}
    return fitting.fit_profile(
        TEXTS,
        encoder=FakeEncoder(),
        splitter=SentencexSplitter(),
        **options,  # type: ignore[arg-type]
    )


def test_a_profile_is_what_it_says() -> None:
    profile, encoder = fitted(), FakeEncoder()
    rows = [encoder.encode(SentencexSplitter().split(text).carrying) for text in TEXTS]
    every = np.concatenate(rows).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(profile.centres, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(profile.mean, every.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(profile.components @ profile.components.T, np.eye(4), atol=1e-5)
    values = np.linalg.eigvalsh(np.cov(every.T))[::-1]
    along = ((every - every.mean(axis=0)) @ profile.components.T).var(axis=0, ddof=1)
    np.testing.assert_allclose(along, values[:4], rtol=1e-4)
    pairs = [(a, b) for row in rows for a, b in itertools.pairwise(row)]
    np.testing.assert_allclose(profile.cosines, sorted(a @ b for a, b in pairs), atol=1e-6)
    apart = sorted(np.linalg.norm(profile.components @ (a - b)) for a, b in pairs)
    np.testing.assert_allclose(profile.distances, apart, atol=1e-5)
    assert (profile.provenance.texts, profile.provenance.sentences) == (18, len(every))


def test_texts_of_a_topic_share_a_cluster() -> None:
    """The centres are the means of their clusters, at length one."""
    profile, encoder = fitted(), FakeEncoder()
    rows = [encoder.encode(SentencexSplitter().split(text).carrying) for text in TEXTS]
    means = np.array([row.mean(axis=0) / np.linalg.norm(row.mean(axis=0)) for row in rows])
    nearest = (means @ profile.centres.T).argmax(axis=1)
    for topic in range(3):
        assert len(set(nearest[topic::3])) == 1
    assert len(set(nearest)) == 3
    for cluster in range(3):
        centre = means[nearest == cluster].sum(axis=0)
        np.testing.assert_allclose(
            profile.centres[cluster], centre / np.linalg.norm(centre), atol=1e-5
        )


def test_the_same_texts_give_the_same_file() -> None:
    assert save_profile(fitted()) == save_profile(fitted())


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    profile, file = fitted(), tmp_path / "p.safetensors"
    file.write_bytes(save_profile(profile))
    again = load_profile(file)
    assert (again.encoder, again.provenance) == (profile.encoder, profile.provenance)
    for name in ("centres", "components", "mean", "cosines", "distances"):
        np.testing.assert_allclose(getattr(again, name), getattr(profile, name), atol=1e-3)
    assert len(again.name) == 32


def test_a_long_sample_is_thinned_evenly() -> None:
    values = np.random.default_rng(0).permutation(np.arange(1000.0))
    sample = even_sample(values, 10)
    assert sample.tolist() == [50.0, 150.0, 250.0, 350.0, 450.0, 550.0, 650.0, 750.0, 850.0, 950.0]
    assert even_sample(values[:5], 10).tolist() == sorted(values[:5])


@pytest.mark.parametrize(
    ("changes", "data"),
    [({"clusters": 40}, (40, "--clusters")), ({"components": 65}, (64, 65, "--components"))],
)
def test_what_the_texts_do_not_give_is_refused(
    changes: dict[str, object], data: tuple[object, ...]
) -> None:
    with raises_naming(InputError, *data):
        fitted(**changes)


def test_texts_of_one_sentence_have_no_neighbours() -> None:
    texts = [f"Number {n} is all there is." for n in range(30)]
    with pytest.raises(InputError):
        fitting.fit_profile(texts, encoder=FakeEncoder(), splitter=SentencexSplitter())


def test_texts_that_are_all_alike_have_no_clusters() -> None:
    with raises_naming(InputError, 3):
        fitting.cluster_centres(np.ones((9, 4)), 3, seed=0)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    with raises_naming(InputError, "'scikit-learn>="):
        fitted()


def test_a_profile_of_another_encoder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.safetensors"
    file.write_bytes(save_profile(fitted()))
    own = EncoderId.of(FakeEncoder())
    assert profile_for(own, str(file), method="simmark").encoder == own
    with raises_naming(InputError, "'fake'", "'other'", "--encoder other"):
        profile_for(EncoderId("other", "cd" * 32, 64), str(file), method="simmark")


def test_an_encoder_without_a_profile_says_what_to_run() -> None:
    with raises_naming(InputError, "'simmark'", "--encoder fake"):
        profile_for(EncoderId.of(FakeEncoder()), method="simmark")


@pytest.mark.parametrize("name", ["../profiles/minilm-mark", "", "/etc/passwd", "*"])
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    assert shipped_profile(EncoderId(name, "ab" * 32, 384)) is None


def test_a_shipped_profile_is_for_one_fingerprint() -> None:
    assert shipped_profile(EncoderId("minilm-mark", "ab" * 32, 384)) is None


def test_a_damaged_file_is_no_profile(tmp_path: Path) -> None:
    content = save_profile(fitted())
    for bad in (b"", b"text", content[:200], content.replace(b"hammingmark-profile", b"x" * 19)):
        with pytest.raises(InputError):
            read_profile(bad)
    with raises_naming(InputError, tmp_path / "none"):
        load_profile(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"x")
    with raises_naming(InputError, "bad"):
        load_profile(tmp_path / "bad")


def test_arrays_that_do_not_fit_are_refused() -> None:
    profile = fitted()
    for wrong in ({"mean": profile.mean[:3]}, {"cosines": profile.cosines[:0]},
                  {"centres": profile.centres * np.float32(np.nan)}):  # fmt: skip
        with pytest.raises(InputError):
            replace(profile, **wrong)
