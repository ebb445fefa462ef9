"""The model starts the jobs of real runs when, and where, Slurm did, if it gets the dates of the passes."""

from __future__ import annotations

import numpy as np
import pytest

from batfill_site.slurm.model import Model
from slurm_truth import LATE_JOB, PUBLIC, distance, own, public
from slurm_twin import Twin

both = pytest.mark.parametrize("model", [Twin, Model], ids=["twin", "kernel"])


@both
def test_every_job_of_our_run_by_submission_starts_when_and_where_slurm_started_it(model):
    truth = own("a")
    found = distance(truth, model(truth.site, truth.jobs).run(truth.clock))
    assert np.abs(found.off_s).max() < 0.1
    assert found.same_nodes.all()
    assert found.same_pass.all()


@both
def test_every_job_of_our_run_by_priority_starts_when_and_where_slurm_started_it_but_for_a_late_node(model):
    truth = own("b", late=True)
    found = distance(truth, model(truth.site, truth.jobs).run(truth.clock))
    assert np.abs(found.off_s).max() < 0.4
    assert found.same_nodes.all()
    # Three started 0.35 s later than in the model: job 46 ended 0.1 s before a cycle, and its nodes were not clean.
    assert [name for name, same in zip(truth.jobs.ids, found.same_pass, strict=True) if not same] == ["58", "63", "65"]


def test_no_start_is_off_before_the_late_node():
    truth = own("b")
    found = distance(truth, Model(truth.site, truth.jobs).run(truth.clock))
    row = truth.jobs.ids.index(LATE_JOB)
    off = np.abs(found.off_s) > truth.close_s
    assert truth.jobs.started_s[off].min() > truth.jobs.started_s[row] + truth.jobs.run_s[row]


@pytest.mark.skipif(not PUBLIC, reason="BATFILL_SLURM names no folder with the public run")
def test_every_job_of_the_public_run_starts_within_3_s_on_the_same_nodes():
    truth = public(PUBLIC)
    found = distance(truth, Model(truth.site, truth.jobs).run(truth.clock))
    assert (np.abs(found.off_s) <= 3).sum() >= 499
    assert found.same_nodes.all()
    assert found.backfilled == 390
