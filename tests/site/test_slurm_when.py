"""When jobs of a site's Slurm start: its state as Slurm prints it, forks of the model, and intervals."""

import csv
import gzip
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError, WorkloadError
from batfill_site.slurm.arrays import with_usage_at
from batfill_site.slurm.conf import read_site
from batfill_site.slurm.now import read_now
from batfill_site.slurm.when import WHY, machine_of, past_of
from batfill_site.starts.forecast import calibrated, estimated, quantile_of
from command import batfill

OWN = Path(__file__).parents[1] / "data" / "slurm" / "own-b"
CONF, ACCOUNTS = OWN / "slurm.conf", OWN / "accounts.txt"
HEAD = (
    "JobID|User|Account|Partition|QOS|Submit|Eligible|Reason|Start|End|TimelimitRaw|AllocCPUS|ReqCPUS|NNodes|ReqTRES|"
    "AllocTRES|ReqMem|Constraints|State|NodeList|Reservation|SubmitLine"
)
BLOCK = """\
JobId={id} {array}JobName=a JobId=7
   UserId={user}(1000) GroupId=x(1000) MCS_label=N/A
   Priority=100 Nice={nice} Account={account} QOS=normal
   JobState={state} Reason={reason} Dependency=(null)
   RunTime={ran} TimeLimit={limit} TimeMin=N/A
   SubmitTime={submit} EligibleTime={eligible}
   StartTime={start} EndTime=Unknown Deadline=N/A
   Partition={partition} AllocNode:Sid=x:1
   ReqNodeList={required} ExcNodeList={excluded}
   NodeList={at}
   NumNodes={nodes} NumCPUs={cpus} NumTasks={tasks} CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES={tres}
   AllocTRES=(null)
   MinCPUsNode=1 MinMemory{memory} MinTmpDiskNode=0
   Features={features} DelayBoot=00:00:00
   OverSubscribe={shared} Contiguous=0 Licenses={licenses} Network=(null)
   Command=/tmp/x Features=lie
"""
USUAL = {
    "array": "", "user": "ann", "account": "physics", "nice": 0, "state": "PENDING", "reason": "Priority", "at": "",
    "ran": "00:00:00", "limit": "00:10:00", "start": "Unknown", "partition": "main", "nodes": "1-1", "cpus": 1,
    "memory": "Node=0", "features": "(null)", "shared": "OK",
    "required": "(null)", "excluded": "(null)", "licenses": "(null)",
    "submit": 1_795_720_935, "eligible": 1_795_720_935,
}  # fmt: skip


def block(name, **given):
    tasks = str(given.get("cpus", 1)).partition("-")[0]
    nodes = str(given.get("nodes", 1)).partition("-")[0]
    tres = f"cpu={tasks},node={nodes},billing={tasks}"
    return BLOCK.format(**USUAL | {"id": name, "tasks": tasks, "tres": tres} | given)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What Slurm would have printed at the 100th submission of the real run, in both forms, and of what had ended."""
    folder = tmp_path_factory.mktemp("state")
    with gzip.open(OWN / "jobs.csv.gz", "rt") as content:
        rows = list(csv.DictReader(content))
    places = [line.split("|")[-1] for line in (OWN / "sacct.txt").read_text().splitlines()[1:]]
    at_s, blocks, live, past = float(rows[99]["subms"]), [], [HEAD], [HEAD]
    for row, at in zip(rows, places, strict=True):
        submit_s, start_s, end_s = (int(float(row[name])) for name in ("subms", "startms", "endms"))
        state = "COMPLETED" if end_s <= at_s else "RUNNING" if start_s <= at_s else "PENDING"
        if submit_s > at_s:
            continue
        start, at, reason = (start_s, at, "None") if state != "PENDING" else ("Unknown", "None assigned", "Priority")
        tres, n, minutes = f"cpu={row['n']},node={row['n']},billing={row['n']}", row["n"], int(row["lim"]) // 60
        line = [row["id"], row["user"], row["acct"], "main", "normal", submit_s, submit_s, reason, start]
        line += [end_s if state == "COMPLETED" else "Unknown", minutes, n if state != "PENDING" else 0, n, n, tres]
        line += [tres if state != "PENDING" else "", "0", "", state, at, "", f"sbatch -N {n} --wrap=x"]
        (past if state == "COMPLETED" else live).append("|".join(map(str, line)))
        if state != "COMPLETED":
            given = {"user": row["user"], "account": row["acct"], "state": state, "reason": reason, "start": start}
            given |= {
                "at": at if state == "RUNNING" else "",
                "nodes": f"{n}-{n}" if state == "PENDING" else n,
                "cpus": n,
                "submit": submit_s,
            }
            given |= {"ran": f"00:00:{int(at_s) - start_s:02}" if state == "RUNNING" else "00:00:00"}
            blocks.append(block(row["id"], **given, eligible=submit_s, limit=f"00:{minutes:02}:00"))
    for name, text in (("scontrol", "\n".join(blocks)), ("sacct", "\n".join(live)), ("past", "\n".join(past))):
        (folder / f"{name}.txt").write_text(text + "\n")
    (folder / "whole.txt").write_text("\n".join([*live, *past[1:]]) + "\n")
    return folder


def test_scontrol_and_sacct_say_the_same(printed):
    site = read_site(CONF)
    past = [printed / "past.txt"]
    one, other, whole = (
        read_now(printed / name, files, site)
        for name, files in (("scontrol.txt", past), ("sacct.txt", past), ("whole.txt", []))
    )
    for field in fields(one.jobs):
        if field.name != "warnings":
            for left in (one, other):
                np.testing.assert_array_equal(getattr(left.jobs, field.name), getattr(whole.jobs, field.name))
    np.testing.assert_array_equal(one.end_s, whole.end_s)
    assert one.now_s == whole.now_s == 1_795_721_409
    waits = np.isnan(one.jobs.started_s)
    assert (len(waits), waits.sum(), (~waits & np.isnan(one.end_s)).sum()) == (100, 26, 2)
    assert {one.reasons[row] for row in np.flatnonzero(waits)} == {"Priority"}


def read(tmp_path, *blocks, conf=CONF, **how):
    path = tmp_path / "state.txt"
    path.write_text("\n".join(blocks))
    return read_now(path, [], read_site(conf), **how)


def test_each_field_of_scontrol_is_read(tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=n[1-4] CPUs=8 RealMemory=64000 Feature=IB\nPartitionName=main Nodes=ALL\n")
    now = read(
        tmp_path,
        block(1, state="RUNNING", start=1_795_720_940, ran="00:01:30", at="n[1-2]", nodes=2, cpus=8, reason="None"),
        block("9", array="ArrayJobId=8 ArrayTaskId=1-2,5%2 ", memory="CPU=2000M", cpus="4-8", nice=50),
        block(10, features="IB", memory="Node=16G", shared="NO", partition="main,other", limit="1-00:00:00"),
        block(11, tres="cpu=2,mem=8G,node=1,gres/gpu=2", reason="Resources", eligible=1_795_799_999),
        block(12, cpus=6, nodes=1, required="n1", excluded="n[3-4]"),
        conf=conf,
    )
    jobs = now.jobs
    assert jobs.ids == ("1", "8_1", "8_2", "8_5", "10", "12")  # no node has GPUs
    assert now.left_out == {"11": "can never start"}
    assert now.now_s == 1_795_721_030
    assert jobs.nodes.tolist() == [2, 1, 1, 1, 1, 1]
    assert jobs.max_nodes.tolist() == [2, 1, 1, 1, 1, 0]  # without -N, scontrol gives no range
    assert jobs.cpus.tolist() == [8, 4, 4, 4, 1, 6]
    assert jobs.memory_per_cpu_mb.tolist() == [0, 2000, 2000, 2000, 0, 0]
    assert jobs.memory_per_node_mb.tolist() == [0, 0, 0, 0, 16384, 0]
    assert jobs.memory_unsaid.tolist() == [True, False, False, False, False, True]
    assert jobs.nice.tolist() == [0, 50, 50, 50, 0, 0]
    assert jobs.limit_s.tolist() == [600, 600, 600, 600, 86400, 600]
    assert jobs.exclusive.tolist() == [False] * 4 + [True, False]
    assert jobs.partitions == ("", "", "", "", "main,other", "")
    assert (jobs.required[5], jobs.excluded[5]) == ("n1", "n[3-4]")
    assert (jobs.constraint[4], jobs.partition[4], jobs.ran_on[0]) == ("IB", "main", "n[1-2]")
    assert set(jobs.user) == {"ann"}
    assert jobs.run_s[0] == 90


def test_jobs_that_wait_for_what_is_not_modelled_are_left_out(tmp_path):
    blocks = [block(1, reason="ReqNodeNotAvail,_UnavailableNodes:n1"), block(2, reason="Dependency"), block(3)]
    blocks.append(block(5, array="ArrayJobId=5 ArrayTaskId=1,3,... "))
    now = read(tmp_path, *blocks, block(4, reason="QOSMaxCpuPerUserLimit"))
    assert now.left_out == {
        "1": "ReqNodeNotAvail,_UnavailableNodes:n1",
        "2": "Dependency",
        "5_[1,3,...]": "not each task of the array is named (scontrol: set SLURM_BITSTR_LEN=0; squeue: -r)",
    }
    assert [now.jobs.ids[row] for row in past_of(now.jobs, now.end_s, now.now_s).alive] == ["3", "4"]
    done = batfill("when", tmp_path / "state.txt", "2", "--slurm-conf", CONF)
    assert done.err.splitlines()[-1].endswith("state.txt: job 2 is left out: Dependency")


def test_bad_states_are_refused_in_one_line(tmp_path):
    for bad in (["JOBID PARTITION NAME", "1 main a"], [block(1, state="COMPLETED")], [block(1, partition="gone")]):
        with pytest.raises(WorkloadError):
            read(tmp_path, *bad)
    for at, why in ((1_795_720_000, "is too early; the last date in the file is 2026-11-26T"), ("noon", "is no date")):
        with pytest.raises(WorkloadError, match=why):
            read(tmp_path, block(1), at=at)
    assert read(tmp_path, block(1), at="2026-11-26T21:00:00", timezone="Europe/Paris").now_s == 1_795_723_200


def test_a_job_with_a_begin_time_waits_for_that_and_not_for_nodes(tmp_path):
    (tmp_path / "slurm.conf").write_text("NodeName=n1 CPUs=4\nPartitionName=main Nodes=ALL\n")
    later = block(1, cpus=4, eligible=1_795_720_940 + 7200, reason="BeginTime")
    (tmp_path / "state.txt").write_text("\n".join([later, block(2, cpus=4)]))
    found = bf.when(tmp_path / "state.txt", slurm_conf=tmp_path / "slurm.conf", at=1_795_720_940, forks=3)
    assert found["start_s"].tolist()[0] >= found.now_s + 7200
    assert found["why"][0].startswith("Slurm: BeginTime. The model: it may not start before 21:22, its begin time; pl")
    assert found["why"][1].endswith("The model: it would start at once")


def test_a_job_is_expected_when_the_running_one_is_likely_to_end(tmp_path):
    conf, past = tmp_path / "slurm.conf", tmp_path / "past.txt"
    conf.write_text("NodeName=n1 CPUs=4\nPartitionName=main Nodes=ALL\n")
    now_s = 1_795_800_000
    ended = [
        f"{k}|ann|a|main|normal|{s}|{s}||{s}|{s + 600}|60|4|4|1||||"
        for k, s in enumerate(range(1_795_720_000, 1_795_750_000, 1000), 1)
    ]
    past.write_text("\n".join([HEAD, *(line + "|COMPLETED|n1||" for line in ended)]) + "\n")
    runs = block(
        98, state="RUNNING", start=now_s - 100, ran="00:01:40", at="n1", cpus=4, limit="01:00:00", reason="None"
    )
    waits = block(99, cpus=4, submit=now_s - 50, eligible=now_s - 50, limit="01:00:00")
    (tmp_path / "state.txt").write_text(f"{runs}\n{waits}")
    soon = bf.when(tmp_path / "state.txt", slurm_conf=conf, past=past)
    assert (len(soon), soon.waiting, soon.size) == (1, 1, 4)
    row = soon[0]
    assert abs(row["start_s"] - (soon.now_s + 500)) < 90  # 600 s after its start, as all before
    assert row["from_s"] <= row["start_s"] <= row["to_s"]
    slurm, ours = row["why"].split(". The model: ")
    assert slurm.endswith("(Priority)")
    assert ours.startswith("what it needs is not free, whoever else waits (Resources); planned by ")
    assert ours.endswith(" if all run to their limits, on node n1; job 98 runs there now")
    conf.write_text(conf.read_text() + "PriorityType=priority/multifactor\nPriorityWeightFairshare=10000\n")
    other = waits.replace("JobId=99 ", "JobId=100 ").replace("UserId=ann", "UserId=ben")
    text = f"{runs.replace('UserId=ann', 'UserId=cid')}\n{waits}\n{other}".replace("Account=physics", "Account=a")
    (tmp_path / "state.txt").write_text(text)
    ann, ben = bf.when(tmp_path / "state.txt", slurm_conf=conf, past=past)["start_s"]
    assert ben < ann  # who has used all that was used


def test_the_command_and_python_give_one_answer(printed):
    state, past = printed / "scontrol.txt", printed / "past.txt"
    words = ("when", state, "--slurm-conf", CONF, "--accounts", ACCOUNTS, "--past", past, "--forks", "5")
    done = batfill(*words, "--json")
    soon = bf.when(state, slurm_conf=CONF, accounts=[ACCOUNTS], past=past, forks=5)
    assert json.loads(done.out) == json.loads(soon.as_json())
    assert (soon.waiting, len(soon), soon.is_calibrated) == (26, 26, True)
    assert "Made with the site's Slurm as configured" in " ".join(soon.as_text(details=True).split())
    one = batfill(*words, "25")
    assert one.out.startswith("scontrol.txt: 26 waiting jobs on 32 processors at 2026")
    assert "Assumed: Slurm 22.05: give --slurm-version if it is another." in one.out.splitlines()
    assert "Job 25 is expected to start at" in one.out
    uncalibrated = bf.when(state, slurm_conf=CONF, forks=5)
    assert "perhaps between" in uncalibrated.as_text()


@pytest.mark.parametrize("given", [{"policy": "saf"}, {"procs": 4}])
def test_options_of_one_pool_are_refused(printed, given):
    with pytest.raises(BatfillError, match="belongs to one pool"):
        bf.when(printed / "scontrol.txt", slurm_conf=CONF, **given)
    with pytest.raises(BatfillError, match="past: it belongs to a site's Slurm"):
        bf.when(printed / "scontrol.txt", past=printed / "past.txt")
    with pytest.raises(BatfillError, match="a file of what Slurm prints"):
        bf.when([], slurm_conf=CONF)


def test_usage_decays_as_the_ticks_of_the_model_make_it(printed):
    site = read_site(CONF, accounts=[ACCOUNTS])
    now = read_now(printed / "whole.txt", [], site)
    d, at_s, jobs = 1 - 0.693 / 300, 1_795_721_300.0, now.jobs
    slow = dict.fromkeys(set(jobs.user), 0.0)
    for row in range(len(jobs)):
        if jobs.started_s[row] < at_s:
            seconds = np.arange(jobs.started_s[row], min(jobs.started_s[row] + jobs.run_s[row], at_s)) + 0.5
            slow[jobs.user[row]] += jobs.cpus[row] * float((d ** (at_s - seconds)).sum())
    found = {each.user: each.usage for each in with_usage_at(site, jobs, at_s).associations if each.user in slow}
    assert found == pytest.approx(slow, rel=1e-3)


def test_starts_that_are_not_known_yet_count_as_later():
    known = np.array([True] * 9 + [False])
    assert quantile_of(np.arange(10.0), known) == 8
    assert quantile_of(np.arange(10.0), ~known) == 9
    assert quantile_of(np.arange(10.0), known | True) == 8
    early = np.array([False] * 5 + [True] * 5)
    assert quantile_of(np.arange(10.0), early) == 9


def test_a_forecast_reads_nothing_that_comes_later(printed):
    site = read_site(CONF, accounts=[ACCOUNTS])
    now = read_now(printed / "whole.txt", [], site)
    found = []
    for later in (0.0, 5000.0):
        end_s = np.where(np.isnan(now.end_s), now.now_s + later + 1, now.end_s)  # which is not known at that instant
        past, machine = past_of(now.jobs, end_s, now.now_s), machine_of(site, now.jobs, now.now_s)
        widened, starts = calibrated(past, machine, 5, 0)
        assert starts > 20
        found.append(estimated(past, machine, 5, 0, widened))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


QUEUED = [  # as asked, and as scontrol shows it
    ("nodes=4,time=10min,user=ann", {"nodes": "4-4", "cpus": 4}),
    ("procs=6,time=5min,user=ben", {"nodes": 1, "cpus": 6, "user": "ben", "limit": "00:05:00"}),
    ("ntasks=2,time=1:00:00,user=dot,account=biology,nice=50,nodelist=cb[03-04]",
     {"nodes": 1, "cpus": 2, "user": "dot", "account": "biology", "limit": "01:00:00", "nice": 50,
      "required": "cb[03-04]"}),
    ("nodes=2,mem=500,exclusive=yes,time=0-0:10,user=ann,exclude=cb01,partition=main",
     {"nodes": "2-2", "cpus": 2, "memory": "Node=500M", "shared": "NO", "excluded": "cb01"}),
]  # fmt: skip


def test_a_job_asked_about_is_expected_as_if_it_were_queued(printed, tmp_path):
    state, site = printed / "scontrol.txt", {"slurm_conf": CONF, "accounts": [ACCOUNTS], "past": printed / "past.txt"}
    at = read_now(state, [], read_site(CONF)).now_s
    asked = bf.when(state, submit=[text for text, _ in QUEUED], forks=5, at=at, **site)
    for row, (_, shown) in zip(asked, QUEUED, strict=True):
        text = block(9999, **{"submit": int(at), "eligible": int(at)} | shown)
        (tmp_path / "state.txt").write_text(f"{state.read_text()}\n{text}")
        one = bf.when(tmp_path / "state.txt", "9999", forks=5, at=at, **site)[0]
        names = ("procs", "requested_s", "submit_s", "start_s", "from_s", "to_s")
        assert [row[name] for name in names] == [one[name] for name in names]
        assert one["why"] == f"Slurm: {WHY['Priority']}. The model: {row['why']}"


NEVER = [
    ("nodes=9,time=1h", "need more nodes than their partition has or allows, at most 4"),
    ("gpus-per-node=3,time=1h", "GPUs that they need"),
    ("procs=40,nodes=4,time=1h", "have too few CPUs"),
    ("procs=1,time=1-1", "allows (MaxTime, MaxWall), at most 1 d"),
]
UNREADABLE = [
    ("nodes=x,time=1h", "has 'x' processors"),
    ("nodes=1,time=1h,partition=gpuu", "did you mean 'gpu'"),
    ("nodes=1,time=1h,qos=urgent", "known: normal"),
    ("nodes=1,time=nan", "requests 'nan'; give 30min"),
    ("nodes=1,time=20mo", "requests '20mo', where 'mo' is no unit; give 30min"),
    ("nodes=1,time=2h30MO", "where 'MO' is no unit; give 30min"),
    ("nodes=1,time=1e3", "requests '1e3' without a unit; give 30min"),
    ("nodes=1,time=-5h", "requests '-5h'; give 30min"),
    ("gpus=two,time=1h", "give it as 2 or a100:2"),
    ("mem=lots,time=1h", "give it as 16G"),
    ("nodelist=n[1,time=1h", "is no list of nodes"),
    ("cores=4,time=1h", "'cores' is unknown"),
    ("exclusive=no,time=1h", "give it as yes"),
    ("time=1h", "no partition is the default; add partition=gpu"),
]


@pytest.fixture
def small(tmp_path):
    """A function that says when jobs would start at a site of four nodes, two of them with GPUs."""
    (tmp_path / "slurm.conf").write_text(
        "NodeName=n[1-2] CPUs=8 Gres=gpu:2\nNodeName=n[3-4] CPUs=8\nGresTypes=gpu\nAccountingStorageEnforce=limits\n"
        "PartitionName=gpu Nodes=n[1-2] MaxTime=1-0\nPartitionName=all Nodes=ALL MaxTime=1-0 Default=DEFAULT\n"
    )
    (tmp_path / "qos.txt").write_text("Name|Priority|MaxTRESPU\nnormal|0|cpu=16\n")
    runs = {"state": "RUNNING", "start": 1_795_720_940, "ran": "00:01:30", "reason": "None", "limit": "02:00:00"}
    blocks = [
        block(1, **runs, partition="gpu", at="n1", cpus=8, user="bob"),
        block(2, partition="gpu", nodes="2-2", cpus=16, user="eve", limit="08:00:00"),
        block(3, **runs, partition="all", at="n3", cpus=8, user="cid"),
        block(4, partition="all", nodes="9-9", cpus=72, user="eve"),
    ]
    (tmp_path / "state.txt").write_text("\n".join(blocks))

    def ask(*texts, default="YES"):
        conf = tmp_path / "slurm.conf"
        conf.write_text(conf.read_text().replace("DEFAULT", default))
        given = {"slurm_conf": conf, "accounts": [tmp_path / "qos.txt"]}
        return bf.when(tmp_path / "state.txt", submit=texts, forks=3, **given)

    return ask


def test_the_reason_of_a_job_asked_about_is_what_would_have_to_go(small):
    asked = small(
        "procs=8,time=1h,user=ann", "nodes=2,procs=16,partition=gpu,time=1h,user=dot,account=a",
        "procs=12,time=1h,user=cid", "nodes=4,time=1h,user=dot",
        "procs=2,time=10:00:00,partition=gpu,gpus=1,user=ann", "nodes=9,time=1h",
    )  # fmt: skip
    now, full, limit, above, first, never = asked["why"]
    assert now == "it would start at once"
    assert "(Resources); planned by " in full
    assert full.endswith("on nodes n1 and n2; job 1 runs there now; 1 waiting job there before it")
    assert "at a limit" in limit
    assert above == "its user, account or QOS is at a limit, or it asks for more than that"  # it takes whole nodes
    assert "(Priority); planned by " in first
    assert never.startswith("never: for jobs like it, they need more nodes")
    assert (asked["start_s"][0] - asked.now_s < 60, np.isinf(asked["start_s"][5])) == (True, True)
    assert asked["start_s"][[2, 4]].min() > asked.now_s + 300
    assert "a user who has no jobs here, for procs=8,time=1h,user=ann and nodes=2" in asked.assumed
    both = small("procs=2,time=1h,user=ann", "nodes=9,time=1h", "procs=1,time=1h,user=dot").answer()
    assert both.screen.headline.endswith(
        "user=ann and procs=1,time=1h,user=dot** are expected to start first, at 19:23"
    )
    assert (both.cautions, both.screen.lines["Left out"]) == ([], "1 job: can never start (1).")


@pytest.mark.parametrize(("text", "said"), [*NEVER, *UNREADABLE])
def test_a_job_that_cannot_be_asked_about_is_refused_in_one_line(small, text, said):
    with pytest.raises(BatfillError, match=r"^option submit: ") as raised:
        small(text, default="NO" if text == "time=1h" else "YES")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_job_that_waits_for_licences_that_the_site_has_is_one_of_the_queue(tmp_path):
    conf, state = tmp_path / "slurm.conf", tmp_path / "state.txt"
    conf.write_text(CONF.read_text() + "Licenses=fluent:2\n")
    runs = {"state": "RUNNING", "ran": "00:01:00", "start": USUAL["submit"], "at": "cb01", "nodes": 1}
    blocks = [block("1", licenses="fluent:2", reason="None", **runs), block("2", licenses="fluent", reason="Licenses")]
    state.write_text("\n".join([*blocks, block("3", reason="Licenses")]) + "\n")
    now = read_now(state, [], read_site(conf))
    assert (now.jobs.licenses[:2], dict(now.left_out)) == (("fluent=2", "fluent=1"), {"3": "Licenses"})
