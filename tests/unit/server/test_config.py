"""The settings of the service and where they come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.errors import raises_naming

from hammingmark.errors import InputError
from hammingmark.server.config import (
    CONFIG_FILE,
    PREFIX,
    ServerConfig,
    describe,
    read_config,
    variable_of,
)

SECRET = "sk-7f3a-do-not-show-9c1e"

OTHERS = {
    "host": "::1",
    "port": "0",
    "open": "true",
    "api_keys": "FOLDER/keys.jsonl",
    "key": "mine",
    "backend": "smollm2",
    "model_name": "house",
    "parallel": "3",
    "max_tokens": "77",
    "budget": "9",
    "level": "0.05",
    "metrics": "off",
    "page": "no",
    "cors_origins": "https://example.org",
    "trusted_proxies": "10.0.0.7",
    "operator.name": "Example News",
    "operator.contact": "desk@example.org",
    "operator.url": "https://example.org/about",
    "upstream.url": "http://127.0.0.1:8000/v1",
    "upstream.model": "qwen",
    "upstream.retries": "7",
    "upstream.timeout": "5",
    "upstream.continues": "yes",
    "upstream.api_key_file": "FOLDER/upstream-key",
    "policy.on_failure": "deliver",
    "policy.unmarkable": "refuse",
    "policy.restarting_upstream": "pass",
    "policy.switch_off": "allowed",
    "policy.labels": "customer-17",
    "policy.detection": "p_value",
    "policy.detection_level": "0.001",
    "policy.other_paths": "refuse",
    "rotation.every": "week",
    "rotation.search": "9",
    "rotation.sentences": "50",
    "rotation.record": "FOLDER/counts",
    "limits.tokens": "600",
    "limits.choices": "2",
    "limits.body_bytes": "5000",
    "limits.body_timeout": "2.5",
    "limits.head_timeout": "1.5",
    "limits.texts": "3",
    "limits.text_characters": "1000",
    "limits.queue": "4",
    "limits.detections": "9",
    "limits.requests_per_minute": "30",
    "limits.texts_per_minute": "90",
    "limits.texts_per_day": "500.0",
    "limits.near_copies": "8",
    "limits.request_timeout": "12.5",
    "limits.encoder_timeout": "4.5",
    "limits.first_sentence_wait": "0.0",
    "limits.first_sentence_timeout": "3.5",
    "limits.shutdown_grace": "0.0",
    "audit.file": "FOLDER/audit.jsonl",
    "audit.text_hash": "none",
    "log.format": "text",
    "log.level": "debug",
}


def read(
    content: str | None = None,
    *,
    folder: Path | None = None,
    environ: dict[str, str] | None = None,
    **flags: object,
) -> ServerConfig:
    """The settings of a file's content, an environment and flags; a dot is written ``__``."""
    file = None
    if content is not None:
        assert folder is not None
        file = folder / "serve.toml"
        file.write_text(content, "utf-8")
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return read_config(file, environ=environ or {}, flags=named)


def secret_file(folder: Path, content: str = SECRET, mode: int = 0o600) -> Path:
    path = folder / "upstream-key"
    path.write_text(content, "utf-8")
    path.chmod(mode)
    return path


def test_with_nothing_said_the_service_is_closed_and_fails_closed() -> None:
    config = read()
    assert config == ServerConfig()
    assert (config.host, config.port, config.open, config.api_keys) == (
        "127.0.0.1", 8080, False, None,
    )  # fmt: skip
    assert config.policy.on_failure == "refuse"
    assert config.switch_off == "allowed"  # only this machine reaches it
    assert ServerConfig(open=True).switch_off == "never"
    assert ServerConfig(trusted_proxies=("127.0.0.1",)).switch_off == "never"
    assert config.limits.tokens == 4096
    assert config.max_tokens == 512
    assert all(setting.source == "default" for setting in describe(config))


def test_flags_go_before_variables_before_the_file(tmp_path: Path) -> None:
    content = 'port = 1\nkey = "file"\nmodel_name = "file"\n[limits]\nqueue = 5\ntexts = 6\n'
    environ = {f"{PREFIX}KEY": "variable", f"{PREFIX}PORT": "2", f"{PREFIX}LIMITS_QUEUE": "7"}
    config = read(content, folder=tmp_path, environ=environ, port=3)
    assert (config.port, config.key, config.model_name) == (3, "variable", "file")
    assert (config.limits.queue, config.limits.texts, config.limits.choices) == (7, 6, 8)
    assert config.source("port") == "the command line"
    assert config.source("key") == f"{PREFIX}KEY"
    assert config.source("model_name") == str(tmp_path / "serve.toml")
    assert config.source("limits.queue") == f"{PREFIX}LIMITS_QUEUE"
    assert config.source("limits.choices") == "default"


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_has_a_variable_and_is_shown_with_it(tmp_path: Path, name: str) -> None:
    value = OTHERS[name].replace("FOLDER", str(tmp_path))
    secret_file(tmp_path)
    environ = {variable_of(name): value}
    if name in ("upstream.model", "upstream.api_key_file"):
        environ[variable_of("upstream.url")] = OTHERS["upstream.url"]
    if name in ("rotation.search", "rotation.sentences"):
        environ[variable_of("rotation.every")] = OTHERS["rotation.every"]
    config = read(environ=environ)
    before, after = (
        {each.name: each for each in describe(some)} for some in (ServerConfig(), config)
    )
    words = {"off": "false", "no": "false", "yes": "true"}.get(value, value)
    assert after[name].source == variable_of(name)
    assert after[name].value in (words, f"{words}.0")
    assert before[name].value != after[name].value
    assert after[name].meaning


def test_the_settings_above_are_all_there_are() -> None:
    assert {setting.name for setting in describe(ServerConfig())} == {*OTHERS, "upstream.api_key"}


def test_a_file_may_set_everything(tmp_path: Path) -> None:
    content = """
    host = "0.0.0.0"
    port = 9000
    api_keys = "keys.jsonl"
    cors_origins = ["https://a.example", "http://b.example:8080"]
    level = 0.001

    [upstream]
    url = "https://models.example/v1"
    model = "large"

    [policy]
    switch_off = "by_api_key"

    [limits]
    request_timeout = 60
    requests_per_minute = 0.5

    [audit]
    file = "audit.jsonl"

    [log]
    format = "text"
    """
    config = read(content, folder=tmp_path)
    assert config.cors_origins == ("https://a.example", "http://b.example:8080")
    assert config.upstream.model == "large"
    assert config.limits.request_timeout == 60.0
    assert config.limits.requests_per_minute == 0.5
    assert config.policy.switch_off == "by_api_key"


def test_paths_of_a_file_are_relative_to_it_and_others_to_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read('api_keys = "k"', folder=there).api_keys == there / "k"
    assert read(environ={f"{PREFIX}API_KEYS": "k"}).api_keys == here / "k"
    assert read(api_keys=Path("k")).api_keys == here / "k"
    assert read('api_keys = "~/k"', folder=there).api_keys == tmp_path / "k"


def test_a_variable_may_name_the_file_and_an_argument_goes_before_it(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("port = 5")
    environ = {CONFIG_FILE: str(other)}
    assert read(environ=environ).port == 5
    assert read("port = 6", folder=tmp_path, environ=environ).port == 6


def test_an_empty_variable_and_a_flag_that_is_not_given_count_for_nothing() -> None:
    environ = {f"{PREFIX}PORT": "", CONFIG_FILE: "", f"{PREFIX}NOTHING": ""}
    config = read(environ=environ, port=None, cors_origins=())
    assert config == ServerConfig()


def test_lists_of_variables_are_separated_by_commas() -> None:
    config = read(environ={f"{PREFIX}CORS_ORIGINS": "https://a.example, http://b.example:80,"})
    assert config.cors_origins == ("https://a.example", "http://b.example:80")
    assert read(cors_origins="*").cors_origins == ("*",)


@pytest.mark.parametrize(
    ("content", "nearest"),
    [
        ("prot = 1", "Did you mean 'port'?"),
        ('on_failure = "refuse"', "Did you mean 'policy.on_failure'?"),
        ('[policy]\non_failur = "refuse"', "Did you mean 'policy.on_failure'?"),
        ("[polcy]\nx = 1", "polcy"),
        ("[limits]\nmax_tokens = 3", "Did you mean 'max_tokens'?"),
        ("[limits]\nport = 3", "Did you mean 'port'?"),
        ('upstream_model = "x"', "Did you mean 'upstream.model'?"),
        ("whatever_else = 1", "`hammingmark serve --check`"),
    ],
)
def test_a_name_that_is_no_setting_is_refused_with_the_nearest(
    tmp_path: Path, content: str, nearest: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(content, folder=tmp_path)
    assert nearest in str(caught.value)
    assert str(tmp_path / "serve.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("PROT", f"{PREFIX}PORT"),
        ("POLICY_ON_FAIL", f"{PREFIX}POLICY_ON_FAILURE"),
        ("CONFG", CONFIG_FILE),
        ("UPSTREAM", f"{PREFIX}UPSTREAM_URL"),
        ("UPSTREAM_API_KEY", "HAMMINGMARK_UPSTREAM_API_KEY"),
    ],
)
def test_a_variable_that_sets_nothing_is_refused_with_the_nearest(
    variable: str, nearest: str
) -> None:
    with pytest.raises(
        InputError, match=rf"{PREFIX}{variable}\b.*Did you mean '{nearest}'\?"
    ) as caught:
        read(environ={PREFIX + variable: SECRET})
    assert SECRET not in str(caught.value)


def test_a_flag_that_is_no_setting_is_refused() -> None:
    with raises_naming(InputError, "'polic.labels'", "command line", "policy.labels"):
        read(polic__labels="never")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("port", "eighty", "a whole number, at least 0 and at most 65535"),
        ("port", "65536", "a whole number, at least 0 and at most 65535"),
        ("port", "-1", "a whole number, at least 0"),
        ("parallel", "0", "a whole number, at least 1"),
        ("limits.queue", "0", "a whole number, at least 1"),
        ("limits.queue", "1.5", "a whole number, at least 1"),
        ("limits.requests_per_minute", "0", "a number, above 0"),
        ("limits.request_timeout", "inf", "a number, above 0"),
        ("limits.first_sentence_timeout", "nan", "a number, above 0"),
        ("limits.first_sentence_wait", "-1", "a number, at least 0"),
        ("limits.shutdown_grace", "-1", "a number, at least 0"),
        ("level", "1", "a number, above 0 and below 1"),
        ("open", "perhaps", "true or false"),
        ("policy.on_failure", "panic", "'refuse' or 'deliver'"),
        ("operator.name", " ", "one line"),
        ("operator.contact", "two\nlines", "one line"),
        ("operator.url", "example.org", "URL"),
        ("policy.switch_off", "always", "'never' or 'allowed' or 'by_api_key'"),
        ("log.level", "loud", "'debug' or 'info' or 'warning' or 'error'"),
        ("cors_origins", "https://a.example/path", "a list of origins such as https://example.org"),
        ("cors_origins", "a.example", "a list of origins"),
        ("policy.labels", ["two\nlines"], "a list of at most 1000 labels such as customer-17"),
        ("trusted_proxies", "proxy.example", "a list of addresses such as 127.0.0.1"),
        ("upstream.url", "ftp://host", "a URL such as http://127.0.0.1:8000/v1"),
        ("upstream.url", "http://host:port/v1", "a URL such as"),
        ("upstream.url", "http:///v1", "a URL such as"),
        ("api_keys", " ", "a path"),
        ("audit.file", "~nobody-of-this-name/x", "a path"),
        ("audit.file", "a\0b", "a path"),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_what_it_should_be(
    name: str, value: str, expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(environ={variable_of(name): value})
    assert str(caught.value).startswith(f"{name} from {variable_of(name)} ")
    assert expected in str(caught.value)
    with raises_naming(InputError, f"{name} from the command line"):
        read(**{name.replace(".", "__"): value})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("port = true", "port from .* is True; .* a whole number"),
        ("[limits]\nrequest_timeout = true", "request_timeout .* is True; .* a number"),
        ("[limits]\nqueue = '3'", "limits.queue from .* is '3'; .* a whole number"),
        ("[limits]\nrequest_timeout = '3.5'", "request_timeout .* is '3.5'; .* a number"),
        ("open = 'true'", "open from .* is 'true'; .* true or false"),
        ("metrics = 1", "metrics from .* is 1; .* true or false"),
        ("key = 5", "key from .* is 5; .* a text that is not empty"),
        ('key = ""', "key from .* a text that is not empty"),
        ("host = ['a']", "host from .* .* a text"),
        ("[host]\nname = 'a'", "host from .* .* a text"),
        ("cors_origins = [1]", "a list of origins"),
        ("api_keys = 5", "api_keys from .* is 5; .* a path"),
        ("backend = 5", "backend from .* .* a text"),
        ("policy = 'refuse'", r"policy from .*\[policy\]"),
        ("[[policy]]\nlabels = 'never'", r"policy from .*\[policy\]"),
        ("[upstream]\nurl='http://a'\napi_key_file = 5", "api_key_file from .* a path"),
        ("port 8080", r"is not TOML \(.*line 1"),
        ("port = 1\nport = 2", "is not TOML"),
    ],
)
def test_a_wrong_value_of_a_file_is_named(tmp_path: Path, content: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected) as caught:
        read(content, folder=tmp_path)
    assert "serve.toml" in str(caught.value)


def test_what_is_no_file_of_settings_is_refused(tmp_path: Path) -> None:
    with raises_naming(InputError, tmp_path / "absent.toml"):
        read_config(tmp_path / "absent.toml", environ={}, flags={})
    with raises_naming(InputError, tmp_path):
        read_config(tmp_path, environ={}, flags={})
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"port = 1 # \xff")
    with raises_naming(InputError, binary, "UTF-8"):
        read_config(binary, environ={}, flags={})


@given(name=st.sampled_from(sorted(OTHERS)), value=st.text(st.characters(codec="utf-8")))
def test_whatever_a_variable_says_gives_settings_or_one_sentence(name: str, value: str) -> None:
    try:
        said = read(environ={variable_of(name): value}).source(name)
    except InputError as error:
        said = str(error)
    assert said in (variable_of(name), "default") or name in said
    assert "\n" not in said


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_only_this_machine_needs_no_api_keys(host: str) -> None:
    assert read(host=host).is_loopback


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "192.168.1.1", "example.org", "localhost.example.org", "::ffff:10.0.0.1"],
)
def test_other_addresses_need_api_keys_or_the_word_open(tmp_path: Path, host: str) -> None:
    with raises_naming(InputError, "host", repr(host), "api_keys", "open"):
        read(host=host)
    assert not read(host=host, open=True).is_loopback
    assert not read(host=host, api_keys=tmp_path / "keys.jsonl").is_loopback


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            {"backend": "smollm2", "upstream__url": "http://h/v1"},
            "backend from the command line and upstream.url from the command line",
        ),
        ({"upstream__model": "large"}, "upstream.model from the command line .* upstream.url"),
        ({"open": True, "api_keys": "k"}, "open from the command line .* api_keys from"),
        ({"policy__switch_off": "by_api_key"}, "'by_api_key', .* api_keys"),
        ({"rotation__search": 9}, "rotation.search from the command line .* rotation.every"),
        ({"rotation__sentences": 9}, "rotation.sentences from the command line .* rotation.every"),
        ({"rotation__every": "request"}, "rotation.every from .* 'request': .* audit.file"),
        ({"rotation__every": "day", "rotation__search": 10_001}, "rotation.search from .* 10,001"),
        (
            {"rotation__every": "hour", "policy__labels": [f"customer-{n}" for n in range(60)]},
            r"rotation.search \(by default\) and policy.labels make 10,308 ",
        ),
        ({"max_tokens": 5000}, "max_tokens from the command line is 5000; .* 4096"),
        ({"limits__tokens": 100}, r"max_tokens \(by default\) is 512; .* 100"),
        (
            {"limits__first_sentence_timeout": 301},
            "limits.first_sentence_timeout from the command line is 301; .* 300",
        ),
        ({"audit__file": "/no/such/folder/audit.jsonl"}, "audit.file from .* folder does not"),
        ({"api_keys": "/no/such/folder/keys.jsonl"}, "api_keys from .* folder does not exist"),
        ({"rotation__record": "/no/such/folder/counts"}, "rotation.record from .* folder does not"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    flags: dict[str, object], expected: str
) -> None:
    with pytest.raises(InputError, match=expected):
        read(**flags)


def test_settings_made_in_python_are_checked_too() -> None:
    with raises_naming(InputError, "host", "'0.0.0.0'"):
        ServerConfig(host="0.0.0.0")
    with pytest.raises(ValidationError):
        ServerConfig.model_validate({"prot": 1})
    with pytest.raises(ValidationError):
        ServerConfig().port = 1  # type: ignore[misc]


def shown(config: ServerConfig) -> str:
    return (
        f"{config!r} {config} {describe(config)} {config.model_dump()} {config.model_dump_json()}"
    )


def test_the_upstreams_api_key_is_read_and_never_shown(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1/v1"
    ours = {"HAMMINGMARK_UPSTREAM_API_KEY": f"{SECRET}-variable"}
    common = {"OPENAI_API_KEY": f"{SECRET}-common"}
    path = secret_file(tmp_path, f"{SECRET}-file\n")
    for environ, flags, last in (
        (ours | common, {"upstream__api_key_file": path}, "variable"),
        (common, {"upstream__api_key_file": path}, "file"),
        (common, {}, "common"),
    ):
        config = read(environ=environ, upstream__url=url, **flags)
        assert config.upstream.api_key is not None
        assert config.upstream.api_key.get_secret_value() == f"{SECRET}-{last}"
        assert SECRET not in shown(config)
        (row,) = (each for each in describe(config) if each.name == "upstream.api_key")
        assert row.value == "set"
        assert row.source in (*environ, str(path))
    assert read(upstream__url=url).upstream.api_key is None
    assert read(environ=ours | common).upstream.api_key is None


@pytest.mark.parametrize(
    "content",
    [f'upstream_api_key = "{SECRET}"', f'[upstream]\napi_key = "{SECRET}"', f'api_key="{SECRET}"'],
)
def test_a_secret_in_the_file_of_settings_is_refused_and_not_quoted(
    tmp_path: Path, content: str
) -> None:
    with raises_naming(InputError, "HAMMINGMARK_UPSTREAM_API_KEY") as caught:
        read(content, folder=tmp_path)
    assert SECRET not in str(caught.value)
    with raises_naming(InputError, "upstream.api_key", "command line"):
        read(upstream__api_key=SECRET)


@pytest.mark.parametrize("secret", [f"{SECRET} two", f"{SECRET}\nmore", f"{SECRET}é", "  "])
def test_a_secret_that_no_header_can_carry_is_refused_and_not_quoted(
    tmp_path: Path, secret: str
) -> None:
    path = secret_file(tmp_path, secret)
    with raises_naming(InputError, path) as caught:
        read(upstream__url="http://h/v1", upstream__api_key_file=path)
    assert SECRET not in str(caught.value)


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = secret_file(tmp_path, mode=0o644)
    with raises_naming(InputError, f"chmod 600 {path}"):
        read(upstream__url="http://h/v1", upstream__api_key_file=path)
    with raises_naming(InputError, tmp_path / "absent"):
        read(upstream__url="http://h/v1", upstream__api_key_file=tmp_path / "absent")


@pytest.mark.parametrize(
    "url", [f"https://me:{SECRET}@h.example/v1", f"https://h.example/v1?api-key={SECRET}"]
)
def test_what_a_url_holds_is_used_and_not_shown(url: str) -> None:
    config = read(upstream__url=url)
    assert config.upstream.url == url
    for text in (repr(config), str(config), str(describe(config))):
        assert "https://h.example/v1" in text
        assert SECRET not in text
    backend = read(backend=f"openai:{url}")
    assert SECRET not in f"{backend!r} {describe(backend)}"


def test_a_broken_url_is_not_quoted() -> None:
    with pytest.raises(InputError) as caught:
        read(upstream__url=f"htps://me:{SECRET}@h.example/v1")
    assert SECRET not in str(caught.value)


def test_the_settings_in_the_guide_can_be_read(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "operate.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", guide, re.S)
    file = tmp_path / "serve.toml"
    file.write_text(block.replace("/var/lib/hammingmark", str(tmp_path)), encoding="utf-8")
    config = read_config(file, environ={}, flags={})
    assert config.upstream.url == "http://127.0.0.1:8000/v1"
    assert (config.policy.switch_off, config.limits.queue) == ("by_api_key", 256)
    assert config.audit.file == tmp_path / "audit.jsonl"
