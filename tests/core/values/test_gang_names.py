"""Names of gangs."""

from __future__ import annotations

import pytest

from muster_core.values.names import canonical_gang


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("g", "default/g"),
        ("ns/g", "ns/g"),
        ("a.b-c.0", "default/a.b-c.0"),
        ("0/0", "0/0"),
        ("g" * 253, f"default/{'g' * 253}"),
        (f"{'n' * 63}/g", f"{'n' * 63}/g"),
    ],
)
def test_names_that_an_object_can_have(written: str, expected: str) -> None:
    assert canonical_gang(written) == expected
    assert canonical_gang(expected) == expected


def test_another_namespace_is_for_names_that_give_none() -> None:
    assert canonical_gang("g", "there") == "there/g"
    assert canonical_gang("here/g", "there") == "here/g"


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "subdomain"),
        ("G", "subdomain"),
        ("g_h", "subdomain"),
        ("-g", "subdomain"),
        ("g-", "subdomain"),
        ("g..h", "subdomain"),
        (".g", "subdomain"),
        ("g\n", "subdomain"),
        ("\u0661", "subdomain"),
        ("ns/", "subdomain"),
        ("ns/g/h", "subdomain"),
        ("g" * 254, "subdomain"),
        ("/g", "label"),
        ("a.b/g", "label"),
        ("Ns/g", "label"),
        ("ns-/g", "label"),
        ("ns\n/g", "label"),
        (f"{'n' * 64}/g", "label"),
    ],
)
def test_names_that_no_object_can_have(written: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"RFC 1123 {why}"):
        canonical_gang(written)


def test_a_namespace_that_is_given_is_checked_too() -> None:
    with pytest.raises(ValueError, match="'No' is no RFC 1123 label"):
        canonical_gang("g", "No")


# GANG-1
@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "job_5",
            (
                "'job_5': 'job_5' is no RFC 1123 subdomain: lower-case letters, digits, - and ., with a "
                "letter or digit at both ends"
            ),
        ),
        ("a" * 254, "at both ends, at most 253 of them"),
        (
            "A/b",
            (
                "'A/b': the namespace 'A' is no RFC 1123 label: lower-case letters, digits and -, with a "
                "letter or digit at both ends, at most 63"
            ),
        ),
    ],
)
def test_a_refusal_says_what_a_name_consists_of(written: str, message: str) -> None:
    with pytest.raises(ValueError, match="RFC 1123") as caught:
        canonical_gang(written)
    assert str(caught.value).endswith(message)
