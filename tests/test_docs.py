"""What the documents show is true: their examples run, their links lead somewhere."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from importlib import import_module
from io import StringIO
from pathlib import Path

import click
import pytest

from hammingmark.assembly.environment import model_store
from hammingmark.assembly.keys import new_key
from hammingmark.cli import cli
from hammingmark.keys.keyring import Keyring
from tests.serving import keep_key, serve

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCES = [path for path in sorted(ROOT.glob("src/**/*.py")) if ">>> " in path.read_text("utf-8")]

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)[^)]*\)")
_COMMAND = re.compile(r"^(?:\$ )?(hammingmark .*)$", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`(hammingmark [^`]+)`")
_FOLDER = re.compile(r"path/to/([\w-]+)")  # stands for the folder of the model of that name
_SERVICE = "http://127.0.0.1:8080"  # a service that the reader is supposed to have started
_KEY = re.compile(r'load_key\("([\w-]+)"\)')  # a key that the reader is supposed to have made


def python_blocks(page: Path) -> list[str]:
    """The Python of a page; that of the guides for outsiders is run from outside."""
    if page.name.startswith("add-"):
        return []
    return [body for kind, body in _BLOCK.findall(page.read_text("utf-8")) if kind == "python"]


def needs_models(page: Path) -> bool:
    code = "".join(python_blocks(page))
    marked = "<!-- needs models -->" in page.read_text("utf-8")
    return marked or _SERVICE in code or bool(_FOLDER.search(code) or _KEY.search(code))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def run_examples(text: str, name: str, names: dict[str, object]) -> None:
    """Run ``>>>`` examples, which may use and add to ``names``."""
    test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    report = StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    assert not result.failed, report.getvalue()


def test_code_blocks_begin_and_end() -> None:
    for page in PAGES:
        fences = re.findall(r"^`{2,}.*$", page.read_text("utf-8"), re.MULTILINE)
        assert all(fence.startswith("```") for fence in fences), relative(page)
        assert len(fences) % 2 == 0, relative(page)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a service runs with the embedded models."""
    folder = tmp_path_factory.mktemp("service")
    keep_key(folder)
    with serve(folder, "--set", "max_tokens=60") as served:
        yield served.root


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=[pytest.mark.slow] if needs_models(page) else [], id=relative(page)
        )
        for page in PAGES
        if python_blocks(page)
    ],
)
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("HAMMINGMARK_KEYRING", str(tmp_path))
    names: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(page):
        for name in set(_KEY.findall(block)):
            Keyring(tmp_path).add(new_key(), name=name)
        code = _FOLDER.sub(lambda found: model_store().ensure(found[1]).as_posix(), block)
        if _SERVICE in code:
            code = code.replace(_SERVICE, request.getfixturevalue("service"))
        if ">>> " in code:
            run_examples(code, relative(page), names)
        else:
            exec(compile(code, relative(page), "exec"), names)


@pytest.mark.parametrize("source", SOURCES, ids=relative)
def test_the_examples_in_docstrings_run(source: Path) -> None:
    parts = source.relative_to(ROOT / "src").with_suffix("").parts
    module = import_module(".".join(part for part in parts if part != "__init__"))
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        report = StringIO()
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.write)
        assert not result.failed, report.getvalue()


def test_links_lead_to_files() -> None:
    missing = [
        f"{relative(page)}: {link}"
        for page in PAGES
        for link in _LINK.findall(_BLOCK.sub("", page.read_text("utf-8")))
        if not (page.parent / link).exists()
    ]
    assert missing == []


def shown_commands(page: Path) -> list[str]:
    """The commands that a page shows, each once."""
    text = page.read_text("utf-8")
    blocks = [line for _, body in _BLOCK.findall(text) for line in _COMMAND.findall(body)]
    return list(dict.fromkeys([*blocks, *_INLINE.findall(_BLOCK.sub("", text))]))


@pytest.mark.parametrize("page", [page for page in PAGES if shown_commands(page)], ids=relative)
def test_commands_and_options_exist(page: Path) -> None:
    unknown = {line: _unknown_words(line) for line in shown_commands(page)}
    assert {line: words for line, words in unknown.items() if words} == {}


def _unknown_words(line: str) -> list[str]:
    """The commands and options of a line that there are not."""
    command: click.Command = cli
    unknown = []
    for word in re.split(r"\s[|>&;]|\$\(", line)[0].split()[1:]:
        if isinstance(command, click.Group) and not word.startswith("-"):
            inner = command.get_command(click.Context(command), word)
            if inner is None:
                return [*unknown, word]
            command = inner
        elif re.match(r"--?[a-z]", word):
            known = {option for each in command.params for option in each.opts} | {"-h", "--help"}
            if word.partition("=")[0] not in known:
                unknown.append(word)
    return unknown


def test_each_decision_has_a_number_of_its_own() -> None:
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in files] == list(range(1, len(files) + 1))
    for number, path in enumerate(files, start=1):
        assert path.read_text("utf-8").startswith(f"# {number}. "), path.name
