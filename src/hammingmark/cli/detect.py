"""``hammingmark detect``: texts to verdicts."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import click

from hammingmark import report
from hammingmark.assembly.detection import check_options, detector
from hammingmark.assembly.environment import environment_now
from hammingmark.assembly.keys import load_key, require_parts_of_options, splitter_of
from hammingmark.cli.completion import key_names
from hammingmark.cli.inputs import Source, read_sources, read_text
from hammingmark.cli.options import field_option, keys_language_option, keys_splitter_option
from hammingmark.cli.progress import counting, fetch_backend, fetch_encoder
from hammingmark.detection.detector import REFERENCES
from hammingmark.encoders.wrappers import SlicedEncoder
from hammingmark.errors import CalibrationError, InputError
from hammingmark.keys.config import EMBEDDING
from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.keyring import Keyring
from hammingmark.models.catalogue import CATALOGUE
from hammingmark.models.entries import EncoderCard
from hammingmark.protocols import Encoder
from hammingmark.records import TOPICS, TopicName, Verdict
from hammingmark.report import counted, printable
from hammingmark.serialization import verdict_to_dict
from hammingmark.stats.calibration import Calibration

_UNREADABLE = 1
_CODES = {True: 0, False: 3, None: 4}
_WORST_FIRST = (_UNREADABLE, 3, 4)


@click.command()
@click.argument("files", nargs=-1)
@click.option(
    "--key",
    "-k",
    "names",
    multiple=True,
    help="Key file, name or id; repeatable.",
    shell_complete=key_names,
)
@click.option(
    "--all-keys", is_flag=True, help="Search every key of the keyring, of whatever method."
)
@click.option(
    "--master",
    help="Key whose derived keys to search, by --labels or --dates.",
    shell_complete=key_names,
)
@click.option(
    "--labels",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a label per line: search the keys that MASTER has for them.",
)
@click.option("--dates", metavar="FROM..TO", help="Search the keys that MASTER has for these days.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per text.")
@field_option
@click.option("--level", type=float, default=0.01, show_default=True, help="False-positive rate.")
@click.option(
    "--statistic",
    default="",
    help="Test statistic of the key's method; by default its first.",
)
@click.option(
    "--topic",
    type=click.Choice(TOPICS),
    help="Whether the test is conditioned on the text's topic, its mean embedding: makes "
    "false-positive rates more equal between keys, at some cost in power. By default it is, where "
    "the method can be.",
)
@click.option(
    "--edits",
    is_flag=True,
    help="Allow for sentences that were joined, split or inserted; slower.",
)
@click.option(
    "--references", type=int, default=REFERENCES, show_default=True, help="Reference keys, K."
)
@click.option(
    "--calibration",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Decide by the thresholds that `hammingmark calibrate` fitted.",
)
@click.option("--threshold", type=float, help="Decide by one fixed threshold of the statistic.")
@click.option("--encoder", help="Encoder, if not the one that the key names.")
@click.option(
    "--backend",
    help="Language model that wrote the texts, for a key whose method draws their sentences again.",
)
@keys_splitter_option
@keys_language_option
@click.option("--brief", is_flag=True, help="Omit the per-sentence lines.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Report the verdict as the exit code: 0 if every text is watermarked, 3 if in some no "
    "watermark was found, 4 if some are too short to tell; 1 if something could not be read.",
)
def detect(
    files: tuple[str, ...],
    names: tuple[str, ...],
    all_keys: bool,
    master: str | None,
    labels: Path | None,
    dates: str | None,
    as_json: bool,
    field: str,
    level: float,
    statistic: str,
    topic: TopicName | None,
    edits: bool,
    references: int,
    calibration: Path | None,
    threshold: float | None,
    encoder: str | None,
    backend: str | None,
    splitter: str | None,
    language: str | None,
    brief: bool,
    exit_code: bool,
) -> None:
    """Test FILES for the watermark: texts, folders, JSONL, or standard input.

    The verdict rests on an exact p-value over reference keys: for any text and any
    author, an unmarked text is called watermarked with probability at most LEVEL.
    """
    wanted = read_labels(labels, dates)
    if (master is None) != (wanted is None):
        raise InputError("--master goes with --labels or --dates, and they with it.")
    if master is not None and (names or all_keys):
        raise InputError("Give --master or --key, not both.")
    keys = [load_key(master)] if master else _chosen_keys(names, all_keys=all_keys)
    # Before anything is fetched.
    of_one_method = (statistic, topic, calibration, threshold, encoder, splitter, language)
    check_options(keys, backend=backend, others=of_one_method)
    if encoder:
        require_parts_of_options(keys[0].config.method, ["encoder"])
    fetched: dict[str, Encoder] = {}

    def fetch(name: str) -> Encoder:
        if name not in fetched:
            fetched[name] = fetch_encoder(name)
        return fetched[name]

    for key in keys:
        if isinstance(key.config, EMBEDDING):
            fetch(encoder or key.config.encoder.name)
    embedding = next(iter(fetched.values()), None)
    waiting: deque[Source] = deque()
    found: set[int] = set()

    def texts() -> Iterator[str]:
        for source in read_sources(files, field=field):
            waiting.append(source)
            if not source.error:
                yield source.text

    by_user = splitter is not None or language is not None
    with counting("sentences embedded", shown=not sys.stdout.isatty()) as tick:
        cutter = splitter_of(keys[0], name=splitter, language=language) if by_user else None
        judge = detector(
            keys,
            labels=wanted,
            encoders=lambda name: SlicedEncoder(fetch(encoder or name), after=tick),
            splitter=cutter,
            backend=fetch_backend(backend) if backend else None,
            level=level,
            statistic=statistic,
            topic=topic,
            edits=edits,
            references=references,
            calibration=_read_calibration(calibration) if calibration else None,
            threshold=threshold,
        )
        if wanted is None and (left := len(keys) - judge.keys):
            click.echo(f"{counted(left, 'key')} cannot be searched so, and left out.", err=True)
        for verdict in judge.judge_many(texts()):
            found |= _show_errors(waiting, as_json=as_json)
            source = waiting.popleft()
            warning = foreign(source.text, encoder=embedding) if embedding else None
            _show(verdict, source, as_json=as_json, brief=brief, warning=warning)
            found.add(_CODES[verdict.watermarked])
    found |= _show_errors(waiting, as_json=as_json)
    worst = next((code for code in _WORST_FIRST if code in found), 0)
    if worst == _UNREADABLE or exit_code:
        sys.exit(worst)


def _chosen_keys(names: tuple[str, ...], *, all_keys: bool) -> list[WatermarkKey]:
    ring = Keyring(environment_now().keyring)
    chosen = [ring.find(name).key for name in names]
    if all_keys:
        entries, wrong = ring.survey()
        for error in wrong:
            click.echo(f"Left out: {printable(str(error))}", err=True)
        chosen += [entry.key for entry in entries]
    if not chosen:
        raise InputError(
            "Name a key with --key, or --all-keys to search the keyring; "
            "`hammingmark keys new` makes one."
        )
    return list({(key.id, key.config): key for key in chosen}.values())


def _read_calibration(path: Path) -> Calibration:
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise CalibrationError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise CalibrationError(f"{path} is not a calibration file: it is not JSON.") from None
    return Calibration.from_json(data)


def _show_errors(waiting: deque[Source], *, as_json: bool) -> set[int]:
    """Report the sources at the front that could not be read; the exit code if there are any."""
    found = set()
    while waiting and waiting[0].error:
        source = waiting.popleft()
        found.add(_UNREADABLE)
        if as_json:
            click.echo(json.dumps({"source": source.name, "error": source.error}))
        else:
            click.echo(f"Error: {printable(source.error or '')}", err=True)
    return found


def _show(
    verdict: Verdict, source: Source, *, as_json: bool, brief: bool, warning: str | None
) -> None:
    if as_json:
        record = {"source": source.name, **verdict_to_dict(verdict), "warning": warning}
        click.echo(json.dumps(record, allow_nan=False))
        return
    if source.name != "-":
        click.echo(click.style(printable(source.name), bold=True))
    width = shutil.get_terminal_size().columns
    click.echo(report.as_text(verdict, width=width, sentences=not brief))
    click.echo()
    if warning:
        where = "" if source.name == "-" else f"{printable(source.name)}: "
        click.echo(f"Warning: {where}{warning}", err=True)


_MOST_DAYS = 100_000


def read_labels(file: Path | None, dates: str | None) -> list[str] | None:
    """The labels that a user asks for, each once; None if nobody asks.

    Args:
        file: one label per line.
        dates: ``FROM..TO``, both included, as in 2026-01-31; the labels are the days.

    Raises:
        InputError: there is none, or a date cannot be read.
    """
    if file is None and dates is None:
        return None
    labels = [line.strip() for line in read_text(file).splitlines()] if file else []
    found = list(dict.fromkeys([label for label in labels if label] + _days(dates)))
    if not found:
        raise InputError(f"{file} holds no label; write one per line.")
    return found


def _days(dates: str | None) -> list[str]:
    if dates is None:
        return []
    begin, dots, end = dates.partition("..")
    try:
        first, last = date.fromisoformat(begin), date.fromisoformat(end if dots else begin)
    except ValueError:
        raise InputError(
            f"{dates!r} is no range of dates; write it like 2026-01-01..2026-03-31."
        ) from None
    count = (last - first).days + 1
    if not 1 <= count <= _MOST_DAYS:
        raise InputError(f"{dates!r} is no range of dates: it ends before it begins, or far off.")
    return [(first + timedelta(days=day)).isoformat() for day in range(count)]


def foreign(text: str, *, encoder: Encoder) -> str | None:
    """What to say of a text that an encoder of the catalogue was not made to read, if anything."""
    model = CATALOGUE.get(encoder.name)
    card = model.card if model else None
    if not isinstance(card, EncoderCard) or card.language != "en" or is_english(text) is not False:
        return None
    return (
        f"this does not look like English, which is all that the encoder {encoder.name} reads. The "
        "p-value is valid, but the power is reduced."
    )


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_HEAD = 20_000  # characters that are looked at
_FEWEST = 60  # words; fewer tell too little
_LEAST = 0.04  # English prose has 0.15 to 0.35 of these words, other languages hardly any

# Words that are common in English and are no common words of another language in Latin script:
# "a", "in", "of", "was", "for", "had" and the like are left out.
_COMMON = frozenset(
    _WORD.findall("""
    the and to that it with he be by you are this have from not but they which she or were been
    their has would there what will if can more when out up about them then its into could some
    other than only your how any these such new now people also because through where after know
    very even most made while
    """)
)


def is_english(text: str) -> bool | None:
    """Whether a text is English; None if it is too short to tell."""
    words = _WORD.findall(text[:_HEAD].lower().replace("’", "'"))
    letters = sum(map(str.isalpha, text[:_HEAD]))
    plain = sum(character.isascii() for character in text[:_HEAD] if character.isalpha())
    if letters >= 2 * _FEWEST and plain < letters / 2:  # another script, with or without spaces
        return False
    if len(words) < _FEWEST:
        return None
    return sum(word in _COMMON for word in words) >= _LEAST * len(words)
