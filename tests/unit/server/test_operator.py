"""Who runs the service, and which keys are its own."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.server.harness import Home, Served, key_of

from hammingmark import __version__

Serve = Callable[..., Served]
ABOUT = "/v1/watermark/about"


def test_anybody_may_ask_who_runs_the_service(serve: Serve, home: Home) -> None:
    home.let_in("reader")
    operator = {"name": " Example News ", "contact": "desk@example.org"}
    served = serve(operator=operator, api_keys=home.api_keys)
    assert served.get("/v1/watermark/keys").status_code == 401
    assert served.get(ABOUT).json() == {
        "operator": {"name": "Example News", "contact": "desk@example.org", "url": None},
        "software": "hammingmark",
        "version": __version__,
    }


def test_without_settings_nobody_is_named(serve: Serve) -> None:
    assert set(serve().get(ABOUT).json()["operator"].values()) == {None}


def test_a_key_is_the_services_own_if_it_marks_or_did_before_a_rotation(
    serve: Serve, home: Home
) -> None:
    served = serve()
    home.keyring.add(key_of(9), name="of-another")
    _, new = home.keyring.rotate("default")
    listed = served.get("/v1/watermark/keys").json()["keys"]
    assert {each["id"]: each["own"] for each in listed} == {
        key_of().id: True,
        new.key.id: True,
        key_of(9).id: False,
    }
