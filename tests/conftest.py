"""What many tests share: real models, real texts, and texts written once for all tests."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock

from hammingmark.assembly.keys import method_of
from hammingmark.evaluation.datasets.corpora import load_corpus
from hammingmark.keys.key import Secret, WatermarkKey
from hammingmark.protocols import Backend, Encoder, Splitter
from hammingmark.records import Generation, Prompt
from tests.network import refuse_network

sys.addaudithook(refuse_network)

# A shell starts its background jobs with interrupts ignored, and so would be what tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_HERE = Path(__file__).parent
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

# How long an example takes says something about the machine, and nothing about the code.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A study is slow, too. Long files come first, so that workers end at about the same time."""
    for item in items:
        if item.get_closest_marker("study"):
            item.add_marker(pytest.mark.slow)
    folders = {"statistical": 0, "integration": 1, "contract": 2, "unit": 4}
    items.sort(key=lambda item: folders.get(item.path.relative_to(_HERE).parts[0], 3))


@pytest.fixture(autouse=True)
def numbered_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """New keys of a test are the same in every run: under some a mark shows less than usual."""
    numbers = count()
    monkeypatch.setattr(Secret, "fresh", lambda: Secret(sha256(b"%d" % next(numbers)).digest()))


@pytest.fixture(autouse=True)
def _one_thread_for_tiny_models(request: pytest.FixtureRequest) -> Iterator[None]:
    """Threads that share so little work mostly wait for each other: twice as long, and more."""
    torch = sys.modules.get("torch")
    if torch is None or request.path.relative_to(_HERE).parts[0] not in {"unit", "contract"}:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The base encoder's files, fetched once; for tests marked slow."""
    from hammingmark.assembly.environment import model_store

    return model_store().ensure("minilm")


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Encoder:
    """The base encoder."""
    from hammingmark.assembly.encoders import load_encoder

    return load_encoder("minilm")


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """The default encoder."""
    from hammingmark.assembly.encoders import load_encoder

    return load_encoder()


@pytest.fixture(scope="session")
def backend() -> Backend:
    """The default language model, loaded once for all tests.

    What it keeps of earlier prompts changes the last digits of what it computes, so a text that
    must come out the same twice is written by models of its own.
    """
    from hammingmark.assembly.backends import load_backend

    return load_backend("smollm2")


@pytest.fixture(scope="session")
def splitter() -> Splitter:
    """The default splitter."""
    from hammingmark.assembly.parts import load_splitter

    return load_splitter()


@pytest.fixture(scope="session")
def articles() -> list[str]:
    """Human text: about a hundred encyclopedia articles of the model store."""
    return [document.text for document in load_corpus("wiki100")]


def shared_texts(name: str) -> list[str]:
    """Human texts of a benchmark corpus that lies beside the checkout, or a skip."""
    if not (SHARED / f"{name}.jsonl").is_file():
        pytest.skip(f"the corpus {name} does not lie beside this checkout")
    return [document.text for document in load_corpus(name, location=SHARED)]


def passages(
    texts: list[str], splitter: Splitter, *, length: int = 10, each: int = 2, most: int = 200
) -> list[list[str]]:
    """Runs of ``length`` sentences, a few of each text, spread over it."""
    found: list[list[str]] = []
    for text in texts:
        sentences = splitter.split(text).carrying
        starts = range(0, max(1, len(sentences) - length + 1), max(length, len(sentences) // each))
        found += [sentences[i : i + length] for i in list(starts)[:each]]
    return [run for run in found if len(run) >= min(4, length)][:most]


@pytest.fixture(scope="session")
def marking_key(encoder: Encoder) -> WatermarkKey:
    """A fixed key of the default kind: under some keys a mark shows less than under others."""
    from hammingmark.assembly.keys import new_key

    return replace(new_key(encoder), secret=Secret(bytes(range(1, 33))))


@dataclass(frozen=True)
class Texts:
    """Texts written by the embedded model for the same prompts."""

    prompts: list[Prompt]
    marked: list[Generation]
    plain: list[Generation]


def write_texts(
    articles: list[str],
    *,
    marked: int,
    plain: int,
    key: WatermarkKey,
    encoder: Encoder,
    splitter: Splitter,
) -> Texts:
    """Continue the first articles twice, with the mark and, as many as ``plain``, without.

    Two models write side by side, each in a thread of its own: threads that share a model wait for
    each other, which on a busy machine takes many times as long. A model writes several texts at
    once. Which of them share a step depends on timing, and so do the last digits of the model's
    probabilities, so that now and then another word is drawn: the texts are others in every run,
    and what is asked of them must hold for any such texts.
    """
    from hammingmark.assembly.environment import model_store
    from hammingmark.assembly.marking import writer
    from hammingmark.backends.llamacpp import LlamaCppBackend

    prompts = [Prompt(" ".join(run)) for run in openings(articles, splitter)][:marked]
    assert len(prompts) == marked
    (file,) = model_store().ensure("smollm2").glob("*.gguf")

    def half(which: int) -> tuple[list[Generation], list[Generation]]:
        backend = LlamaCppBackend(file, name="smollm2", threads=1)
        made = (
            writer(each, backend=backend, encoder=encoder, splitter=splitter).write_many(
                some[which::2], seed=7 + which
            )
            for each, some in ((key, prompts), (None, prompts[:plain]))
        )
        return next(made), next(made)

    with ThreadPoolExecutor(2) as pool:
        even, odd = pool.map(half, range(2))
    return Texts([*prompts[::2], *prompts[1::2]], even[0] + odd[0], even[1] + odd[1])


@pytest.fixture(scope="session")
def texts(
    articles: list[str],
    encoder: Encoder,
    splitter: Splitter,
    marking_key: WatermarkKey,
    tmp_path_factory: pytest.TempPathFactory,
) -> Texts:
    """Eight marked texts of the embedded model and six plain ones; takes a minute, once a run."""

    def write() -> Texts:
        return write_texts(
            articles, marked=8, plain=6, key=marking_key, encoder=encoder, splitter=splitter
        )

    return once_a_run(write, tmp_path_factory)


def once_a_run(make: Callable[[], Texts], folders: pytest.TempPathFactory) -> Texts:
    """What one worker of a run makes, and the others wait for and read."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return make()
    file = folders.getbasetemp().parent / "texts"
    with FileLock(f"{file}.lock"):
        if not file.exists():
            file.write_bytes(pickle.dumps(make()))
        made: Texts = pickle.loads(file.read_bytes())
    return made


@pytest.fixture(scope="session")
def many_texts(
    articles: list[str], encoder: Encoder, splitter: Splitter, marking_key: WatermarkKey
) -> Texts:
    """The same for studies: forty-eight and twenty-four."""
    return write_texts(
        articles, marked=48, plain=24, key=marking_key, encoder=encoder, splitter=splitter
    )


def openings(articles: list[str], splitter: Splitter) -> list[list[str]]:
    """The first two sentences of each article that has them."""
    return [
        sentences[:2]
        for sentences in (splitter.split(article).carrying for article in articles)
        if len(sentences) >= 20 and all(len(each) > 40 for each in sentences[:2])
    ]


def assert_counted(
    generation: Generation, key: WatermarkKey, *, encoder: Encoder, splitter: Splitter
) -> list[bool]:
    """The text splits into what was written, and what was accepted counts, and nothing else does.

    A sentence is embedded again in other company, where a network's last digits differ by up to
    1e-5 (`test_encoders_real` holds it to that), and so does a soft score. A score as near as that
    to the threshold may fall on its other side. The test lets pass what lies within 1e-4 of it.

    Returns:
        Whether each sentence was accepted, of those of which something was asked. The first
        sentence of an answer is free.
    """
    sentences = splitter.split(generation.text).carrying
    assert tuple(sentences) == generation.sentences
    mark = method_of(key)
    evidence = mark.read(encoder.encode(sentences)).evidence
    sentence_mark = mark.capabilities.sentences
    judges_beginnings = sentence_mark is not None and sentence_mark.judges_beginnings
    scored = [step for step in generation.steps if step.sentence][0 if judges_beginnings else 1 :]
    asked = [step for step in scored if step.accepted is not None]
    assert len(scored) - len(asked) <= 1
    for step, unit in zip(scored, evidence.scores, strict=True):
        if step.accepted is None:
            continue
        near = 0.0 < abs(unit.score - evidence.threshold) < 1e-4  # a hard ball has none so near
        assert step.accepted is unit.valid or near
    return [bool(step.accepted) for step in asked]
