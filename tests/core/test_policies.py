"""The list of policies: keys as their formulas say, names as users type them."""

from __future__ import annotations

import json
import math
from hashlib import sha256

import numpy as np
import pytest

from batfill.base.errors import PolicyError
from batfill.engine.keys import key_at, unit_of
from batfill.engine.motion import UNLIMITED_S
from batfill.model.policy import POLICIES, Policy, aged, listing, mixed, names_in, policy_named
from batfill.model.rules import Rules
from batfill.model.values import POLICY_NAMES
from batfill.replays.engine_replay import replay_jobs
from command import json_result, result
from oracle import KEYS, key_named
from strategies import table

SUBMIT_S = np.array([0.0, 1.0, 250.0, 99_000.0, 99_000.0])
WALLTIME_S = np.array([1.0, 60.0, 3_600.0, 7.5, math.inf])
PROCS = np.array([1, 2, 7, 128, 3])
AGED_ONES = ("aged:50000,0.5,0.5", "aged:0,1,0", "aged:3600,1,-0.5", "aged:7,0,0", "aged:1e6,-1,2")


def keys(policy, now_s):
    """The five jobs' keys at this date, as a pass has them."""
    lines = policy.lines(SUBMIT_S, WALLTIME_S, PROCS)
    units_s = [unit_of(policy.motion, walltime_s) for walltime_s in WALLTIME_S]
    return [key_at(now_s, *job) for job in zip(*lines, SUBMIT_S, units_s, strict=True)]


@pytest.mark.parametrize("name", [*POLICIES, "mixed:1,-2,3,-4,5,-6", "mixed:0,0,0,0.5,0,0", *AGED_ONES])
def test_keys_are_what_the_formulas_say(name):
    formula = key_named(name)
    for now_s in (99_000.0, 123_456.0):
        jobs = zip(SUBMIT_S, np.minimum(WALLTIME_S, UNLIMITED_S), PROCS, strict=True)
        expected = [formula(now_s, r, p, int(q)) for r, p, q in jobs]
        assert keys(policy_named(name), now_s) == pytest.approx(expected, rel=1e-12)


def test_some_keys_by_hand():
    # r = 250, p~ = 3600, q = 7, at t = 4000: w = 3750
    values = {name: keys(POLICIES[name], 4_000.0)[2] for name in POLICIES}
    assert values["saf"] == 25_200
    assert values["srf"] == pytest.approx(514.2857142857143)
    assert values["sexp"] == pytest.approx(1 + 3750 / 3600)
    assert values["wfp3"] ** 3 == pytest.approx(-((3750 / 3600) ** 3) * 7)  # the engine orders by its cube root
    assert values["unicef"] == pytest.approx(-3750 / (2.807354922057604 * 3600))
    assert values["f1"] == pytest.approx(3.5563025007672873 * 7 + 870 * 2.3979400086720375)
    assert values["f2"] == pytest.approx(60 * 7 + 25_600 * 2.3979400086720375)
    assert values["f3"] == pytest.approx(25_200 + 6_860_000 * 2.3979400086720375)
    assert values["f4"] == pytest.approx(3600 * 2.6457513110645907 + 530_000 * 2.3979400086720375)


def test_every_key_is_a_number_for_jobs_at_the_edge():
    """The first second, one processor, and no walltime: no logarithm of 0, no division by it, no infinity."""
    for name in [*POLICIES, "mixed:1,1,1,1,1,1", "aged:1e9,4,-4", "aged:0,-4,4"]:
        assert np.isfinite(keys(policy_named(name), 99_000.0)).all(), name


def test_exactly_these_policies_change_the_order_while_jobs_wait():
    assert POLICIES.keys() == KEYS.keys()
    assert tuple(POLICIES) == POLICY_NAMES  # which the command line knows without numpy
    changing = {name for name, policy in POLICIES.items() if policy.moves}
    assert changing == {name for name, key in KEYS.items() if key(20, 1, 5, 3) != key(30, 1, 5, 3)}
    assert mixed((0, 0, 0, 0, 1, 0)).moves
    assert mixed((0, 0, 0, 0, -4, 4)).weights == (0, 0, 0, 0, -0.5, 0.5)
    assert not mixed((1, 1, 1, 1, 0, 1)).moves
    assert aged(0, 0.5, 0).moves
    assert not aged(5, 0, 0).moves


@pytest.mark.compiled
def test_under_an_aged_order_no_job_waits_for_ever():
    """One processor, a job of 10 s every 10 s, and a job of 100 s from the start: SPF never starts it."""
    jobs = table([(0, 10, 10, 1), (0, 100, 100, 1), *((10.0 * i, 10, 10, 1) for i in range(1, 200))])
    assert replay_jobs(jobs, 1, Rules(policy_named("spf"))).start_s[1] == 2000
    # A job of 10 s starts at once: c / 10 = (c + w) / 100 at w = 9 c, and the older one goes first.
    assert replay_jobs(jobs, 1, Rules(policy_named("aged:50,1,0"))).start_s[1] == 450


def test_a_list_of_policies_keeps_the_numbers_of_a_name_together():
    mixed_name = "mixed:1,0,-0.5,0,1e-3,+2"
    assert names_in(f"fcfs, {mixed_name},saf") == names_in(f"fcfs;{mixed_name}; saf") == ["fcfs", mixed_name, "saf"]
    assert names_in(f"fcfs+{mixed_name}+saf") == names_in(f"fcfs + {mixed_name} + saf") == ["fcfs", mixed_name, "saf"]
    assert names_in("aged:1e+05,0.5,0+saf") == ["aged:1e+05,0.5,0", "saf"]
    assert names_in("lin@a+b.json,saf") == ["lin@a+b.json", "saf"]
    assert names_in("1,fcfs") == ["1", "fcfs"]


def test_the_command_lists_a_row_per_policy_under_a_header():
    listed, sources, presets = result("policies").split("\n\n", 2)
    header, *lines = listed.splitlines()
    rows = [line for line in lines if not line.startswith(" ")]
    assert presets.startswith("--preset first-tries: ")
    assert header.split() == ["name", "key,", "lowest", "first", "order"]
    assert [row.split()[0] for row in rows] == [*POLICIES, "mixed:a,b,c,d,e,f", "aged:c,alpha,beta"]
    said = " ".join(sources.split())
    assert all(one["source"] in said and one["name"] in said for one in listing())
    assert json_result("policies") == listing()


def test_a_name_means_the_same_policy_again():
    assert {policy_named(text) for text in ("saf", " SAF ", "Saf")} == {POLICIES["saf"]}
    for policy in (mixed((0.1, -1 / 3, 1e-17, 2, 3, 1e10)), aged(1 / 3, 0.1, -0.7)):
        again = policy_named(policy.name)
        assert again.name == policy.name
        assert keys(again, 99_000.0) == keys(policy, 99_000.0)


# Policies in files

TERMS = [{"coefficient": 2.5, "p": 1, "q": 2}, {"coefficient": 0, "p": 3}, {"coefficient": -1, "r": 1}]
STORED = {"format": "batfill policies 1", "made_by": "hand", "functions": {"two": {"terms": TERMS}}}


def stored(folder, content):
    path = folder / "Own.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_policy_in_a_file_orders_by_its_polynomial_and_states_its_file(tmp_path):
    path = stored(tmp_path, {**STORED, "recommendation": {"take": "two"}})
    expected = (2.5 * np.minimum(WALLTIME_S, UNLIMITED_S) * PROCS**2 - SUBMIT_S).tolist()
    for text in (f"two@{path}", f" TWO@{path} ", f"@{path}"):
        policy = policy_named(text)
        assert keys(policy, 99_000.0) == pytest.approx(expected, rel=1e-12)
        assert (policy.name, policy.formula, policy.source) == (f"two@{path}", "+2.5 p~ q^2 -1 r", "hand")
        assert policy.digest == sha256(path.read_bytes()).hexdigest()
    assert policy_named(f"@{stored(tmp_path, {**STORED, 'recommendation': {'take': 'saf'}})}") is POLICIES["saf"]
    unsigned = {key: value for key, value in STORED.items() if key != "made_by"}
    assert policy_named(f"two@{stored(tmp_path, unsigned)}").source == str(path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("two", "{", "not JSON ("),
        ("two", [], "Own.json is not a policy file (batfill policies 1)"),
        ("two", {**STORED, "format": "batfill policies 2"}, "is not a policy file"),
        ("", STORED, "Own.json recommends nothing; name one of its functions, two"),
        (
            "",
            {**STORED, "recommendation": {"take": "fcfs2"}},
            "has no function 'fcfs2'; name one",
        ),
        ("saf", STORED, "has no function 'saf'"),
        ("two", {**STORED, "functions": []}, "is not a policy file"),
        *(
            ("two", {**STORED, "functions": {"two": {"terms": [term]}}}, "a term of 'two' in ")
            for term in (7, {"p": 1}, *({"coefficient": 1, "p": p} for p in (-1, 1.5, True, 9)))
        ),
        ("two", {**STORED, "functions": {"two": {}}}, "a term of 'two' in "),
    ],
)
def test_a_file_that_holds_no_such_policy_is_refused_with_what_it_holds(name, content, said, tmp_path):
    path = stored(tmp_path, content)
    with pytest.raises(PolicyError) as refused:
        policy_named(f"{name}@{path}")
    assert str(refused.value).startswith(f"policy {name}@{path}: ")
    assert said in str(refused.value)
    with pytest.raises(PolicyError, match="nowhere: no such file or directory; check the path"):
        policy_named(f"{name}@{tmp_path}/nowhere")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Policy("fcfs", lambda r, p, q: p), "policy fcfs: this name is that of another order"),
        (lambda: Policy(" SAF ", lambda r, p, q: p), "this name is that of another order"),
        (lambda: Policy("aged:1,1,1", lambda r, p, q: p), "this name is that of another order"),
        (lambda: Policy("mine@fit.json", lambda r, p, q: p), "this name is that of another order"),
        (lambda: Policy(None, lambda r, p, q: p), "policy: None is not a name"),
        (lambda: Policy("mine", 3), "policy mine: its key is 3; give a function"),
        (lambda: Policy("mine", lambda r, p, q: p, 3), "policy mine: its per_wait is 3; give a function"),
    ],
)
def test_a_policy_of_ones_own_has_a_name_of_its_own_and_functions(make, said):
    with pytest.raises(PolicyError, match=said):
        make()
    assert Policy("saf", POLICIES["saf"].key).name == "saf"


@pytest.mark.parametrize("kind", [complex, object, "M8[s]", "U3"])
def test_keys_are_real_numbers(kind):
    own = Policy("mine", lambda r, p, q: np.ones(len(r)).astype(kind))
    with pytest.raises(PolicyError, match=r"policy mine: its key is of type .*; return real numbers, one per job"):
        own.lines(SUBMIT_S, WALLTIME_S, PROCS)
