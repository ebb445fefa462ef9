"""`batfill policies`."""

from __future__ import annotations

from batfill.policy import POLICIES, listing
from command import json_result, refusal, result


def test_the_list_has_a_row_per_policy_under_a_header():
    header, *rows = result("policies").splitlines()
    assert header.split() == ["name", "key,", "lowest", "first", "order", "source"]
    assert [row.split()[0] for row in rows[:-3]] == list(POLICIES)
    assert [row.split()[0] for row in rows[-3:]] == ["mixed:a,b,c,d,e,f", "aged:c,alpha,beta", "nn@FILE"]
    assert all(listed["source"] in row for listed, row in zip(listing(), rows, strict=True))


def test_json_is_the_same_list():
    assert json_result("policies") == listing()


def test_an_argument_it_does_not_take_is_refused():
    assert "see batfill policies --help" in refusal("policies", "saf")
