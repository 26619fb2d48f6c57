"""The secret and the numbers that come from it."""

import copy
import gc
import hashlib
import pickle
import threading
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_naming
from tests.keys import hamming_key

from hammingmark.errors import InputError
from hammingmark.keys.key import ReferenceKeys, Secret, WatermarkKey
from hammingmark.watermarks.hamming import planes_of

_FRESH = Secret.fresh  # as it is outside of tests
COUNTING = Secret(bytes(range(32)))
DERIVED = "08675fc994b24d07bf33804732f7e4e3ae4809bca88a9b395e9479db643d68e2"


def key(**changes: object) -> WatermarkKey:
    fields = {
        "secret": COUNTING,
        "encoder": "minilm",
        "fingerprint": "the encoder's",
        "dimension": 384,
    }
    return hamming_key(**(fields | changes))  # type: ignore[arg-type]


def sha256(array: np.ndarray) -> str:
    return hashlib.sha256(array.astype("<f4").tobytes()).hexdigest()


def test_published_vectors() -> None:
    """These numbers are in docs/keys.md; a change here breaks every key ever made."""
    assert key().id == "hm-1a0b773a61eb"
    planes = planes_of(key())
    assert planes.dtype == np.float32
    assert [float(value).hex() for value in planes[0, :4]] == [
        "0x1.ad757a0000000p-3",
        "-0x1.dfeb180000000p-4",
        "0x1.a5482c0000000p-1",
        "-0x1.c5a3640000000p-1",
    ]
    assert sha256(planes) == "172fa0212ee4257501a6047ddc397face18822d64bb8943ee9cd26fa93a4dc5c"
    references = ReferenceKeys(COUNTING, bits=8).planes(0, 2)
    assert references.shape == (2, 8000)
    assert sha256(references) == "6e3edffda29e26c399ad31d43732804188dec6d316ff1596fc3693592701e910"


def test_planes_agree_with_another_inverse_normal() -> None:
    words = np.frombuffer(COUNTING.stream("planes", 4 * 3072), dtype="<u4")
    normal = NormalDist()
    other = [normal.inv_cdf((int(word) + 0.5) / 2**32) for word in words]
    np.testing.assert_array_equal(planes_of(key()).ravel(), np.array(other, np.float32))


def test_normals_are_normal() -> None:
    from scipy import stats

    sample = Secret(bytes(32)).normals("planes", 200_000)
    assert stats.kstest(sample, "norm").pvalue > 0.001
    assert abs(float(np.corrcoef(sample[1:], sample[:-1])[0, 1])) < 0.01


def test_extreme_words_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = b"\x00" * 4 + b"\xff" * 4
    monkeypatch.setattr(Secret, "stream", lambda self, label, size, *, index=0: ends)
    low, high = COUNTING.normals("planes", 2)
    assert low == -high
    assert 6.3 < high < 6.4


def test_streams_differ_by_label_and_index() -> None:
    streams = {
        COUNTING.stream(label, 16, index=index)
        for label in ("planes", "reference", "id")
        for index in range(3)
    }
    assert len(streams) == 9


def test_longer_streams_begin_alike() -> None:
    few = ReferenceKeys(COUNTING, bits=8).planes(1, 3)
    references = ReferenceKeys(COUNTING, bits=8)
    references.planes(1, 1)
    np.testing.assert_array_equal(references.planes(1, 5)[:3], few)


@given(st.binary(min_size=32, max_size=32))
def test_the_secret_never_shows(value: bytes) -> None:
    secret = Secret(value)
    shown = [repr(secret), str(secret), f"{secret}", repr(key(secret=secret)), str([secret])]
    for text in shown:
        assert value.hex() not in text
        assert repr(value) not in text


def test_the_secret_is_in_no_traceback() -> None:
    try:
        key(bits=99)
    except InputError:
        text = traceback.format_exc()
    assert COUNTING.reveal().hex() not in text
    assert "\\x01\\x02" not in text


@pytest.mark.parametrize(
    "part", [COUNTING, key(), ReferenceKeys(COUNTING, bits=8), {"deep": [key()]}]
)
def test_a_key_is_not_pickled_by_accident(part: object) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with raises_naming(TypeError, "to_json"):
            pickle.dumps(part, protocol=protocol)


def test_a_key_can_be_copied() -> None:
    assert copy.copy(key()) == copy.deepcopy(key()) == key()


def test_repr_shows_the_id() -> None:
    assert repr(key()) == "WatermarkKey('hm-1a0b773a61eb', method='hamming')"


def test_no_local_variable_holds_a_damaged_secret() -> None:
    damaged = COUNTING.reveal()[:-1]
    with pytest.raises(InputError) as caught:
        Secret(damaged)
    inside = caught.tb.tb_next  # the first frame is this test's
    shown = "".join(
        traceback.StackSummary.extract(traceback.walk_tb(inside), capture_locals=True).format()
    )
    assert "Secret(hidden)" in shown
    assert repr(damaged)[2:20] not in shown


def test_derived_secrets_are_published_vectors_too() -> None:
    derived = COUNTING.derive("2026-11-16")
    assert derived.reveal().hex() == DERIVED
    head = b"hammingmark/1\x00derive\x00" + (10).to_bytes(8, "little")
    again = hashlib.shake_256(head + bytes(range(32)) + b"2026-11-16").digest(32)
    assert derived.reveal() == again


def test_a_label_gives_one_key_and_every_label_another() -> None:
    master = key(note="blog")
    labels = ["a", "A", "b", "aa", "2026-11-16", "\u00e9", "x" * 10_000]
    derived = [master.derive(label) for label in labels]
    assert len({each.id for each in [master, *derived]}) == len(labels) + 1
    assert derived[0] == master.derive("a")
    assert master.derive(" a ") == derived[0], "spaces around it belong to no label"
    assert master.derive("e\u0301").id == master.derive("\u00e9").id, "one text, two spellings"
    assert {each.parent for each in derived} == {master.id}
    assert [each.label for each in derived] == labels
    assert all(each.config == master.config for each in derived)
    assert derived[0].derive("b").parent == derived[0].id


@pytest.mark.parametrize("label", ["", "  ", "\ud800", "a\nb", "a\u2028b", "\x00", "\u200b", 5])
def test_a_label_is_a_text_on_one_line(label: str) -> None:
    with raises_naming(InputError, "label"):
        COUNTING.derive(label)


def test_a_key_that_is_retired_has_only_retired_ones_of_labels() -> None:
    retired, _ = key().rotate()
    assert retired.derive("a").retired == retired.retired
    assert retired.derive("a").successor == retired.successor


def test_uniform_deviates_lie_inside_the_unit_interval() -> None:
    values = COUNTING.uniforms("null", 100_000)
    assert 0.0 < values.min() < values.max() < 1.0
    assert abs(values.mean() - 0.5) < 0.004
    assert not np.array_equal(values, COUNTING.uniforms("null", 100_000, index=1))


def test_fresh_secrets_differ() -> None:
    assert _FRESH() != _FRESH()


@pytest.mark.parametrize(
    "changes",
    [
        {"bits": 0},
        {"bits": 65},
        {"threshold": 9},
        {"threshold": -1},
        {"threshold": float("nan")},
        {"softness": float("nan")},
        {"dimension": 0},
        {"dimension": 10**12},
    ],
)
def test_nonsense_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InputError):
        key(**changes)


def test_a_short_secret_is_refused() -> None:
    with raises_naming(InputError, 32, 5):
        Secret(b"short")


def test_rotation_keeps_the_rule_and_changes_the_secret() -> None:
    retired, fresh = key(bits=16, threshold=12, note="blog").rotate()
    assert fresh.config == retired.config == key(bits=16, threshold=12).config
    assert fresh.note == "blog"
    assert fresh.secret != retired.secret
    assert retired.successor == fresh.id
    assert retired.retired is not None
    assert fresh.retired is None


def test_what_a_method_makes_of_a_key_is_made_once_and_dropped_with_the_key() -> None:
    made: list[WatermarkKey] = []

    def expand(key: WatermarkKey) -> list[float]:
        made.append(key)
        return [0.1234567]

    own = key()
    assert own.expand_once(expand) is own.expand_once(expand)
    assert made == [own]
    assert "0.1234567" not in repr(own)
    assert own == replace(own)
    assert hash(own) == hash(replace(own))
    assert own.derive("a").expand_once(expand) is not own.expand_once(expand)
    assert len(made) == 2
    kept = weakref.ref(own.expand_once(planes_of))
    made.clear()
    del own
    gc.collect()
    assert kept() is None


def test_threads_that_expand_a_key_at_once_share_one_expansion() -> None:
    barrier = threading.Barrier(4)

    def expand(key: WatermarkKey) -> object:
        barrier.wait(10.0)
        return object()

    own = key()
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: own.expand_once(expand), range(4)))
    assert len(set(map(id, made))) == 1
