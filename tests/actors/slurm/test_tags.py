"""The comments of jobs: whose they are, and how the members of a gang have ended."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster import EventError
from muster.slurm._sbatch import JobComment, JobTag, read_comment


def test_comment_of_a_job() -> None:
    tag = JobTag("muster", "a b", "x%1", (17,))
    assert tag.text == "muster:a%20b/x%251/17"
    assert tag.job_name == "muster:a%20b/x%251"
    assert read_comment(tag.text) == JobComment(tag, {})


def test_comment_of_a_gang() -> None:
    tag = JobTag("muster", "default/ring", None, (3, 4, 5, 9))
    assert tag.text == "muster:default%2Fring/*/3-5,9"
    assert tag.job_name == "muster:default%2Fring/*/3"
    assert read_comment(f"{tag.text} 0,,143,") == JobComment(tag, {3: 0, 5: 143})


@pytest.mark.parametrize(
    "text",
    ["", "a job of mine", "muster:a/b", "muster:a/b/c", "muster:a/b/3-", "muster:a/b/3,2", "a/b/3"],
)
def test_other_comments_are_not_ours(text: str) -> None:
    assert read_comment(text) is None


@given(
    st.text(min_size=1, max_size=20),
    st.none() | st.text(min_size=1, max_size=20),
    st.sets(st.integers(0, 10**9), min_size=1, max_size=20),
)
def test_comments_are_read_as_they_were_written(
    app: str, ask: str | None, numbers: set[int]
) -> None:
    try:
        (app + (ask or "")).encode()
    except UnicodeEncodeError:
        return  # no name can be that
    tag = JobTag("muster", app, ask, tuple(sorted(numbers)))
    assert read_comment(tag.text) == JobComment(tag, {})


def test_what_is_too_long_for_a_comment_is_refused() -> None:
    JobTag("muster", "default/ring", None, tuple(range(200))).check()
    with pytest.raises(EventError, match="gang: 'g': 300 members are too many"):
        JobTag("muster", "g", None, tuple(range(300))).check()
    with pytest.raises(EventError, match=r"app, ask: .*too long"):
        JobTag("muster", "g" * 2000, "x", (1,)).check()
