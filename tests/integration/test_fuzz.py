"""Any input at all gives a verdict, in time and memory that grow with its length; ``-m slow``.

How fast a machine is does not matter here: times are processor time, to which other programs add
nothing, and they are compared with each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.keys import hamming_key

from hammingmark.assembly.detection import detector
from hammingmark.assembly.encoders import load_encoder
from hammingmark.cli.inputs import decode
from hammingmark.detection.detector import Detector
from hammingmark.keys.key import Secret
from hammingmark.records import Verdict
from hammingmark.reports import text as report
from hammingmark.serialization import verdict_to_dict

pytestmark = pytest.mark.slow

LONGEST = 1_000_000  # characters of prose in the test of time

PIECES = [
    *("Hello world. ", "He left! ", "Why? ", "e.g. ", "word ", "\n", "\n\n", "\r\n", "\t", " "),
    *("- ", "* ", "1. ", "> ", "# ", "| a | b |\n", "---\n", "```\n", "~~~\n", "`", '"', "“", "’"),
    *("(", ")", "[x] ", "\u200b", "\u0301", "\u202e", "\x00", "\ud800", "\udfff", "\ufeff", "😀"),
    *("你好。", "か", "http://a.b ", "42 ", "...", "?!", "\u2028", "\u2029", "\x85", "ß", "İ"),
]
ANY_TEXT = st.one_of(
    st.text(alphabet=st.characters(codec=None), max_size=80),
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
)
RELAXED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def judge() -> Detector:
    encoder = load_encoder("potion")
    key = hamming_key(
        secret=Secret(bytes(range(32))),
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
    )
    return detector(key, encoder=encoder, references=100)


def assert_well_formed(verdict: Verdict) -> None:
    n = len(verdict.pieces)
    assert len(verdict.evidence.scores) == max(0, n - 1)
    assert (verdict.p_value is None) == (n < 2)
    assert verdict.p_value is None or 0 < verdict.p_value <= 1
    assert 0 < verdict.attainable <= 1
    assert verdict.power is None or 0 <= verdict.power <= 1
    assert verdict.watermarked in (True, False, None)
    assert verdict.watermarked is None or n >= 2
    assert verdict.reason
    for passage in verdict.passages:
        assert 0 <= passage.begin < passage.end <= n
        assert 0 < passage.p_value <= verdict.level
    json.dumps(verdict_to_dict(verdict), allow_nan=False)
    for shown in (report.as_text(verdict), report.as_html(verdict)):
        shown.encode()


@RELAXED
@given(content=st.binary(max_size=400))
@example(content=b"\xff\xfe\x00")
@example(content=b"\xff\xfe\x00\x00\x00")
@example(content=b"\xfe\xff\xd8\x00")
@example(content=b"\xef\xbb\xbf")
def test_any_bytes_have_a_verdict(judge: Detector, content: bytes) -> None:
    assert_well_formed(judge.judge(decode(content)))


@RELAXED
@given(text=ANY_TEXT)
def test_any_unicode_has_a_verdict(judge: Detector, text: str) -> None:
    verdict = judge.judge(text)
    assert_well_formed(verdict)
    assert judge.judge(text) == verdict


@settings(RELAXED, max_examples=40)
@given(texts=st.lists(ANY_TEXT, max_size=6))
def test_company_changes_no_verdict(judge: Detector, texts: list[str]) -> None:
    together = list(judge.judge_many(texts))
    assert together == [judge.judge(text) for text in texts]


HARD = {
    "nothing": "",
    "one letter": "a",
    "one word": "Yes",
    "one word twice": "Yes. Yes.",
    "one word, again and again": "Yes. " * 500,
    "a line of a million words": "word " * 1_000_000,
    "a word of a million letters": "a" * 1_000_000,
    "100,000 lines of one word": "\n".join(f"word{i}" for i in range(100_000)),
    "20,000 paragraphs of one word": "\n\n".join(f"Word{i}." for i in range(20_000)),
    "20,000 items": "\n".join(f"{i}. item" for i in range(20_000)),
    "punctuation": "?!.,;:" * 100_000,
    "dots": "a. " * 100_000,
    "open brackets": "([{<" * 100_000,
    "open quotes": "\"'“‘«" * 100_000,
    "deep quotes": ">" * 100_000 + " Deep. Deeper.",
    "deep lists": "- " * 100_000 + "Deep. Deeper.",
    "emoji": "😀👩‍👩‍👧🇪🇺" * 50_000,
    "a code fence": "```\n" + "x = 1. y = 2.\n" * 20_000 + "```",
    "a fence that never closes": "```\n" + "Not prose. At all.\n" * 20_000,
    "backticks": "`" * 100_000,
    "a table": "| a | b |\n" * 20_000,
    "NULs": "\x00" * 500_000,
    "NULs between": "One.\x00 Two.\x00 Three." * 100,
    "lone surrogates": "\ud800. \udfff! " * 50_000,
    "combining marks": "a" + "\u0301" * 200_000,
    "joiners": "\u200d\u200b\ufeff" * 100_000,
    "right to left": "\u202eשלום עולם. مرحبا. " * 300,
    "no spaces": "你好世界。" * 3000,
    "carriage returns": "One.\rTwo.\r" * 500,
    "addresses": "https://a.b/c?d=e " * 20_000,
}


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.fixture(scope="module")
def prose_seconds(judge: Detector) -> float:
    """What a million characters of prose take."""
    judge.judge(prose(50_000))  # the model and the reference keys are ready now
    return seconds(lambda: assert_well_formed(judge.judge(prose(LONGEST))))


@pytest.mark.parametrize("kind", HARD)
def test_hard_texts_have_a_verdict_soon(judge: Detector, prose_seconds: float, kind: str) -> None:
    """Measured: 0.6 of the prose, for 20,000 sentences against its 12,501."""
    taken = seconds(lambda: assert_well_formed(judge.judge(HARD[kind])))
    print(f"\n{taken:.2f} s, {taken / prose_seconds:.2f} of a million characters of prose")
    assert taken < 5 * prose_seconds


def test_one_word_again_and_again_is_not_watermarked(judge: Detector) -> None:
    assert judge.judge(HARD["one word, again and again"]).p_value == 1.0


def prose(characters: int) -> str:
    """Sentences that all differ."""
    count = characters // 80 + 1
    return " ".join(
        f"The river rose {i * 7919 % 100_003} feet and by morning it had reached mill {i} again."
        for i in range(count)
    )[:characters]


def test_time_grows_with_the_length_and_no_faster(judge: Detector) -> None:
    short = min(seconds(lambda: judge.judge(prose(LONGEST // 4))) for _ in range(2))
    # Threads of the linear algebra library that wait for a busy core use processor time.
    long = min(seconds(lambda: judge.judge(prose(LONGEST))) for _ in range(2))
    print(f"\n{LONGEST // 4:,} characters: {short:.1f} s; {LONGEST:,}: {long:.1f} s")
    assert long < 10 * short


@pytest.mark.parametrize(
    "piece",
    [
        'He said "',
        "(a ",
        "a. ",
        "- ",
        "> ",
        "1. a\n",
        "`",
        "\u0301",
        "* [",
        "A.B. ",
        "а ",
        "世Ｎ！",
    ],
)
def test_no_repeated_piece_makes_splitting_slow(judge: Detector, piece: str) -> None:
    def taken(count: int) -> float:
        return min(seconds(lambda: judge.reader.splitter.split(piece * count)) for _ in range(2))

    assert taken(40_000) < 10 * taken(10_000) + 0.5


MEASURED = """
import json, re, sys
from pathlib import Path
from hammingmark import detector, load_encoder, new_key
encoder = load_encoder("potion")
verdict = detector(new_key(encoder), encoder=encoder, references=100).judge(sys.stdin.read())
# Not getrusage: its figure includes what the parent had when it started this process.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([len(verdict.pieces), verdict.p_value, peak]))
"""


def peak_memory(characters: int) -> int:
    """Bytes that a process needs at most to judge as many characters of prose."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED],
        input=prose(characters),
        # Each thread of the linear algebra library has a buffer, and cores differ in number.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    count, p_value, kilobytes = json.loads(done.stdout)
    print(f"\n{count:,} sentences, p = {p_value:.3g}, {kilobytes / 1e6:.2f} GB")
    assert count > characters / 100
    assert 0 < p_value <= 1
    return int(kilobytes) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is elsewhere")
@pytest.mark.parametrize(
    ("characters", "most"),
    # Measured: 0.25e9 and 0.84e9.
    [(1_000_000, 0.6e9), pytest.param(10_000_000, 1.5e9, marks=pytest.mark.study)],
)
def test_much_text_is_judged_in_little_memory(characters: int, most: float) -> None:
    assert peak_memory(characters) < most
