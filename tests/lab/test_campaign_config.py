"""A campaign's file is checked whole before anything runs, and a mistake in it is named by line."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from batfill_lab.campaigns.config import CampaignError, ReadCampaign, read_campaign
from batfill_lab.campaigns.plan import traces_of

LEAST = "workloads: [{file: log.swf}]\npolicies: [fcfs]\n"


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return read_campaign(path).campaign

    return read


def test_choices_are_every_combination(read):
    campaign = read(
        "workloads: [{file: log.swf}]\npolicies: [fcfs, saf]\nbackfills: [same, spf]\nthresholds: [null, 7200]\n"
        "knowledge: [request, {small: forest, kill: always}]\n"
    )
    assert len(campaign.choices) == 16
    last = {"policy": "saf", "backfill": "spf", "threshold": 7200}
    assert campaign.choices[-1] == {**last, "small": "forest", "kill": "always"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- a list\n", "1: not a campaign; it needs at least `workloads:` and `policies:`"),
        ("policies: [fcfs\n", "2: not YAML (expected ',' or ']', but got '<stream end>'); correct that line"),
        ("tau: 10\ntau: 20\n", "4: key tau is already on line 3; keep one of them"),
        ("windows:\n  days: 7\n  skipp: 1\n", "5: key skipp is unknown here; known are days, align, "),
        ("tau: 0\n", "3: tau is 0; option tau: 0 is not a number of seconds > 0"),
        (
            "thresholds:\n- 1\n- soon\n",
            "5: thresholds.1 is 'soon'; option threshold: 'soon' is not a number of seconds >= 0",
        ),
        ("windows: {align: moon}\n", "3: windows.align is 'moon'; input should be 'log', 'first' or 'calendar'"),
        (
            "resamplings: {samples: 100000000}\n",
            "3: resamplings.samples is 100000000; input should be less",
        ),
        (
            "cluster: {type: slurm, jobs: 1, cores: 1, memory: much}\n",
            "3: cluster.memory is 'much'; string should match pattern",
        ),
        ("cluster: {type: pbs}\n", "3: cluster.type is 'pbs'; input should be 'slurm' or 'oar'"),
        ("knowledge:\n- request\n- oracle\n", "5: option predict: 'oracle' is none of request, "),
        ("knowledge: [{kill: always}]\n", "3: option kill: no job is small"),
        ("knowledge: [{small: forest, seed: 1}]\n", "3: a campaign's seeds are a separate list"),
        (
            "knowledge:\n- policy: saf\n",
            "4: policy is not an option of knowledge; those are tested, reservation, max-running, backfill-while, ",
        ),
        ("workloads: [{file: a}]\npolicies:\n- fcfs\n- sfa\n", "4: policy 'sfa' is unknown; known are "),
        ("workloads: [{file: a}]\npolicies: [saf, saf]\n", "2: policies has 'saf' twice; keep one of them"),
        ("seeds: [1, 2]\n", "3: nothing here is random; leave seeds out, or add resamplings"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(read, tmp_path, text, line):
    with pytest.raises(CampaignError) as refused:
        read(text if text.startswith(("- ", "policies", "workloads")) else LEAST + text)
    (said,) = refused.value.on_command_line.splitlines()
    assert said.startswith(f"{tmp_path / 'c.yaml'}:{line}")


def test_dates_are_those_of_a_whole_log(read):
    for dated in ("{backfill-while: [[0, 60]]}", "{energy-budget: '9kWh@0..1d,watts=1W'}"):
        campaign = read(f"{LEAST}knowledge: [{dated}]\nwindows: {{days: 1}}\n")
        with pytest.raises(CampaignError, match="its dates are those of a whole log, not of windows"):
            list(traces_of(ReadCampaign(campaign, Path("c.yaml"), "", "")))


def test_overdue_jobs_are_chosen_where_every_threshold_of_the_campaign_makes_some(read):
    text = LEAST + "thresholds: [3600]\nknowledge: [{small: none, overdue: half}]\n"
    assert read(text).choices[0]["overdue"] == "half"
    with pytest.raises(CampaignError, match="4: option overdue: no job is overdue without a threshold"):
        read(text.replace("[3600]", "[3600, null]"))
