"""``hammingmark detect``: testing texts for the watermark."""

from __future__ import annotations

import json
import shutil
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import click

from hammingmark.assembly.detection import check_options, detector, have_exact_tests
from hammingmark.assembly.environment import environment_now
from hammingmark.assembly.keys import load_key, require_parts_of_options, splitter_of
from hammingmark.cli.completion import key_names
from hammingmark.cli.inputs import Source, read_sources, read_text
from hammingmark.cli.options import field_option, keys_language_option, keys_splitter_option
from hammingmark.cli.outputs import check_output, write_output
from hammingmark.cli.progress import counting, fetch_backend, fetch_encoder
from hammingmark.cli.screening import show_screening, write_screening
from hammingmark.cli.shared import (
    describe_run,
    judge_shared_once,
    require_rereadable,
    show_run,
)
from hammingmark.detection.detector import REFERENCES
from hammingmark.detection.screening import DISCOVERY_RATE, Screen
from hammingmark.detection.shared import SharedRun
from hammingmark.encoders.wrappers import SlicedEncoder
from hammingmark.errors import CalibrationError, InputError
from hammingmark.keys.config import EMBEDDING
from hammingmark.keys.key import WatermarkKey
from hammingmark.keys.keyring import Keyring
from hammingmark.keys.periods import labels_between
from hammingmark.records import TOPICS, ExclusionReason, TopicName, Verdict
from hammingmark.reports.dated import DatedReport
from hammingmark.reports.page import as_page
from hammingmark.reports.text import as_text, printable
from hammingmark.serialization import verdict_to_dict
from hammingmark.stats.calibration import Calibration

_UNREADABLE = 1
_CODES = {True: 0, False: 3, None: 4}
_WORST_FIRST = (_UNREADABLE, 3, 4)
_WHY: dict[ExclusionReason, str] = {
    "keyless": "whose method has no secret, so its test is not exact. Name it alone to use it",
    "needs-model": "which needs the language model that wrote the text. Name it with --backend",
    "no-edits": "whose method does not support --edits",
}


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
    "--all-keys", is_flag=True, help="Search all keys of the keyring whose tests are exact."
)
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
    "--dates",
    metavar="FROM..TO",
    help="Search the keys derived from MASTER by dates, such as 2026-11-01..2026-11-30, by weeks "
    "(2026-W44..2026-W48), months (2026-01..2026-11) or hours (2026-11-19T08..2026-11-19T17).",
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
    help="Language model that wrote the texts, for methods that need it for detection.",
)
@keys_splitter_option
@keys_language_option
@click.option(
    "--summary",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a summary of all verdicts to a file, as a JSON object.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a dated report, an HTML page to print or keep; for a single text.",
)
@click.option("--overwrite", is_flag=True, help="Overwrite the files of --summary and --report.")
@click.option(
    "--discovery-rate",
    type=float,
    default=DISCOVERY_RATE,
    show_default=True,
    help="For several texts: the expected share of unmarked texts among those that survive the "
    "correction for their number.",
)
@click.option(
    "--shared-once",
    is_flag=True,
    help="Judge sentences that several texts share only once, apart from those texts. Reads the "
    "texts twice.",
)
@click.option("--brief", is_flag=True, help="Omit the per-sentence lines.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Report the verdict as exit code: 0 if every text is watermarked, 3 if in some text no "
    "watermark was found, otherwise 4 if some text allows no verdict; 1 if a text could not be "
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
    summary: Path | None,
    report: Path | None,
    overwrite: bool,
    discovery_rate: float,
    shared_once: bool,
    brief: bool,
    exit_code: bool,
) -> None:
    """Test FILES for the watermark: text files, folders, JSONL files or standard input.

    The verdict rests on a p-value. If the output calls it exact, a text that does not depend on the
    key is called watermarked with probability at most LEVEL, whatever its topic and author. Keyless
    methods, --calibration and --threshold do not guarantee this; keyless keys are searched only if
    no other key is. After several texts, standard error says how many false positives to expect,
    and which verdicts stand when the number of texts is corrected for.
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
    if shared_once:
        require_rereadable(files)
    for path in (summary, report):
        if path:
            check_output(path, overwrite=overwrite)
    sources = read_sources(files, field=field)
    if report:
        sources = _with_one_text(sources)
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
    reported: tuple[str, Verdict] | None = None
    screen = Screen(discovery_rate)

    def texts() -> Iterator[str]:
        for source in sources:
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
        excluded = {key.key_id for key in judge.excluded}
        searched = [key for key in keys if key.id not in excluded]
        screen.exact = have_exact_tests(searched)
        for key in judge.excluded:
            click.echo(f"Not searched: {key.key_id} ({key.method}), {_WHY[key.reason]}.", err=True)
        judged: Iterator[tuple[Verdict, list[tuple[SharedRun, Verdict]]]]
        if shared_once:
            judged = judge_shared_once(judge, texts(), files, field=field)
        else:
            judged = ((verdict, []) for verdict in judge.judge_many(texts()))
        for verdict, runs in judged:
            codes |= _show_errors(waiting, as_json=as_json)
            source = waiting.popleft()
            further = {"shared": None} if shared_once else {}
            _show(verdict, source, as_json=as_json, brief=brief, further=further)
            screen.add(source.name, verdict)
            reported = source.text, verdict
            codes.add(_CODES[verdict.watermarked])
            for run, run_verdict in runs:
                name = describe_run(source.name, run)
                show_run(run, run_verdict, name=name, source=source.name, as_json=as_json)
                screen.add_run(name, run_verdict)
    codes |= _show_errors(waiting, as_json=as_json)
    screening = screen.result(level=judge.level)
    if not as_json:
        show_screening(screening, shared_once=shared_once)
    if summary:
        write_screening(screening, summary, overwrite=overwrite)
    if report and reported:
        write_report(report, *reported, overwrite=overwrite)
    worst = next((code for code in _WORST_FIRST if code in codes), 0)
    if worst == _UNREADABLE or exit_code:
        sys.exit(worst)


def read_labels(file: Path | None, dates: str | None) -> list[str] | None:
    """Read the labels to search, each once; None without a file and dates.

    Args:
        file: one label per line.
        dates: ``FROM..TO``, both included, each like 2026-01-31; every day is a label. Hours, weeks
            and months are written as by `labels_between`.

    Raises:
        InputError: there is no label, or a date is invalid.
    """
    if file is None and dates is None:
        return None
    labels = [line.strip() for line in read_text(file).splitlines()] if file else []
    distinct = list(dict.fromkeys([label for label in labels if label] + _dates(dates)))
    if not distinct:
        raise InputError(f"{file} contains no label. Write one label per line.")
    return distinct


def _dates(dates: str | None) -> list[str]:
    if dates is None:
        return []
    begin, dots, end = dates.partition("..")
    return labels_between(begin, end if dots else begin)


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


def _with_one_text(sources: Iterator[Source]) -> Iterator[Source]:
    """Sources that were read already, one text and perhaps errors.

    Raises:
        InputError: there are several texts.
    """
    read: list[Source] = []
    for source in sources:
        if not source.error and any(not each.error for each in read):
            raise InputError("--report needs a single text, and there are several. Name one.")
        read.append(source)
    return iter(read)


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
    verdict: Verdict,
    source: Source,
    *,
    as_json: bool,
    brief: bool,
    further: Mapping[str, object],
) -> None:
    if as_json:
        record = {"source": source.name, **further, **verdict_to_dict(verdict)}
        click.echo(json.dumps(record, allow_nan=False))
        return
    if source.name != "-":
        click.echo(click.style(printable(source.name), bold=True))
    width = shutil.get_terminal_size().columns
    click.echo(as_text(verdict, width=width, sentences=not brief))
    click.echo()


def write_report(path: Path, text: str, verdict: Verdict, *, overwrite: bool) -> None:
    """Write the report on a text, dated now, in this machine's time zone.

    Args:
        path: the file.
        text: the text as it was judged.
        verdict: the verdict.
        overwrite: whether the file may exist.
    """
    entries, _ = Keyring(environment_now().keyring).survey()
    name = next((entry.name for entry in entries if entry.key.id == verdict.key_id), None)
    report = DatedReport(text, verdict, datetime.now().astimezone(), key_name=name)
    write_output(path, as_page(report), overwrite=overwrite)
