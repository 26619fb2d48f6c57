from __future__ import annotations

from pathlib import Path

import pytest

from hammingmark.assembly.environment import read_environment


def test_defaults_follow_the_platform() -> None:
    settings = read_environment({})
    assert "hammingmark" in settings.cache.parts
    assert settings.keyring.name == "keys"
    assert not settings.offline


def test_variables_move_the_folders() -> None:
    settings = read_environment({"HAMMINGMARK_CACHE": "~/c", "HAMMINGMARK_KEYRING": "/k"})
    assert settings.cache == Path.home() / "c"
    assert settings.keyring == Path("/k")


@pytest.mark.parametrize("word", ["1", "true", "YES", " on "])
def test_offline_is_on(word: str) -> None:
    assert read_environment({"HAMMINGMARK_OFFLINE": word}).offline


@pytest.mark.parametrize("word", ["", "0", "no", "false"])
def test_offline_is_off(word: str) -> None:
    assert not read_environment({"HAMMINGMARK_OFFLINE": word}).offline


def test_an_empty_variable_counts_as_unset() -> None:
    assert read_environment({"HAMMINGMARK_CACHE": ""}) == read_environment({})
