"""Slurm's jobs are read from `sacct -P` as they asked and ran; what is assumed is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill_site.accounting.cluster_log import Reading
from batfill_site.accounting.slurm import read_slurm
from batfill_site.slurm.jobs import COMMAND, YEAR_S, line_of, read_jobs
from batfill_site.slurm.site import SlurmJobs
from sweeps import examples

DATA = Path(__file__).parents[1] / "data"
OWN_A, OWN_B = DATA / "accounting" / "slurm-32.txt.gz", DATA / "slurm" / "own-b" / "sacct.txt"
LISTS = ("partitions", "required", "excluded", "licenses")
COLUMNS = COMMAND.split(" -o ")[1].split(",")
USUAL = {
    "JobID": "7", "User": "ann", "Account": "physics", "Partition": "main", "QOS": "normal", "Submit": "1700000000",
    "Eligible": "1700000000", "Reason": "None", "Start": "1700000100", "End": "1700000400", "TimelimitRaw": "10",
    "AllocCPUS": "8", "ReqCPUS": "8", "NNodes": "2", "ReqTRES": "billing=8,cpu=8,mem=16G,node=2",
    "AllocTRES": "billing=8,cpu=8,mem=16G,node=2", "ReqMem": "16G", "Constraints": "", "State": "COMPLETED",
    "NodeList": "n[01-02]", "Reservation": "", "Suspended": "00:00:00", "SubmitLine": "sbatch -N 2 run.sh",
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Reads records that differ from the usual one in these fields, without these columns."""

    def reading(*records, without=(), **options) -> SlurmJobs:
        columns = [column for column in COLUMNS if column not in without]
        lines = ["|".join((USUAL | record)[column] for column in columns) for record in records]
        path = tmp_path / "sacct.txt"
        path.write_text("\n".join(["|".join(columns), *lines, ""]))
        return read_jobs(path, **options)

    return reading


def said(jobs, what):
    """How many records a warning counts; 0 without such a warning."""
    return sum(int(line.split()[0]) for line in jobs.warnings if what in line)


def test_the_how_to_has_the_command_that_errors_recommend():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "slurm.md").read_text().replace("\\\n", "")
    assert f" -o {','.join(COLUMNS)} > jobs.txt" in page
    assert set(USUAL) == set(COLUMNS)


def test_a_job_has_what_it_asked_for_and_the_layout_in_which_it_ran(read):
    jobs = read({})
    assert len(jobs) == 1
    assert jobs.warnings == ()
    found = {name: np.asarray(getattr(jobs, name))[0] for name in SlurmJobs.__slots__ if name != "warnings"}
    assert found == {
        "ids": "7", "submit_s": 1700000000, "eligible_s": 1700000000, "limit_s": 600, "run_s": 300, "cpus": 8,
        "nodes": 2, "max_nodes": 2, "cpus_per_node": 4, "cpus_per_task": 1, "min_nodes": 2, "memory_per_cpu_mb": 0,
        "memory_per_node_mb": 8192, "memory_unsaid": False, "partitions": "", "required": "", "excluded": "",
        "gpus_per_node": 0, "gpu_type": "", "constraint": "", "partition": "main", "qos": "normal",
        "account": "physics", "user": "ann", "array": -1, "nice": 0, "exclusive": False, "started_s": 1700000100,
        "leave_s": np.inf,
        "ran_on": "n[01-02]", "held": False, "licenses": "", "marks": 0, "requeue": -1, "slept_s": 0, "preempted": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("path", "nodes", "accounts"), [(OWN_A, "ca", {""}), (OWN_B, "cb", {"physics", "biology"})])
def test_real_output_without_what_was_requested_is_read_and_the_assumptions_are_counted(path, nodes, accounts):
    jobs = read_jobs(path)
    assert len(jobs) == 150
    assert jobs.cpus.tolist() == jobs.nodes.tolist() == jobs.min_nodes.tolist()
    assert (jobs.cpus_per_node[0], jobs.nodes[0], jobs.ran_on[0]) == (1, 6, f"{nodes}[01-06]")
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert set(jobs.account) == accounts
    assert said(jobs, "do not say how many nodes") == said(jobs, "unknown memory") == 150
    assert said(jobs, "without ReqTRES, AllocTRES, Constraints, SubmitLine") == 150
    assert len(jobs.warnings) == 3


# The layout


@pytest.mark.parametrize(
    ("fields", "without", "nodes", "min_nodes"),
    [
        ({"AllocTRES": "cpu=8,node=4"}, (), 4, 2),
        ({"AllocTRES": "cpu=8", "NNodes": "3"}, (), 3, 2),
        ({"ReqTRES": "cpu=8,mem=16G,node=1"}, (), 2, 1),  # sbatch -n 8
        ({"NodeList": "a[1-3,7],b"}, ("AllocTRES", "NNodes"), 5, 2),
        ({}, ("AllocTRES", "NNodes", "NodeList"), 2, 2),
        ({"SubmitLine": "sbatch --nodes=1-4 x"}, ("ReqTRES",), 2, 1),
        ({"SubmitLine": "sbatch x"}, ("ReqTRES",), 2, 2),
        ({"SubmitLine": "sbatch x"}, ("AllocTRES", "NNodes", "NodeList", "ReqTRES"), 1, 1),
    ],
)
def test_nodes_are_those_of_the_run_and_the_fewest_those_of_the_request(read, fields, without, nodes, min_nodes):
    jobs = read(fields, without=without)
    assert (jobs.nodes[0], jobs.min_nodes[0], jobs.cpus_per_node[0]) == (
        nodes,
        min_nodes,
        1 if 8 % nodes else 8 // nodes,
    )
    assumed = "ReqTRES" in without and "nodes" not in fields["SubmitLine"]
    assert said(jobs, "do not say how many nodes") == assumed
    assert said(jobs, "unknown number of nodes: one") == (nodes == 1)


@pytest.mark.parametrize(
    ("fields", "without", "per_cpu", "per_node"),
    [
        ({"ReqTRES": "cpu=8,mem=6G,node=1"}, (), 0, 6144),  # --mem=6G with -n 8: for each node that it gets
        ({"ReqMem": "4Gc"}, (), 4096, 0),
        ({"ReqMem": "3000Mn"}, ("ReqTRES", "AllocTRES"), 0, 3000),
        ({"SubmitLine": "sbatch -n 8 --mem-per-cpu=2G x"}, (), 2048, 0),
        ({"SubmitLine": "sbatch -n 8 --mem-per-cpu=2G x", "ReqTRES": "cpu=6,mem=9000M,node=2"}, (), 1500, 0),
        ({}, ("ReqTRES",), 0, 8192),  # ReqMem, in all
        ({"AllocTRES": "cpu=8,mem=10001M,node=2"}, ("ReqTRES", "ReqMem"), 0, 5001),
        ({"ReqMem": "0n", "ReqTRES": "cpu=8,node=2"}, (), 0, 8192),  # --mem=0: all of the node
        ({"ReqMem": "?n"}, ("ReqTRES", "AllocTRES"), 0, 0),
    ],
)
def test_memory_is_per_cpu_or_per_node(read, fields, without, per_cpu, per_node):
    jobs = read(fields, without=without)
    assert (jobs.memory_per_cpu_mb[0], jobs.memory_per_node_mb[0]) == (per_cpu, per_node)
    assert said(jobs, "unknown memory") == (per_cpu == per_node)


@pytest.mark.parametrize(
    ("req", "alloc", "gpus", "kind"),
    [
        ("node=2,gres/gpu=4", "node=2,gres/gpu=4,gres/gpu:a100=4", 2, ""),  # it asked for GPUs of any type
        ("node=2,gres/gpu=4,gres/gpu:a100=4", "node=2,gres/gpu=4,gres/gpu:a100=4", 2, "a100"),
        ("node=2,gres/gpu:a100=4", "", 2, "a100"),
        ("", "node=2,gres/gpu:v100=3", 2, "v100"),
        ("node=2,gres/gpu:a100=1,gres/gpu:v100=3", "", 2, ""),
        ("node=1,gres/gpu=1", "node=2,gres/gpu=2", 1, ""),
        ("node=2,gres/gpumem=4G,gres/gpuutil=3", "node=2", 0, ""),
    ],
)
def test_gpus_are_counted_per_node_and_have_the_type_that_was_asked_for(read, req, alloc, gpus, kind):
    jobs = read({"ReqTRES": req and f"cpu=8,mem=1G,{req}", "AllocTRES": alloc and f"cpu=8,{alloc}"})
    assert (jobs.gpus_per_node[0], jobs.gpu_type[0]) == (gpus, kind)
    assert said(jobs, "several types") == ("a100=1" in req)


# Rule P0: with the numbers of nodes that were asked for and used; nodes, max_nodes, CPUs on each, in a task.
@pytest.mark.parametrize(
    ("line", "cpus", "asked", "ran", "layout"),
    [
        ("sbatch -n 6 --wrap x", 6, 1, 2, (1, 0, 1, 1)),
        ("sbatch -n6 -c 2 --wrap x", 12, 1, 3, (1, 0, 2, 2)),
        ("sbatch -n1 x", 1, 1, 1, (1, 0, 1, 1)),
        ("sbatch -n 6 x", 6, 2, 2, (2, 2, 1, 1)),  # the script had -N 2
        ("sbatch -N 3 -n 7 x", 7, 3, 3, (3, 3, 1, 1)),
        ("sbatch -N 1 -n 7 x", 7, 1, 1, (1, 1, 7, 1)),
        ("sbatch -N 3 --ntasks-per-node=2 -c 2 x", 12, 3, 3, (3, 3, 4, 2)),
        ("sbatch -N 2 x", 2, 2, 2, (2, 2, 1, 1)),
        ("sbatch -N 2-4 -n 6 x", 6, 2, 3, (3, 3, 1, 1)),  # as many as it ran on
        ("sbatch -n 7 --ntasks-per-node=3 x", 7, 1, 3, (3, 3, 3, 1)),
        ("sbatch x", 8, 1, 3, (1, 0, 1, 1)),  # it ran on more than it asked for
        ("sbatch x", 8, 2, 2, (2, 2, 4, 1)),
    ],
)
def test_a_layout_is_read_as_it_was_asked_for(read, line, cpus, asked, ran, layout):
    fields = {"ReqCPUS": str(cpus), "AllocCPUS": str(cpus), "SubmitLine": line}
    jobs = read(fields | {"ReqTRES": f"cpu={cpus},node={asked}", "AllocTRES": f"cpu={cpus},node={ran}"})
    assert (jobs.nodes[0], jobs.max_nodes[0], jobs.cpus_per_node[0], jobs.cpus_per_task[0]) == layout
    assert (jobs.cpus[0], jobs.min_nodes[0]) == (cpus, asked)
    assert said(jobs, "whether their CPUs must be") == (line == "sbatch x" and asked == 2)


def test_an_exclusive_job_asks_for_what_it_requested_not_for_all_that_it_got(read):
    got = {"AllocCPUS": "24", "AllocTRES": "cpu=24,gres/gpu=2,mem=12000M,node=5", "NNodes": "5"}
    line = {"SubmitLine": "sbatch -N5 --ntasks-per-node=2 --exclusive --mem-per-cpu=500 --wrap x"}
    jobs = read(got | line | {"ReqCPUS": "10", "ReqTRES": "cpu=10,mem=5000M,node=5", "ReqMem": "5000M"})
    asked = (jobs.cpus[0], jobs.cpus_per_node[0], jobs.gpus_per_node[0], jobs.memory_per_cpu_mb[0], jobs.exclusive[0])
    assert asked == (10, 2, 0, 500, True)


def test_memory_that_grew_with_cpus_and_not_with_nodes_is_per_cpu(read):
    tres = "cpu=8,mem=8000M,node="
    jobs = read({"ReqTRES": tres + "1", "AllocTRES": tres + "2", "SubmitLine": "sbatch x", "ReqMem": "8000M"})
    assert (jobs.memory_per_cpu_mb[0], jobs.memory_per_node_mb[0]) == (1000, 0)


@pytest.mark.parametrize(
    ("line", "unsaid"), [("sbatch -n 8 --wrap x", True), ("sbatch -n 8 x", False), ("sbatch --mem=1G --wrap x", False)]
)
def test_memory_is_unsaid_only_where_no_script_can_name_it(read, line, unsaid):
    assert read({"SubmitLine": line}).memory_unsaid.tolist() == [unsaid]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sbatch -N4 --nice x", {"nodes": 4, "nice": 100}),
        ("sbatch -N 2-8 --nice=-5 --exclusive x", {"nodes": 2, "nice": -5, "alone": 1}),
        ("sbatch --nodes 3 --exclusive=user --mem-per-cpu 4G x", {"nodes": 3, "per_cpu": 1, "memory": 1}),
        ("sbatch --nodes=1 --nodes=2 --nodelist=n5 --nice=0 x", {"nodes": 2, "required": "n5"}),
        ("sbatch --exclusive", {"alone": 1}),
        ("sbatch -n 4 --wrap srun -N 4 --exclusive", {"tasks": 4, "whole": 1}),
        ("sbatch -H -n4 job.sh -N 4 --exclusive", {"tasks": 4}),  # the script's own words
        ("srun -n 2 -c4 hostname", {"tasks": 2, "cpus_per_task": 4, "whole": 1}),
        (
            "sbatch -p a,b -w n[1-2] -x n3 --ntasks-per-node 2 x",
            {"per_node": 2, "partitions": "a,b", "required": "n[1-2]", "excluded": "n3"},
        ),
        ("sbatch -p a -w ./file x", {"odd": 1}),
        ("sbatch --gres=gpu:a100:2,shard:3 x", {"gpus": 2, "gpus_each": 1, "gpu_type": "a100"}),
        ("sbatch --gres craynetwork:1,gpu x", {"gpus": 1, "gpus_each": 1}),
        ("sbatch -G 4 x", {"gpus": 4}),
        ("sbatch --gpus-per-task=v100:2 -n3 x", {"tasks": 3, "gpus": 6, "gpu_type": "v100"}),
        ("sbatch --gpus-per-node=1 x", {"gpus": 1, "gpus_each": 1}),
        ("", dict.fromkeys(line_of(""), 0) | dict.fromkeys(("gpu_type", *LISTS), "") | {"requeue": -1}),
    ],
)
def test_options_are_found_in_the_line_of_submission(read, text, found):
    found = line_of("") | found
    assert line_of(text) == found
    jobs = read({"SubmitLine": text}, without=("ReqTRES",))
    assert (jobs.nice[0], jobs.exclusive[0]) == (found["nice"], found["alone"])
    assert [getattr(jobs, name)[0] for name in LISTS] == [found[name] for name in LISTS]
    assert said(jobs, "is a file") == found["odd"]


def test_gpus_that_only_the_line_names_are_those_of_a_job(read):
    jobs = read({"SubmitLine": "sbatch -N 2 --gpus=a100:4 x"})
    assert (jobs.gpus_per_node[0], jobs.gpu_type[0]) == (2, "a100")


def test_bars_in_constraints_and_in_the_line_of_submission_are_kept(read, tmp_path):
    wanted = "IB&(CPU-N|CPU-M)"
    jobs = read({"Constraints": wanted, "SubmitLine": f"sbatch -C {wanted} --nice=3 x"}, {"JobID": "8"})
    assert jobs.constraint == (wanted, "")
    assert jobs.nice.tolist() == [3, 0]
    assert said(jobs, "with a bar") == 1
    assert read_slurm([tmp_path / "sacct.txt"], Reading()).jobs["procs"].tolist() == [8, 8]  # the importer, too


# Limits, dates, states


@pytest.mark.parametrize("limit", ["UNLIMITED", "Partition_Limit", "", "0"])
def test_jobs_without_a_limit_have_their_partitions_or_a_year(read, limit):
    record = {"TimelimitRaw": limit}
    jobs = read(record, record | {"JobID": "8", "Partition": "long"}, {"JobID": "9"}, limits={"main": 3600.5})
    assert jobs.limit_s.tolist() == [3601, YEAR_S, 600]
    assert said(jobs, "their partition's") == said(jobs, "365 days") == 1
    assert len(jobs.warnings) == 2


def test_jobs_that_waited_for_a_dependency_are_eligible_later(read):
    jobs = read({"Eligible": "1700000050", "Reason": "Dependency"}, {"JobID": "8", "Eligible": "Unknown"})
    assert jobs.eligible_s.tolist() == [1700000050, 1700000000]
    assert not jobs.held.any()


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({"Reservation": "maintenance"}, True),
        ({"Suspended": "00:10:00"}, True),
        ({"Reason": "Licenses"}, True),
        ({"Reason": "ReqNodeNotAvail, UnavailableNodes:n01"}, True),
        ({"Reason": "AssocGrpCPURunMinutesLimit"}, True),
        ({"Reason": "JobHeldUser"}, True),  # and Eligible does not say until when
        ({"Reason": "JobHeldUser", "Eligible": "1700000050"}, False),
        *(({"Reason": reason}, False) for reason in ("Priority", "Resources", "QOSMaxJobsPerUserLimit", "None", "")),
    ],
)
def test_jobs_that_waited_for_what_is_not_modelled_are_held(read, fields, held):
    jobs = read(fields)
    assert jobs.held.tolist() == [held]
    assert bool(jobs.warnings) == held


def test_jobs_that_were_cancelled_while_they_waited_leave_at_their_end(read):
    left = {"State": "CANCELLED by 1003", "Start": "None", "AllocCPUS": "4", "NodeList": "None assigned"}
    left |= {"AllocTRES": "", "End": "1700000250"}
    held = {"Reason": "Dependency"}
    jobs = read(
        {},
        left | {"JobID": "8"},
        left | {"JobID": "9", "Start": "1700000400"},  # planned
        left | {"JobID": "10", "Eligible": "Unknown"},
        left | {"JobID": "11", "Eligible": "1700000300"},
        left | {"JobID": "12"} | held,
        left | {"JobID": "13", "State": "DEADLINE"},
    )
    assert jobs.ids == ("7", "8", "9")
    assert jobs.leave_s.tolist() == [np.inf, 1700000250, 1700000250]
    assert (jobs.run_s[1:] == jobs.limit_s[1:]).all()
    assert np.isnan(jobs.started_s[1:]).all()
    assert jobs.ran_on[1:] == ("", "")
    assert (said(jobs, "cancelled while they waited"), said(jobs, "never started, left out")) == (2, 4)


def test_jobs_that_never_started_or_have_not_ended_are_left_out_and_counted(read):
    never = {"State": "CANCELLED by 1003", "Start": "None", "AllocCPUS": "0", "NodeList": "None assigned"}
    never |= {"Eligible": "Unknown"}
    jobs = read(
        {},
        never | {"JobID": "8"},
        never | {"JobID": "9_[3-9%2]", "Start": "1700000400"},
        {"JobID": "10", "State": "RUNNING", "End": "Unknown"},
        {"JobID": "11", "State": "PENDING", "Start": "Unknown", "End": "Unknown"},
        {"JobID": "7.batch"},
        {"JobID": "12", "State": "CANCELLED by 1003"},  # while it ran
        {"JobID": "7"},
    )
    assert jobs.ids == ("7", "12")
    assert said(jobs, "never started, left out") == said(jobs, "have not ended") == 2
    assert said(jobs, "steps, left out") == said(jobs, "there twice") == 1


def test_jobs_go_by_submission_then_job_then_task(read):
    late = {"Submit": "1700000050"}
    jobs = read(*({"JobID": name} for name in ("10", "9_11", "9_2", "9", "8+1", "8+0")), late | {"JobID": "3"})
    assert jobs.ids == ("8+0", "8+1", "9", "9_2", "9_11", "10", "3")
    assert jobs.array.tolist() == [-1, -1, -1, 9, 9, -1, -1]
    assert said(jobs, "components of heterogeneous jobs") == 2


def test_each_try_of_a_requeued_job_is_a_job(read):
    first = {"State": "NODE_FAIL"}
    again = {"Start": "1700000600", "End": "1700000900"}
    for submit in ("1700000400", "1700000000"):  # some versions leave the first one's date
        jobs = read(first, again | {"Submit": submit, "Eligible": submit})
        assert jobs.ids == ("7", "7")
        assert jobs.submit_s.tolist() == [1700000000, 1700000400]
        assert (jobs.eligible_s == jobs.submit_s).all()
        assert said(jobs, "earlier tries") == 1


def test_tries_that_were_preempted_are_one_job(read):
    one = {"State": "PREEMPTED", "Start": "1700000100", "End": "1700000400"}
    two = one | {"Submit": "1700000400", "Eligible": "1700000521", "Start": "1700000600", "End": "1700000700"}
    last = {"Submit": "1700000701", "Eligible": "1700000822", "Start": "1700000900", "End": "1700001000"}
    jobs = read(one, two, last)
    assert (jobs.submit_s, jobs.eligible_s, jobs.started_s) == (1700000000, 1700000000, 1700000900)
    assert (jobs.run_s, jobs.preempted) == (100, 2)
    assert (said(jobs, "tries that were preempted"), len(jobs.warnings)) == (2, 1)
    jobs = read(one, two)  # and never ended by itself
    assert (jobs.run_s, jobs.preempted, jobs.started_s) == (600, 2, 1700000600)
    assert said(jobs, "jobs that preemption ended: what they would have run is not known, their limit") == 1
    assert read(one | {"State": "PREEMPT+"}, last).preempted == 1
    other = read(
        one, last | {"Submit": "1700009000", "Eligible": "1700009000", "Start": "1700009000", "End": "1700009100"}
    )
    assert other.preempted.tolist() == [1, 0]  # Slurm's counter of ids has wrapped around


def test_a_log_without_the_first_tries_of_requeued_jobs_says_so(read):
    again = {"Eligible": "1700000121", "Start": "1700000300", "End": "1700000400"}
    missing = "requeued jobs without their earlier tries"
    assert said(read(again, {"JobID": "8"}), missing) == 1
    first = {
        "State": "PREEMPTED",
        "Submit": "1699990000",
        "Eligible": "1699990000",
        "Start": "1699990000",
        "End": "1699999999",
    }
    assert said(read(first, again), missing) == 0
    assert said(read(again | {"Eligible": "1700000016"}, cred_expire_s=15), missing) == 1


def test_a_job_says_whether_it_may_be_requeued_and_how_long_it_slept(read):
    lines = ("sbatch --requeue j.sh", "sbatch --no-requeue j.sh", "sbatch j.sh --requeue")
    jobs = read(
        *({"JobID": f"{k}", "SubmitLine": line} for k, line in enumerate(lines, 1)),
        {"JobID": "4", "Suspended": "00:01:40"},
    )
    assert (jobs.requeue.tolist(), jobs.slept_s.tolist(), jobs.run_s[3]) == ([1, 0, -1, -1], [0, 0, 0, 100], 300)


def test_dates_are_read_in_the_clusters_zone(read):
    dates = {name: f"2024-05-01T{at}:00" for name, at in (("Submit", "10:00"), ("Start", "10:05"), ("End", "11:05"))}
    records = ({**dates, "Eligible": "2024-05-01T10:00:00"}, {"JobID": "8"})
    jobs = read(*records, timezone="Europe/Paris")
    assert jobs.submit_s[jobs.ids.index("7")] == 1714550400
    assert said(read(*records), "without a time zone, read in UTC") == 1
    with pytest.raises(WorkloadError, match="no time zone 'Mars'"):
        read(*records, timezone="Mars")


# Other input


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("; Version: 2.2\n" + "1 0 5 10 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n" * 200, "x: it is SWF, and not what sacct"),
        ("User|Submit\nann|1\n", "no column JobID or JobIDRaw is named"),
        ("JobID|Start|End|State|AllocCPUS\n", "1: no column Submit"),
        ("JobID|Submit|Start|End|State\n", "1: no column AllocCPUS or NCPUS or AllocTRES"),
        (f"{'|'.join(COLUMNS)}\n", "no job in it ran"),
        ("", "no job in it ran"),
        (f"{'|'.join(COLUMNS)}\n{'|'.join((USUAL | {'State': 'PENDING'}).values())}\n", "1: jobs that have not ended"),
    ],
)
def test_other_input_is_refused_with_the_command_to_use(tmp_path, text, message):
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=message) as caught:
        read_jobs([path])
    for part in (str(path), COMMAND):
        assert part in str(caught.value)


def test_several_files_are_one_log(read, tmp_path):
    read({})
    other = tmp_path / "more.txt"
    other.write_text((tmp_path / "sacct.txt").read_text().replace("\n7|", "\n5|"))
    assert read_jobs([tmp_path / "sacct.txt", other]).ids == ("5", "7")


odd = st.text("0123456789.,=:|[]-()KMG cn_+%abé\u0663", max_size=9)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(COLUMNS), odd, max_size=4), min_size=1, max_size=6))
def test_odd_fields_are_an_error_in_one_line_or_jobs_as_the_contract_says(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("odd") / "x"
    rows = ["|".join((USUAL | {"JobID": str(k)} | record).values()) for k, record in enumerate(records, 1)]
    path.write_text("\n".join(["|".join(USUAL), *rows, ""]))
    try:
        jobs = read_jobs(path)
    except WorkloadError:
        return
    assert {len(getattr(jobs, name)) for name in SlurmJobs.__slots__ if name != "warnings"} == {len(jobs)}
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert (jobs.eligible_s >= jobs.submit_s).all()
    for name in ("limit_s", "cpus", "nodes", "cpus_per_node", "min_nodes"):
        assert (getattr(jobs, name) >= 1).all(), name
    assert (jobs.run_s >= 0).all()
    assert ((jobs.memory_per_cpu_mb == 0) | (jobs.memory_per_node_mb == 0)).all()
