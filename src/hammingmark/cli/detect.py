"""``hammingmark detect``: testing texts for the watermark."""

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
from hammingmark.records import TOPICS, TopicName, Verdict
from hammingmark.report import as_text, counted, printable
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
@click.option("--all-keys", is_flag=True, help="Search all keys of the keyring, of any method.")
@click.option(
    "--master",
    help="Master key whose derived keys are searched, with --labels or --dates.",
    shell_complete=key_names,
)
@click.option(
    "--labels",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with one label per line; search the keys derived from MASTER by these labels.",
)
@click.option(
    "--dates", metavar="FROM..TO", help="Search the keys derived from MASTER by these dates."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per text.")
@field_option
@click.option("--level", type=float, default=0.01, show_default=True, help="False-positive rate.")
@click.option(
    "--statistic",
    default="",
    help="Test statistic; by default the first of the key's method.",
)
@click.option(
    "--topic",
    type=click.Choice(TOPICS),
    help="Whether to condition the test on the topic of the text, its mean embedding: this makes "
    "false-positive rates more equal between keys and costs some power. By default the test is "
    "conditioned if the method allows it; the default method does not.",
)
@click.option(
    "--edits",
    is_flag=True,
    help="Allow for joined, split or inserted sentences; slower.",
)
@click.option(
    "--references",
    type=int,
    default=REFERENCES,
    show_default=True,
    help="Minimum number of reference keys, K, for methods that compare with reference keys.",
)
@click.option(
    "--calibration",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Decide by thresholds fitted with `hammingmark calibrate`.",
)
@click.option("--threshold", type=float, help="Decide by a fixed threshold of the statistic.")
@click.option("--encoder", help="Encoder; by default the one that the key names.")
@click.option(
    "--backend",
    help="Language model that wrote the texts, for methods that draw their sentences again.",
)
@keys_splitter_option
@keys_language_option
@click.option("--brief", is_flag=True, help="Omit the per-sentence lines.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Report the verdict as exit code: 0 if every text is watermarked, 3 if in some text no "
    "watermark was found, otherwise 4 if some text is too short to tell; 1 if a text could not be "
    "read.",
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
    """Test FILES for the watermark: text files, folders, JSONL files or standard input.

    The verdict rests on a p-value. If the output calls it exact, a text that does not depend on the
    key is called watermarked with probability at most LEVEL, whatever its topic and author. Keyless
    methods, --calibration and --threshold do not guarantee this.
    """
    searched_labels = read_labels(labels, dates)
    if (master is None) != (searched_labels is None):
        raise InputError("Give --master together with --labels or --dates.")
    if master is not None and (names or all_keys):
        raise InputError("Give --master or --key, not both.")
    keys = [load_key(master)] if master else _load_keys(names, all_keys=all_keys)
    # Options are checked before anything is downloaded.
    of_one_method = (statistic, topic, calibration, threshold, encoder, splitter, language)
    check_options(keys, backend=backend, others=of_one_method)
    if encoder:
        require_parts_of_options(keys[0].config.method, ["encoder"])
    configs = [key.config for key in keys]
    encoders = {
        name: fetch_encoder(name)
        for name in dict.fromkeys(
            encoder or config.encoder.name for config in configs if isinstance(config, EMBEDDING)
        )
    }
    model = fetch_backend(backend) if backend else None
    waiting: deque[Source] = deque()
    codes: set[int] = set()

    def texts() -> Iterator[str]:
        for source in read_sources(files, field=field):
            waiting.append(source)
            if not source.error:
                yield source.text

    sentence_splitter = None
    if splitter is not None or language is not None:
        sentence_splitter = splitter_of(keys[0], name=splitter, language=language)
    with counting("sentences embedded", visible=not sys.stdout.isatty()) as tick:
        judge = detector(
            keys,
            labels=searched_labels,
            encoders=lambda name: SlicedEncoder(encoders[encoder or name], after=tick),
            splitter=sentence_splitter,
            backend=model,
            level=level,
            statistic=statistic,
            topic=topic,
            edits=edits,
            references=references,
            calibration=_read_calibration(calibration) if calibration else None,
            threshold=threshold,
        )
        if searched_labels is None and (skipped := len(keys) - judge.keys):
            which = "its method" if skipped == 1 else "their methods"
            click.echo(
                f"Skipped {counted(skipped, 'key')}: {which} cannot be searched here.", err=True
            )
        for verdict in judge.judge_many(texts()):
            codes |= _show_errors(waiting, as_json=as_json)
            source = waiting.popleft()
            warning = language_warning(source.text, encoder_name=next(iter(encoders), ""))
            _show(verdict, source, as_json=as_json, brief=brief, warning=warning)
            codes.add(_CODES[verdict.watermarked])
    codes |= _show_errors(waiting, as_json=as_json)
    worst = next((code for code in _WORST_FIRST if code in codes), 0)
    if worst == _UNREADABLE or exit_code:
        sys.exit(worst)


def _load_keys(names: tuple[str, ...], *, all_keys: bool) -> list[WatermarkKey]:
    ring = Keyring(environment_now().keyring)
    keys = [ring.find(name).key for name in names]
    if all_keys:
        entries, errors = ring.survey()
        for error in errors:
            click.echo(f"Skipped: {printable(str(error))}", err=True)
        keys += [entry.key for entry in entries]
    if not keys:
        raise InputError(
            "Name a key with --key, or search the keyring with --all-keys. "
            "`hammingmark keys new` creates a key."
        )
    return list({(key.id, key.config): key for key in keys}.values())


def _read_calibration(path: Path) -> Calibration:
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise CalibrationError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise CalibrationError(f"{path} is not a calibration file: it is not JSON.") from None
    return Calibration.from_json(data)


def _show_errors(waiting: deque[Source], *, as_json: bool) -> set[int]:
    """Report unreadable sources at the front, and return their exit code if there are any."""
    codes = set()
    while waiting and waiting[0].error:
        source = waiting.popleft()
        codes.add(_UNREADABLE)
        if as_json:
            click.echo(json.dumps({"source": source.name, "error": source.error}))
        else:
            click.echo(f"Error: {printable(source.error or '')}", err=True)
    return codes


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
    click.echo(as_text(verdict, width=width, sentences=not brief))
    click.echo()
    if warning:
        where = "" if source.name == "-" else f"{printable(source.name)}: "
        click.echo(f"Warning: {where}{warning}", err=True)


_MOST_DAYS = 100_000


def read_labels(file: Path | None, dates: str | None) -> list[str] | None:
    """Read the labels to search, each once; None without a file and dates.

    Args:
        file: one label per line.
        dates: ``FROM..TO``, both included, each like 2026-01-31; every day is a label.

    Raises:
        InputError: there is no label, or a date is invalid.
    """
    if file is None and dates is None:
        return None
    labels = [line.strip() for line in read_text(file).splitlines()] if file else []
    distinct = list(dict.fromkeys([label for label in labels if label] + _days(dates)))
    if not distinct:
        raise InputError(f"{file} contains no label. Write one label per line.")
    return distinct


def _days(dates: str | None) -> list[str]:
    if dates is None:
        return []
    begin, dots, end = dates.partition("..")
    try:
        first, last = date.fromisoformat(begin), date.fromisoformat(end if dots else begin)
    except ValueError:
        raise InputError(
            f"{dates!r} is not a range of dates. Write it like 2026-01-01..2026-03-31."
        ) from None
    count = (last - first).days + 1
    if not 1 <= count <= _MOST_DAYS:
        raise InputError(
            f"{dates!r} is not a range of dates from 1 to {_MOST_DAYS:,} days. Change its ends."
        )
    return [(first + timedelta(days=day)).isoformat() for day in range(count)]


def language_warning(text: str, *, encoder_name: str) -> str | None:
    """The warning for a text in a language that the catalogue encoder does not read, if any."""
    model = CATALOGUE.get(encoder_name)
    card = model.card if model else None
    if not isinstance(card, EncoderCard) or card.language != "en" or is_english(text) is not False:
        return None
    return (
        f"the text does not look like English, the only language of the encoder {encoder_name}. "
        "The p-value is valid, but the power is reduced."
    )


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_HEAD = 20_000  # characters that are examined
_FEWEST = 60  # words; fewer are too few to decide
_LEAST = 0.04  # share of common words; English prose has 0.15 to 0.35, other languages hardly any

# Words that are common in English and in no other language in Latin script; so "a", "in", "of",
# "was", "for", "had" and the like are omitted.
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
