"""The front door's functions that judge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hammingmark.assembly.backends import load_tokenizer, shared_backend, tokenizer_of
from hammingmark.assembly.encoders import load_encoder
from hammingmark.assembly.keys import (
    load_key,
    method_of,
    require_part,
    splitter_of,
)
from hammingmark.detection.calibrate import fit_calibration
from hammingmark.detection.detector import REFERENCES, Detector
from hammingmark.detection.group import DetectorGroup
from hammingmark.detection.reader import (
    ContextReader,
    SentenceReader,
    TextReader,
    TokenReader,
)
from hammingmark.detection.search import EveryKey, KeySearch, RankedKeys
from hammingmark.errors import CalibrationError, InputError
from hammingmark.keys.config import EMBEDDING, PARTS, MethodConfig, TokenConfig, TokenizerId
from hammingmark.keys.key import WatermarkKey, as_label
from hammingmark.protocols import (
    Backend,
    Encoder,
    Splitter,
    Tokenizer,
    Watermark,
)
from hammingmark.records import TopicName, Verdict
from hammingmark.stats.calibration import Calibration

MOST_TESTED = 8
"""More keys than this are ranked first, where their method can, and only the best are tested."""

KeyReference = WatermarkKey | str | Path


def detector(
    keys: KeyReference | Sequence[KeyReference],
    *,
    labels: Sequence[str] | None = None,
    encoder: Encoder | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    splitter: Splitter | None = None,
    backend: Backend | str | None = None,
    level: float = 0.01,
    statistic: str = "",
    topic: TopicName | None = None,
    edits: bool = False,
    references: int = REFERENCES,
    options: Mapping[str, object] | None = None,
    calibration: Calibration | None = None,
    threshold: float | None = None,
    encoders: Callable[[str], Encoder] | None = None,
    tokenizers: Callable[[TokenizerId], Tokenizer] | None = None,
) -> Detector | DetectorGroup:
    """A detector for one key or several, of any methods, each with the parts that it wants.

    Of keys of several methods, those are left out that are judged with a language model, or whose
    methods do not allow for edits where these are asked for; ``keys`` of the detector says how many
    it searches.

    Args:
        keys: keys, their names or their files.
        labels: search the keys that are derived from the one key by these labels.
        encoder: by default the one that each key was made for.
        tokenizer: likewise, or what a user types to get the model whose it is.
        splitter: likewise.
        backend: the language model that wrote the texts, or what a user types to get it, for a
            method that draws every sentence again.
        level: false-positive rate to keep, over all keys together.
        statistic: which of the method's statistics decides; by default its first.
        topic: whether the test is conditioned on the text's topic; by default where it can be.
        edits: whether sentences may have been joined, split or inserted.
        references: K, the least number of reference keys.
        options: how the method is to judge, such as HammingMark's ``alternative``.
        calibration: thresholds to decide by instead of the p-value.
        threshold: one fixed threshold to decide by instead of the p-value.
        encoders: gives the encoder of a name that a key holds; by default `load_encoder`.
        tokenizers: gives the tokenizer that a key was made for; by default `tokenizer_of`.

    Raises:
        KeyMismatch: a key was made for another encoder or tokenizer.
        InputError: the method needs a language model and there is none, or the other way round; an
            option is for keys of one method, and these are of several; or none can be searched.
    """
    chosen = _distinct(keys)
    if calibration:
        if labels or len(chosen) > 1 or calibration.key_id != chosen[0].id:
            raise CalibrationError(
                f"The calibration was fitted under key {calibration.key_id} and holds for it alone."
            )
        statistic, level = calibration.statistic, calibration.level
    if labels is not None:
        chosen = _derived(chosen, labels)
    check_options(
        chosen,
        backend=backend,
        others=(statistic, topic, calibration, threshold, options),
    )
    if threshold is not None and len(chosen) > 1:
        raise InputError(
            "A fixed threshold is not corrected for the number of keys; give one key with it."
        )
    groups: dict[MethodConfig, list[WatermarkKey]] = {}
    for key in chosen:
        groups.setdefault(key.config, []).append(key)
    watermarks = {config: method_of(some[0], **(options or {})) for config, some in groups.items()}
    if not _are_of_one_kind(chosen):
        watermarks = _searchable(watermarks, edits=edits)
    parts = _Parts(encoder, tokenizer, splitter, backend, edits, encoders, tokenizers)
    made = []
    for config, watermark in watermarks.items():
        made.append(
            Detector(
                reader=parts.reader(watermark),
                search=_search(watermark, groups[config], options or {}),
                level=level,
                statistic=statistic,
                topic=topic,
                references=references,
                calibration=calibration,
                threshold=threshold,
            )
        )
    return made[0] if len(made) == 1 else DetectorGroup(tuple(made), level)


def check_options(
    keys: Sequence[WatermarkKey], *, backend: object, others: Collection[object]
) -> None:
    """Refuse what does not fit the keys, before anything is fetched.

    Args:
        keys: that are searched.
        backend: the language model that wrote the texts, None or empty if there is none.
        others: options that mean something for keys of one method and its parts alone; those that
            are None or empty were not chosen.

    Raises:
        InputError: one is chosen for keys of several methods, or the method draws and there is no
            model, or there is one for nothing.
    """
    if not _are_of_one_kind(keys):
        if any(each not in (None, "", {}) for each in (backend, *others)):
            raise InputError(
                "These keys are of several methods or encoders, and a statistic, topic, "
                "calibration, threshold, encoder, backend, splitter or language is for keys of "
                "one. Leave it out, or name fewer keys."
            )
        return
    watermark = method_of(keys[0])
    if watermark.capabilities.samples and not backend:
        raise InputError(
            f"The method {watermark.name!r} is judged with the language model that wrote the text, "
            "which draws every sentence again. Name it as the backend (--backend)."
        )
    if backend and not watermark.capabilities.samples:
        raise InputError(
            f"The method {watermark.name!r} is judged without a language model. Leave the backend "
            "out."
        )


def _are_of_one_kind(keys: Sequence[WatermarkKey]) -> bool:
    """Whether they are of one method, with the same encoder or tokenizer."""
    kinds = {
        (
            key.config.method,
            *(getattr(getattr(key.config, part, None), "fingerprint", None) for part in PARTS),
        )
        for key in keys
    }
    return len(kinds) == 1


def _searchable(
    watermarks: Mapping[MethodConfig, Watermark], *, edits: bool
) -> dict[MethodConfig, Watermark]:
    """Those of several methods that are searched together.

    Raises:
        InputError: there is none.
    """
    found = {
        config: watermark
        for config, watermark in watermarks.items()
        if watermark.capabilities.samples is None
        and (not edits or watermark.capabilities.read_edited is not None)
    }
    if not found:
        able = "allows for edits" if edits else "is judged without the model that wrote the text"
        raise InputError(f"None of these keys is of a method that {able}.")
    return found


def _derived(keys: Sequence[WatermarkKey], labels: Sequence[str]) -> list[WatermarkKey]:
    """The keys that the one key has for these labels."""
    if len(keys) > 1:
        raise InputError("Labels are searched under one key at a time.")
    if isinstance(labels, str):
        raise InputError("labels is a list of labels, not one. Write [label].")
    wanted = list(dict.fromkeys(as_label(label) for label in labels))
    if not wanted:
        raise InputError("At least one label is needed.")
    return [keys[0].derive(label) for label in wanted]


def _search(
    watermark: Watermark, keys: Sequence[WatermarkKey], options: Mapping[str, object]
) -> KeySearch:
    """The search of keys of one configuration; the watermark is the first one's."""
    ranker = watermark.capabilities.ranking
    if ranker is None:
        return EveryKey([watermark, *(method_of(key, **options) for key in keys[1:])])
    if len(keys) > MOST_TESTED:
        return RankedKeys(watermark, keys)
    return EveryKey([watermark, *(ranker.like(key) for key in keys[1:])])


@dataclass
class _Parts:
    """The parts that a caller chose, and where the others come from.

    Methods with the same parts share a reader, so that a text is read once for all of them.
    """

    encoder: Encoder | str | None = None
    tokenizer: Tokenizer | str | None = None
    splitter: Splitter | None = None
    backend: Backend | str | None = None
    edits: bool = False
    encoders: Callable[[str], Encoder] | None = None
    tokenizers: Callable[[TokenizerId], Tokenizer] | None = None
    readers: dict[Hashable, TextReader] = field(default_factory=dict)

    def reader(self, watermark: Watermark) -> TextReader:
        """What reads a text for a method.

        Raises:
            KeyMismatch: the key was made for another encoder or tokenizer.
            InputError: the method does not allow for edits.
        """
        key = watermark.key
        same = tuple(getattr(key.config, part, None) for part in PARTS)
        if watermark.capabilities.samples:
            same += (watermark.capabilities.samples.samples,)
        elif watermark.capabilities.context:
            same += (key.config,)
        if same not in self.readers:
            self.readers[same] = self._make_reader(watermark, key)
        return self.readers[same]

    def _make_reader(self, watermark: Watermark, key: WatermarkKey) -> TextReader:
        config = key.config
        is_token = isinstance(config, TokenConfig)
        scorer, rule = watermark.capabilities.samples, watermark.capabilities.context
        if self.edits and (is_token or scorer):
            raise InputError(f"The method {config.method!r} does not allow for edits.")
        encoder = self._encoder(key) if isinstance(config, EMBEDDING) else None
        if isinstance(config, TokenConfig):
            tokenizer = self._tokenizer(key, config)
            if encoder is None:
                return TokenReader(tokenizer)
            assert rule is not None, f"{watermark.name} declares no context"
            return ContextReader(tokenizer, encoder, rule)
        assert encoder is not None
        splitter = self.splitter or splitter_of(key)
        if scorer is None or self.backend is None:
            return SentenceReader(splitter, encoder, edits=self.edits)
        from hammingmark.detection.resampling import SamplingReader  # which draws, and takes long

        backend = self.backend
        model = shared_backend(backend) if isinstance(backend, str) else backend
        return SamplingReader(splitter, encoder, model, scorer.samples)

    def _encoder(self, key: WatermarkKey) -> Encoder:
        assert isinstance(key.config, EMBEDDING)
        chosen = self.encoder
        if chosen is None or isinstance(chosen, str):
            load = self.encoders or load_encoder
            encoder = load(chosen or key.config.encoder.name)
        else:
            encoder = chosen
        require_part(key, "encoder", encoder)
        return encoder

    def _tokenizer(self, key: WatermarkKey, config: TokenConfig) -> Tokenizer:
        chosen = self.tokenizer
        tokenizer = load_tokenizer(chosen) if isinstance(chosen, str) else chosen
        tokenizer = tokenizer or (self.tokenizers or tokenizer_of)(config.tokenizer)
        require_part(key, "tokenizer", tokenizer)
        return tokenizer


@dataclass(frozen=True)
class DetectorSpec:
    """What a worker process needs to build a detector of its own. It can be pickled.

    Attributes:
        keys: names or files of keys, which the worker reads for itself: no secret is in here.
        options: further arguments of `detector` that are plain data.
    """

    keys: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Detector | DetectorGroup:
        """The detector."""
        return detector(list(self.keys), **self.options)


def detect(
    text: str,
    *,
    key: KeyReference | Sequence[KeyReference],
    level: float = 0.01,
    language: str | None = None,
    topic: TopicName | None = None,
    edits: bool = False,
    backend: Backend | str | None = None,
) -> Verdict:
    """Judge one text. For many, make one `detector` and call its ``judge_many``.

    Args:
        text: what to judge.
        key: a key, its name or its file; several are searched.
        level: false-positive rate to keep.
        language: of the text; by default the one that the key was made for.
        topic: whether the test is conditioned on the text's topic (``given``) or not (``free``);
            by default where the method can be.
        edits: whether sentences may have been joined, split or inserted.
        backend: the language model that wrote the text, for a method that draws it again.
    """
    keys = _distinct(key)
    splitter = None if language is None else splitter_of(keys[0], language=language)
    made = detector(keys, level=level, splitter=splitter, topic=topic, edits=edits, backend=backend)
    return made.judge(text)


def _distinct(keys: KeyReference | Sequence[KeyReference]) -> list[WatermarkKey]:
    """The keys that are meant, each once."""
    references = [keys] if isinstance(keys, (WatermarkKey, str, Path)) else list(keys)
    if not references:
        raise InputError("At least one key is needed.")
    loaded = [key if isinstance(key, WatermarkKey) else load_key(key) for key in references]
    return list({(key.id, key.config): key for key in loaded}.values())


def calibrate_key(
    texts: Sequence[str],
    *,
    key: WatermarkKey,
    encoder: Encoder | None = None,
    tokenizer: Tokenizer | None = None,
    splitter: Splitter | None = None,
    statistic: str = "",
    level: float,
    provenance: Mapping[str, Any],
) -> Calibration:
    """Thresholds for one key on texts known to be unmarked."""
    watermark = method_of(key)
    if watermark.capabilities.samples:
        raise InputError(
            f"Thresholds are not fitted for the method {watermark.name!r}, which draws every "
            "sentence again; decide by the p-value."
        )
    reader = _Parts(encoder, tokenizer, splitter).reader(watermark)
    return fit_calibration(
        texts,
        reader=reader,
        watermark=watermark,
        statistic=statistic or watermark.statistics[0],
        level=level,
        provenance=provenance,
    )
