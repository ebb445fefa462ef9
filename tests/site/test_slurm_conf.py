"""What is read of a site's Slurm: slurm.conf, the files beside it, its accounts, and changes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill_site.slurm.accounts import read_accounts
from batfill_site.slurm.conf import files_of, gres, read_site
from batfill_site.slurm.hosts import by_name, expand
from batfill_site.slurm.site import Association, Leaf, Limits, Node, Partition, Qos
from batfill_site.slurm.what_if import add_nodes, apply
from command import batfill
from sweeps import examples

DATA = Path(__file__).parents[1] / "data" / "slurm"
TYPES = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nPriorityType=priority/multifactor\n"
SMALL = TYPES + "NodeName=n[1-2] CPUs=4 RealMemory=1000\nPartitionName=a Nodes=ALL\n"


@pytest.fixture
def written(tmp_path):
    def write(text, name="slurm.conf"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.fixture
def site_of(written):
    def read(text, **how):
        return read_site(written(text), **how)

    return read


def refused(call, *arguments, **named):
    """The one line that refuses it."""
    with pytest.raises(WorkloadError) as error:
        call(*arguments, **named)
    line = error.value.on_command_line
    assert "\n" not in line
    return line


# Lists of nodes


def test_a_list_of_nodes_has_these_names():
    lists = {"g1": "g1", "cb[01-03,09]": "cb01 cb02 cb03 cb09", "n[1-2]x[3-4]": "n1x3 n1x4 n2x3 n2x4"}
    lists["n[9-10], b[099-101]-ib\tc"] = "n9 n10 b099-ib b100-ib b101-ib c"
    assert {text: " ".join(expand(text)) for text in lists} == lists


@pytest.mark.parametrize(
    "text", ["", ",", "n[1-", "n[]", "n[a-b]", "n[3-1]", "n]1[", "n[1-2-3]", "n[1-9999999]", "n[1-2000]x[1-2000]"]
)
def test_what_is_no_list_of_nodes_is_refused(text):
    assert f"{text!r} is no list of nodes such as n[01-16,20],g1" in refused(expand, text)


def test_nodes_are_in_the_order_of_the_numbers_in_their_names_however_long():
    names = ["a", "n", "n0", "n02", "n10", "n10-2", "n10-10", "n" + "1" * 5000, "n" + "2" * 5000]
    assert sorted(names[1::2] + names[::2], key=by_name) == names


# slurm.conf


@pytest.mark.parametrize(("run", "multifactor", "half_life_s"), [("own-a", False, 7 * 86400.0), ("own-b", True, 300.0)])
def test_the_configurations_of_two_real_runs_are_read(run, multifactor, half_life_s):
    site = read_site(DATA / run / "slurm.conf")
    nodes = expand(f"c{run[-1]}[01-32]")
    assert site.nodes == tuple(Node(name, 1, 1000) for name in nodes)
    assert site.partitions == (Partition("main", tuple(nodes), default=True),)
    assert (site.settings.multifactor, site.settings.half_life_s) == (multifactor, half_life_s)
    assert not site.settings.memory
    assert site.settings.bf_max_job_test == 500
    assert site.switches == ()
    weights = {name: getattr(site.settings, f"weight_{name}") for name in ("age", "fairshare", "job_size", "qos")}
    assert weights == dict(zip(weights, (1000, 5000, 500, 0) if multifactor else (0,) * 4, strict=True))
    assert [warning.partition("slurm.conf: ")[2] for warning in site.warnings] == [
        "without effect in the model: KillWait, AccountingStorageType, AccountingStoreFlags, SlurmdParameters"
    ]


def test_nodes_have_what_their_lines_and_the_default_lines_before_them_say(site_of):
    site = site_of(
        "nodename=DEFAULT Procs=8 RealMemory=4000 Weight=3  # a comment\n"
        "NodeName=n[10,2] Feature=IB,big(1) \\\n   State=UNKNOWN Gres=gpu:a100:4(S:0-1),nvme:2\n"
        "NodeName=DEFAULT RealMemory=100\n"
        "NodeName=m1 Features=IB Gres=gpu:no_consume:2 NodeAddr=m1.site MemSpecLimit=10 CoreSpecCount=1\n"
        "NodeName=m2 Gres=gpu:a:1,gpu:b:2\nNodeName=m3 State=DRAIN\nDownNodes=m4 State=FAIL\nNodeName=m4\n"
        "NodeSet=fast Nodes=m2 Feature=big\n"
        "PartitionName=DEFAULT MaxTime=1-0 OverSubscribe=EXCLUSIVE DefMemPerNode=50 PreemptMode=OFF\n"
        'PartitionName=a Nodes=fast,m3 MaxTime=INFINITE TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=2"\n'
        "PartitionName=b Nodes=ALL MaxNodes=4 TRESBillingWeights= DefaultTime=30 Shared=NO QOS=High MaxCPUsPerNode=3\n"
        "DefMemPerCPU=7\nPartitionName=c Nodes=n2 PriorityTier=5 State=DOWN DefMemPerCPU=9\n" + TYPES
    )
    big = frozenset(("IB", "big"))
    assert site.nodes == (
        Node("m1", 7, 90, 2, "", frozenset(("IB",)), 3),
        Node("m2", 8, 100, 3, "", frozenset(), 3),
        Node("n2", 8, 4000, 4, "a100", big, 3),
        Node("n10", 8, 4000, 4, "a100", big, 3),
    )
    a, b, c = site.partitions
    assert (a.nodes, a.max_time_s, a.exclusive) == (("m2", "n2", "n10"), None, True)
    assert a.billing == {"cpu": 1.0, "mem": 0.25 / 1024, "gres/gpu": 2.0}
    assert (b.max_time_s, b.max_nodes, b.exclusive, b.qos) == (86400, 4, False, "high")
    assert (c.tier, c.nodes) == (5, ("n2",))
    text = "\n".join(site.warnings)
    for said in (
        "nodes that are down, left out: m3, m4",
        "nodes with several types of GPUs, which count as one: m2",
    ):
        assert said in text
    assert list(map(str, site.named)) == ["MaxCPUsPerNode=3 (partition b)", "State=DOWN (partition c)"]


def test_a_nodes_cpus_are_the_product_of_its_parts_unless_they_are_given(site_of):
    parts = "Boards=2 SocketsPerBoard=2 CoresPerSocket=6 ThreadsPerCore=2"
    site = site_of(f"NodeName=a {parts}\nNodeName=b {parts} CPUs=24\nNodeName=c\nPartitionName=p Nodes=ALL\n")
    assert [node.cpus for node in site.nodes] == [48, 24, 1]


def test_a_nodes_cpus_and_memory_lack_what_is_kept_for_the_system(site_of):
    core = "CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"
    cpus = {
        f"{core} CoreSpecCount=1": 14,
        f"{core} CpuSpecList=0,2-3": 12,  # with the other CPUs of the cores
        f"{core} CpuSpecList=15": 14,
        "CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CoreSpecCount=1": 7,  # a CPU is a core
        "CPUs=8 CoreSpecCount=2": 6,
        "CPUs=8 CpuSpecList=0-1,7": 5,
        "CPUs=8 CpuSpecList=0-7": 1,
        "CPUs=0 ThreadsPerCore=0 CoreSpecCount=1": 1,
    }
    text = "".join(f"NodeName=n{i} RealMemory=1000 MemSpecLimit=100 {line}\n" for i, line in enumerate(cpus))
    site = site_of(text + "PartitionName=p Nodes=ALL\n")
    assert dict(zip(cpus, (node.cpus for node in site.nodes), strict=True)) == cpus
    assert {node.memory_mb for node in site.nodes} == {900}


def test_priority_of_a_partition_is_its_tier_and_its_factor_unless_they_are_given(site_of):
    lines = {
        "Priority=7": (7, 7),
        "Priority=7 PriorityTier=3": (3, 7),
        "PriorityJobFactor=2 Priority=7": (7, 2),
        "": (1, 1),
    }
    names = dict(enumerate(lines))
    text = "".join(f"PartitionName=p{i} Nodes=n1 {line}\n" for i, line in names.items())
    site = site_of(SMALL + text + "PartitionName=DEFAULT Priority=5\nPartitionName=late Nodes=n1 PriorityTier=9\n")
    found = {each.name: (each.tier, each.job_factor) for each in site.partitions}
    assert found == {f"p{i}": lines[line] for i, line in names.items()} | {"a": (1, 1), "late": (9, 5)}
    new = apply(site, ["partition.a.Priority=4"]).partition_of["a"]
    assert (new.tier, new.job_factor) == (4, 4)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("gpu:2", {("gpu", ""): 2}),
        ("gpu", {("gpu", ""): 1}),
        ("gpu:3090", {("gpu", ""): 3090}),
        ("gpu:3090:4,gpu:2080ti:4", {("gpu", "3090"): 4, ("gpu", "2080ti"): 4}),
        ("gpu:ampere:6(S:0-1),gpu:1g.10gb:28(S:0-1)", {("gpu", "ampere"): 6, ("gpu", "1g.10gb"): 28}),
        ("gpu:1g.5gb,gpu:a100:no_consume:2", {("gpu", "1g.5gb"): 1, ("gpu", "a100"): 2}),
        ("gpu:nvidia_a100-sxm4-40gb:8", {("gpu", "nvidia_a100-sxm4-40gb"): 8}),
        ("GPU:tesla:2,bandwidth:lustre:no_consume:4G", {("gpu", "tesla"): 2, ("bandwidth", "lustre"): 4 * 1024**3}),
        ("local:2T,fast-disk:1K,x:1p", {("local", ""): 2 * 1024**4, ("fast-disk", ""): 1024, ("x", ""): 1024**5}),
    ],
)
def test_generic_resources_have_a_name_perhaps_a_type_and_a_number(text, amounts):
    assert gres(text) == amounts


def test_the_version_that_is_assumed_is_the_last_that_has_all_options(site_of):
    conf = SMALL + "{}\n"
    assumed = {
        "": ((22, 5), "Slurm 22.05: give --slurm-version if it is another"),
        "FastSchedule=1\nCheckpointType=checkpoint/none": ((19, 5), "Slurm 19.05, the last with CheckpointType: give"),
        "FASTSCHEDULE=1\nCryptoType=crypto/munge": ((18, 8), "Slurm 18.08, the last with CryptoType: give"),
        "AccountingStoreJobComment=NO": ((20, 11), "Slurm 20.11, the last with AccountingStoreJobComment: give"),
    }
    for text, (version, said) in assumed.items():
        site = site_of(conf.format(text))
        assert (site.settings.version, site.assumed[: len(said)]) == (version, said)
        given = site_of(conf.format(text), slurm_version="23.02")
        assert (given.settings.version, given.assumed, given.supposed) == ((23, 2), "", ())
    assert site_of(SMALL + "CryptoType=crypto/munge\n").settings.fair_tree is False


def test_options_are_read_with_their_units(site_of):
    site = site_of(
        SMALL + "PriorityDecayHalfLife=0-5\nPRIORITYMAXAGE = 00:05:00\nPriorityCalcPeriod=1\nPriorityFavorSmall=True\n"
        "PriorityWeightTRES=CPU=1000,Mem=2000\nPriorityFlags=ACCRUE_ALWAYS,NO_FAIR_TREE,INCR_ONLY\n"
        "SchedulerParameters==bf_max_job_user=20,bf_window=4320,max_job_bf=7,defer,bf_continue,bf_busy_nodes,bf_window_linear=3,odd=1\n"
        "SuspendTime=INFINITE\nPreemptType=preempt/none\nPreemptMode=OFF\nLicenses=\nSlurmctldDebug=3\nSelectTypeX=1\n"
    )
    had = site.settings
    assert (had.half_life_s, had.max_age_s, had.calc_period_s, had.favor_small) == (18000, 300, 60, True)
    assert (had.weight_tres, had.accrue_always, had.fair_tree) == ({"cpu": 1000, "mem": 2000}, True, False)
    assert (had.bf_max_job_user, had.bf_window_s, had.bf_max_job_test, had.defer) == (20, 259200, 7, True)
    assert had.bf_window_linear_s == 3
    assert list(map(str, site.named)) == ["incr_only", "bf_busy_nodes"]
    assert [warning.partition("slurm.conf: ")[2] for warning in site.warnings] == [
        "without effect in the model: bf_continue, odd, SlurmctldDebug, SelectTypeX",
    ]


@pytest.mark.parametrize(
    ("version", "default"),
    [("17.11", (False, 100, False, True)), ("19.05", (True, 100, False, True)), ("24.05", (True, 500, True, False))],
)
def test_defaults_are_those_of_the_version(site_of, version, default):
    site = site_of("NodeName=a\nPartitionName=p Nodes=a\n", slurm_version=version)
    had = site.settings
    assert (had.fair_tree, had.bf_max_job_test, had.multifactor, not had.memory) == default
    assert had.memory != had.whole_nodes
    assert "not given, taken as Slurm's default: PriorityType, SelectType, SelectTypeParameters" in site.warnings[0]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("PreemptType=preempt/tiers", "PreemptType=preempt/tiers is not one of preempt/none, preempt/partition_prio"),
        ("PreemptMode=REQUEUE,CANCEL", "PreemptMode=REQUEUE,CANCEL is not OFF, CANCEL, REQUEUE or SUSPEND,GANG"),
        ("PreemptMode=SUSPEND", "PreemptMode=SUSPEND is not OFF, CANCEL, REQUEUE or SUSPEND,GANG"),
        ("PreemptExemptTime=soon", "PreemptExemptTime=soon is not a duration from 0 s on"),
        ("AuthInfo=cred_expire=soon", "AuthInfo=cred_expire=soon is not a whole number from 0 on"),
        ("PartitionName=b Nodes=n1 GraceTime=long", "GraceTime=long is not a number of seconds, such as 30"),
        ("PartitionName=b Nodes=n1 OverSubscribe=SOME:2", "OverSubscribe=SOME:2 is not one of EXCLUSIVE, NO, YES:1"),
        ("NodeName=m[1-99999]", "the site has more than 100,000 nodes; correct its lists"),
        ("NodeName=m CpuSpecList=0-", "CpuSpecList=0- is not a list of CPUs such as 0-1,16"),
        ("PartitionName=b Nodes=n1 Priority=high", "Priority=high is not a whole number from 0 on"),
        (f"Include {'a' * 5000}", "aaa, which it includes, does not exist"),
        ("PartitionName=b Nodes=n[2-4]", "partition b has n3, n4, which no NodeName line has"),
        ("SchedulerParameters=bf_interval=-2", "bf_interval=-2 is not a whole number from 1 on"),
        ("Licenses=fluent:some", "Licenses=fluent:some is not a whole number from 0 on"),
        ("PriorityWeightTRES=cpu", "is not a list such as cpu=1000"),
        ("NodeName=m Gres=gpu:a:b:c", "is not a list such as gpu:2"),
        ("Include more.conf", "more.conf, which it includes, does not exist"),
        ("Include slurm.conf", "includes itself"),
        ("A stray word", "'A stray word' is not NAME=VALUE"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line_with_its_place(written, line, wrong):
    path = written(SMALL + line + "\n")
    text = refused(read_site, path)
    assert text.startswith(f"{path}:{SMALL.count(chr(10)) + 1}: ")
    assert wrong in text


def test_a_file_without_nodes_or_partitions_is_refused(written):
    assert "it has no nodes" in refused(read_site, written(TYPES))
    assert "it has no partitions" in refused(read_site, written("NodeName=a\n"))
    assert "missing.conf" in refused(read_site, written("").with_name("missing.conf"))


@pytest.mark.parametrize("line", ["CPUs=20000000", "Sockets=9999999 CoresPerSocket=9", "Gres=gpu:999999999P"])
def test_nodes_that_would_fill_the_memory_are_refused(written, line):
    path = written(SMALL + f"NodeName=m {line}\n")
    assert (
        refused(read_site, path) == f"{path}: its nodes have more than 20,000,000 CPUs and GPUs; correct their numbers"
    )


def test_included_files_are_found_beside_the_first_and_name_themselves(tmp_path, written):
    (tmp_path / "parts").mkdir()
    written("INCLUDE parts/more.conf\n", "parts/nodes.conf")
    written("NodeName=n[1-2]\nPartitionName=a Nodes=n1\n", "parts/more.conf")
    path = written(TYPES + "Include parts/nodes.conf\n")
    site = read_site(path)
    assert [node.name for node in site.nodes] == ["n1", "n2"]
    assert f"{path}: nodes that no partition has: n2" in site.warnings
    assert files_of(path) == [path, tmp_path / "parts/nodes.conf", tmp_path / "parts/more.conf"]
    odd = written("\nNodeName=n1 CPUs=x\n", "parts/more.conf")
    assert refused(read_site, path).startswith(f"{odd}:2: CPUs=x is not")


@pytest.mark.parametrize("times", [1, 2])
def test_files_may_not_include_each_other_without_end(written, times):
    for i in range(400):  # with twice, 2^400 lines
        written(f"Include f{i + 1}.conf\n" * times, f"f{i}.conf")
    assert "more than 300 files are included; copy" in refused(read_site, written("", "f400.conf").with_name("f0.conf"))


def test_switches_and_types_of_gpus_come_from_the_files_beside(written):
    nodes = "NodeName=n[1-3],m[1-2] Gres=gpu:2\nNodeName=g1 Gres=gpu:k80:2\nPartitionName=p Nodes=ALL\n"
    path = written(TYPES + "TopologyPlugin=topology/tree\n" + nodes)
    assert list(map(str, read_site(path).named)) == ["TopologyPlugin=topology/tree without topology.conf"]
    written(
        "SwitchName=s2 Nodes=n[2-3,9]\nSwitchName=s1 Nodes=m[1-2],n1\nSwitchName=top Switches=s[1-2]\n", "topology.conf"
    )
    written(
        "AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1]\nNodeName=n3 Name=gpu Type=v100\n"
        "Name=nvme Type=x\nNodeName=m1 Name=gpu Type=a File=/dev/nvidia0\nNodeName=m1,g1 Name=gpu Type=b Count=1\n",
        "gres.conf",
    )
    site = read_site(path)
    assert site.switches == (Leaf(("n2", "n3"), ("top",)), Leaf(("m1", "m2", "n1"), ("top",)))
    types = {node.name: node.gpu_type for node in site.nodes}
    assert types == {"g1": "k80", "m1": "", "m2": "", "n1": "a100", "n2": "a100", "n3": "v100"}
    assert site.mixed == {"a", "b"}
    assert [warning.partition("slurm.conf: ")[2] for warning in site.warnings] == [
        "nodes with several types of GPUs, which count as one: m1",
        "nodes below no switch: g1",
        "nodes have GPUs (Gres), but AccountingStorageTRES lacks gres/gpu: sacct prints jobs' GPUs in SubmitLine "
        "alone; set AccountingStorageTRES=gres/gpu",
    ]
    written(path.read_text() + "AccountingStorageTRES=bb/x\nAccountingStorageTRES+=Gres/GPU:a100,gres/gpu\n")
    assert len(read_site(path).warnings) == 2


# What is not modelled

FORTY = """JobID|User|Account|Partition|QOS|Submit|Eligible|Reason|Start|End|TimelimitRaw|AllocCPUS|ReqCPUS|NNodes|\
ReqTRES|AllocTRES|ReqMem|Constraints|State|NodeList|Reservation|Suspended|SubmitLine
"""
# Each asks for something of its own; forty jobs of a minute, one after the other, of which one is 2.5 %.
ASKED = {
    1: {"line": "-L fluent:2"}, 2: {"line": "--switches=1"}, 3: {"line": "--time-min=1"}, 4: {"tres": ",bb/x=1G"},
    5: {"reason": "AssocGrpBilling"}, 6: {"line": "--gres=gpu:1", "tres": ",gres/gpu=1"}, 7: {"features": "fast"},
    8: {"line": "-p a,b"}, 9: {"tres": ",license/matlab@db=1"}, 10: {"line": "--exclusive"},
}  # fmt: skip
ONE, ALL = "it could touch 1 job (2.5 %;", "it could touch 40 jobs (100 %; 100 % of processor-hours)"
NOT_ONE, UNSAID = "it could touch no job of this log:", "the log does not say which jobs it could touch:"
NODES = "NodeName=n[1-2] CPUs=4 RealMemory=1000 Gres=gpu:2 Features=fast\nPartitionName=a Nodes=ALL\n"
NODES += "PartitionName=b Nodes=ALL OverSubscribe=YES:4\n"
TYPED = "PriorityType=priority/multifactor\nSelectTypeParameters=CR_Core_Memory\n"
A = "PartitionName=a Nodes=ALL "
KINDS = [
    (f"{A}OverSubscribe=FORCE:4", f"FORCE:4 (partition a), one job on a CPU; {ALL}"),
    (f"{A}Shared=YES", f"Shared=YES (partition a), one job on a CPU; {ALL}"),
    ("", f"{NOT_ONE} OverSubscribe=YES:4 (partition b)"),
    (f"{A}State=DOWN", f"State=DOWN (partition a), taken as UP; {ALL}"),
    (f"{A}SelectTypeParameters=CR_Core", "ot modelled: SelectTypeParameters=CR_Core (partition a), left out"),
    (f"{A}LLN=YES MaxCPUsPerNode=2", f"MaxCPUsPerNode=2 (partition a), left out; {ALL}"),
    (f"{A}MaxMemPerCPU=10", f"MaxMemPerCPU=10 (partition a), left out; {ALL}"),
    ("MaxMemPerCPU=5000", f"{NOT_ONE} MaxMemPerCPU=5000"),
    ("MaxMemPerNode=60", f"MaxMemPerNode=60, left out; {ALL}"),
    ("DefMemPerGPU=60", f"DefMemPerGPU=60, left out; {ONE}"),
    ("DefCpuPerGPU=2", f"DefCpuPerGPU=2, left out; {ONE}"),
    (f"{A}MinNodes=2", f"MinNodes=2 (partition a), left out; {ALL}"),
    ("OverTimeLimit=5", f"{NOT_ONE} OverTimeLimit=5"),
    (f"NodeName=n3 RestrictedCoresPerGPU=2\n{A}", "GPU=2 (partition a, b), left out; it could touch 39 jobs"),
    ("SelectType=select/cray_aries", f"select/cray_aries, taken as select/cons_tres; {ALL}"),
    ("SchedulerType=sched/wiki2", f"sched/wiki2, taken as sched/backfill; {ALL}"),
    ("PriorityFlags=DEPTH_OBLIVIOUS,NO_NORMAL_ALL", f"depth_oblivious, taken as NO_FAIR_TREE; {ALL}"),
    ("PrioritySiteFactorPlugin=x", f"PrioritySiteFactorPlugin=x, left out; {ALL}"),
    ("SelectTypeParameters=CR_Socket,CR_ONE_TASK_PER_CORE", "cr_socket, left out; it could touch 39 jobs"),
    ("TopologyPlugin=topology/tree", f"{NOT_ONE} TopologyPlugin=topology/tree without topology.conf"),
    ("TopologyPlugin=topology/block", f"{NOT_ONE} TopologyPlugin=topology/block"),
    ("SchedulerParameters=max_switch_wait=9", f"max_switch_wait=9, left out; {ONE}"),
    ("BurstBufferType=burst_buffer/datawarp", f"datawarp, left out; {ONE}"),
    ("SchedulerParameters=time_min_as_soft_limit", f"time_min_as_soft_limit, left out; {ONE}"),
    ("SchedulerParameters=assoc_limit_stop", f"assoc_limit_stop, left out; {ONE}"),
    ("NodeFeaturesPlugins=node_features/knl", f"node_features/knl, left out; {ONE}"),
    ("SchedulerParameters=bf_one_resv_per_job", f"bf_one_resv_per_job, left out; {ONE}"),
    ("Licenses=fluent:4", f"licence matlab@db, which no job waits for; {ONE}"),
    ("", f"licence fluent, which no job waits for; {ONE}"),
    ("CompleteWait=32\nSchedulerParameters=bf_max_time=9", f"{UNSAID} CompleteWait=32, bf_max_time=9"),
    ("FastSchedule=1", "Slurm 19.05, the last with FastSchedule"),
    ("FederationParameters=fed_display\nPreemptMode=OFF\nNodeName=n4 CpuSpecList=0", "jobs on 3 nodes"),
    ("Include parts.conf", "parts.conf, which it includes, does not exist", 2),
    ("ClusterName={{ cluster }}", ":8: '{{ cluster }}' is to be filled in; give the file that Slurm reads", 2),
    ("SlurmctldHost=@HOST@", ":8: '@HOST@' is to be filled in", 2),
    ("SlurmctldHost=<your host>", ":8: '<your host>' is to be filled in", 2),
    ("NodeName=${NODES}", ":8: '${NODES}' is to be filled in", 2),
    ("This is no line", ":8: 'This is no line' is not NAME=VALUE", 2),
]  # fmt: skip


@pytest.fixture
def answered(written):
    """What `what-if` answers with these lines in slurm.conf, on one line."""
    rows = []
    for i in range(40):
        it = ASKED.get(i, {})
        tres = "cpu=1,mem=100M,node=1" + it.get("tres", "")
        rows.append(
            f"{i}|ann|x|a|normal|{10000 + 60 * i}|{10000 + 60 * i}|{it.get('reason', '')}|{10001 + 60 * i}|"
            f"{10055 + 60 * i}|2|1|1|1|{tres}|{tres}|100Mn|{it.get('features', '')}|COMPLETED|n1|||"
            f"sbatch -n1 {it.get('line', '')} --wrap x"
        )
    log = written(FORTY + "\n".join(rows) + "\n", "log.txt")

    def answer(lines, *options):
        conf = written("\n\n" + TYPED + NODES + lines + "\n")
        done = batfill("what-if", log, "--slurm-conf", conf, "--runs", "5", "--details", *options)
        return done.status, " ".join((done.out + done.err).replace("\xa0", " ").split())

    return answer


@pytest.mark.parametrize(("lines", "words", "status"), [(*row, 0)[:3] for row in KINDS])
def test_each_kind_of_line_is_answered_and_named_with_the_jobs_that_it_could_touch(answered, lines, words, status):
    found, text = answered(lines)
    assert (found, words in text) == (status, True), text
    assert "Traceback" not in text


def test_beyond_a_twentieth_of_the_jobs_the_answer_begins_with_a_caution(answered):
    lines = "PartitionName=a Nodes=ALL OverSubscribe=FORCE:4\nCompleteWait=9"
    caution = "Cannot tell: what is not modelled could touch 100 % of jobs, over 5 %. Simulated,"
    assert caution in answered(lines)[1]
    assert "Cannot tell: too few jobs (" in answered("")[1]  # two of forty name licences that are not there
    assert "what is not modelled could touch 7.5 % of jobs, over 5 %. Simulated," in answered("BurstBufferType=x")[1]


def test_a_change_switches_off_what_the_file_has(site_of, written):
    lines = "PartitionName=b Nodes=n1 Shared=FORCE:4 MaxCPUsPerNode=3\nPartitionName=c Nodes=n2 OverSubscribe=FORCE:4\n"
    lines += "Licenses=fluent:2\nBurstBufferType=x\nPreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
    site = site_of(SMALL + lines, accounts=[written(QOS, "q")])
    changes = ["partition.b.OverSubscribe=NO", "partition.b.MaxCPUsPerNode=", "BurstBufferType=", "qos.high.Flags="]
    new = apply(site, [*changes, "Licenses=", "PreemptType=preempt/none", "PreemptMode="])
    assert list(map(str, new.named)) == ["OverSubscribe=FORCE:4 (partition c)"]
    assert (new.settings.licenses, new.settings.preempt, new.settings.preempt_mode) == ({}, "", "off")
    assert not new.qos[1].no_reserve
    kept = apply(site, ["partition.b.MaxTime=3", "qos.high.Priority=3"])
    assert (kept.named, kept.qos[1].no_reserve) == (site.named, True)
    assert apply(site, ["PreemptType=", "Licenses=fluent:9,ansys"]).settings.licenses == {"fluent": 9, "ansys": 1}


ODD = (
    *("SchedulerParameters=", "SchedulerParameters=,,bf_continue,", "Licenses=a:1,b@db:3,c*2", "SelectType=cons_tres"),
    *("SchedulerParameters=bf_interval=-1", "SchedulerParameters=sched_interval=-1"),
    *("SelectTypeParameters=CR_Core,CR_LLN,CR_Pack_Nodes", "PreemptMode=CHECKPOINT"),
    *("PartitionName=c Nodes=n1 PreemptMode=CHECKPOINT", "PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG"),
    *("PriorityFlags=FAIR_TREE,CALCULATE_RUNNING", "PreemptMode=GANG", "MCSPlugin=mcs/user", "TopologyPlugin=default"),
    *("TopologyPlugin=topology/3d_torus", "TopologyParam=Dragonfly,TopoOptional", "PriorityUsageResetPeriod=None"),
    *("NodeSet=x Nodes=n1\nPartitionName=c Nodes=x,y\nNodeSet=y Feature=fast", "NodeName=DEFAULT Weight=9 Odd=1"),
    *("PartitionName=DEFAULT OverSubscribe=FORCE LLN=YES\nPartitionName=c Nodes=n1 Shared=NO LLN=NO", "NewOption=a,b"),
    *("PartitionName=c Nodes=n1 OverSubscribe=EXCLUSIVE ExclusiveTopo=YES Topology=t", "PartitionName=c MinNodes=4"),
    *("NodeName=n9 State=CLOUD Features=cloud Gres=gpu:h100:8,shard:32", "FrontendName=f1 FrontendAddr=f2 Reason=x"),
    *("NodeName=n9 State=FUTURE\nDownNodes=n2 State=DOWN", "SuspendProgram=/bin/x\nSuspendExcNodes=n[1-2]\nTmpFS=/tmp"),
    *("AccountingStorageTRES=gres/gpu,license/a\nLicenses=a", "PartitionName=c Nodes=n1 MaxTime=UNLIMITED MaxNodes=-1"),
    *("PriorityWeightTRES=CPU=1000,License/a=7", "SchedulerParameters=defer_batch,bf_node_space_size=9,nohold_on"),
    *("PartitionName=c Nodes=n1 TRESBillingWeights=License/a=2,CPU=1 PreemptMode=off GraceTime=0 State=INACTIVE",),
    *("SwitchType=switch/none\nSelectType=select/linear\nSelectTypeParameters=CR_Memory,OTHER_CONS_TRES",),
)  # fmt: skip


@pytest.mark.parametrize("lines", ODD)
def test_no_line_that_slurm_can_read_ends_the_answer(answered, lines):
    found, text = answered(lines)
    assert (found, "Traceback" in text) == (0, False), text


# Accounts

DUMP = """# To edit this file, start with a cluster line
Cluster - 'x':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='light: all':Fairshare=3:GrpTRES=cpu=100,gres/gpu:a100=4,mem=2T:MaxJobs=5
Account - 'biology':Organization="b":Fairshare=parent
Parent - 'physics'
Account - 'lasers':Fairshare=2:Priority=4:GrpTRESMins=cpu=9:MaxWallDurationPerJob=120
User - 'ann':DefaultAccount='physics':Fairshare=1
Parent - 'lasers'
User - 'ben':DefaultAccount='lasers':Fairshare=7:MaxJobs=2:MaxSubmitJobs=8
"""
SSHARE = """Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare
root|||0.000000|9000||
 root|root|1|0.1|0|0|1
 biology||6|0.3|1000||
  biology|cid|1|0.5|1000||
 physics||3|0.5|8000||
  physics|ann|1|0.5|5000||
  lasers||2|0.5|3000||
   lasers|ben|parent|0.5|3000||
"""
QOS = """\
Name|Priority|Flags|UsageFactor|GrpTRES|GrpJobs|MaxWall|MaxTRESPU|MaxJobsPU|MaxSubmitPU|MaxTRESPA|MaxJobsPA|MaxTRES
normal|0||1.000000|||||||||
high|100|DenyOnLimit,NoReserve|2.000000|cpu=64,node=4|10|1-00:00:00|gres/gpu=2,mem=100G|3|9|cpu=32|4|cpu=9
"""


def test_a_dump_the_qos_and_usage_are_joined_whatever_their_order(written):
    paths = [written(DUMP, "d"), written(QOS, "q")]
    read = read_accounts(paths, [written(SSHARE, "s")])
    assert read[:2] == read_accounts(paths[::-1], [written(SSHARE, "s")])[:2]
    assert list(read.associations.values()) == [
        Association("physics", "", "", 3, Limits(cpus=100, memory_mb=2 * 1024**2), Limits(5), usage=8000.0),
        Association("biology", usage=1000.0),
        Association("lasers", "", "physics", 2, priority=4, usage=3000.0, max_wall_s=7200.0),
        Association("physics", "ann", usage=5000.0),
        Association("lasers", "ben", shares=7, each=Limits(2), usage=3000.0),
        Association("biology", "cid", usage=1000.0),
    ]
    assert read.qos["normal"] == Qos("normal")
    user, account = Limits(jobs=3, gpus=2, memory_mb=102_400), Limits(jobs=4, cpus=32)
    group = Limits(jobs=10, cpus=64, nodes=4)
    assert read.qos["high"] == Qos(
        "high", 100, 2.0, group, user, account, 86400.0, no_reserve=True, per_job=Limits(cpus=9)
    )
    assert read.warnings == ["associations: without shares of their own, 1 assumed: biology"]
    assert list(map(str, read.named)) == ["DenyOnLimit (QOS high)", "limits=GrpTRES=gres/gpu:a100, grptresmins"]


def test_usage_alone_tells_the_tree_too(written):
    read = read_accounts([], [written(SSHARE, "s")])
    assert [(each.account, each.user, each.parent, each.shares) for each in read.associations.values()] == [
        ("biology", "", "", 6), ("biology", "cid", "", 1), ("physics", "", "", 3), ("physics", "ann", "", 1),
        ("lasers", "", "physics", 2), ("lasers", "ben", "", 1),
    ]  # fmt: skip
    assert read.warnings == ["associations: without shares of their own, 1 assumed: lasers/ben"]


def test_limits_hold_only_if_slurm_enforces_them(site_of, written):
    files = [written(DUMP, "d"), written(QOS, "q")]
    conf = SMALL + "AccountingStorageEnforce={}\n"
    site = site_of(conf.format("associations,limits"), accounts=files)
    assert site.associations[0].group.cpus == 100
    site = site_of(conf.format("associations,qos"), accounts=files)
    assert {(each.group, each.max_wall_s) for each in (*site.associations, *site.qos)} == {(Limits(), None)}
    assert any("AccountingStorageEnforce does not enforce, left out: physics, lasers, high" in w for w in site.warnings)


def test_preemption_is_read_of_the_site_its_partitions_and_qos(site_of, written):
    site = site_of(
        SMALL + "PreemptType=preempt/partition_prio\nPreemptMode=GANG,SUSPEND\nPreemptExemptTime=00:01:00\n"
        "JobRequeue=0\nAuthInfo=socket=/run/munge,cred_expire=15\n"
        "PartitionName=b Nodes=n1 PreemptMode=Cancel GraceTime=40\n"
        "SchedulerParameters=preempt_youngest_first,preempt_reorder_count=3,preempt_strict_order\n"
    )
    had, (a, b) = site.settings, site.partitions
    assert (had.preempt, had.preempt_mode, had.preempt_within, site.suspends) == (
        "partition_prio",
        "suspend",
        False,
        True,
    )
    assert (had.preempt_exempt_s, had.cred_expire_s, had.job_requeue) == (60, 15, False)
    assert (had.preempt_youngest_first, had.preempt_reorder_count) == (True, 3)
    assert (a.preempt_mode, a.grace_s, b.preempt_mode, b.grace_s) == ("", 0, "cancel", 40)
    assert any("without effect in the model: preempt_strict_order" in text for text in site.warnings)

    columns = "Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode\n"
    qos = written(
        columns + "low|1|00:00:10||-1|requeue,within\nhigh|9||low,mid|00:00:00|cluster\nmid|5|20|||gang,suspend\n", "q"
    )
    site = site_of(
        SMALL + "PreemptType=preempt/qos\nPreemptMode=REQUEUE,WITHIN\nPreemptExemptTime=-1\n", accounts=[qos]
    )
    assert (site.settings.preempt_mode, site.settings.preempt_within, site.settings.preempt_exempt_s) == (
        "requeue",
        True,
        0,
    )
    assert [each[7:12] for each in site.qos] == [
        ((), "requeue", True, None, 10), (("low", "mid"), "", False, 0.0, 0), ((), "suspend", False, None, 20),
    ]  # fmt: skip
    assert list(map(str, site.named)) == ["PreemptMode=SUSPEND (QOS mid)"]
    assert (
        site_of(SMALL + "PreemptType=preempt/qos\n").supposed[0].startswith("each QOS has no Preempt list, so no job")
    )
    assert "Preempt" not in str(site.supposed)
    new = apply(site, ["qos.mid.Preempt=low", "PreemptMode=CANCEL", "PreemptType=preempt/none"])
    assert (new.qos_of["mid"].preempts, new.settings.preempt_mode, new.settings.preempt) == (("low",), "cancel", "")
    for text, wrong in (
        ("low.Preempt=high", "QOS low preempts high preempts low: a QOS"),
        ("low.Preempt=x", "no qos 'x'"),
    ):
        assert wrong in refused(apply, site, [f"qos.{text}"])


# Changes


def test_changes_set_options_of_the_site_its_partitions_qos_and_accounts(site_of, written):
    site = site_of(SMALL + "AccountingStorageEnforce=safe\n", accounts=[written(DUMP, "d"), written(QOS, "q")])
    new = apply(site, ["PriorityWeightAge=200000", "bf_interval=60", "defer", "PriorityFlags=NO_FAIR_TREE"])
    assert (new.settings.weight_age, new.settings.bf_interval_s, new.settings.defer) == (200_000, 60, True)
    assert not new.settings.fair_tree
    new = apply(site, ["partition.a.MaxTime=1-0", "qos.high.MaxTRESPerUser=cpu=8", "account.physics.Fairshare=9"])
    new = apply(new, ["qos.normal.MaxWall=12:00:00", "account.physics.MaxWall=90"])
    assert new.partitions[0].max_time_s == 86400
    assert (new.qos[0].max_wall_s, new.associations[0].max_wall_s) == (43_200, 5400)
    assert new.qos[1].per_user == Limits(jobs=3, cpus=8, gpus=2, memory_mb=102_400)
    assert (new.associations[0].shares, new.associations[3]) == (9, site.associations[3])
    assert apply(new, []) == new


@given(st.data())
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_read_or_refused_in_one_line(written, data):
    texts = {"slurm.conf": SMALL, "d": DUMP, "q": QOS, "s": SSHARE}
    name = data.draw(st.sampled_from(list(texts)))
    at = data.draw(st.integers(0, len(texts[name])))
    new = data.draw(st.text("=,[]():'\"|\\#-_.09aN \t\n\u00e9", max_size=3))
    texts[name] = texts[name][:at] + new + texts[name][at + data.draw(st.integers(0, 8)) :]
    paths = [written(text, name) for name, text in texts.items()]
    try:
        read_site(paths[0], accounts=paths[1:3], sshare=paths[3])
    except WorkloadError as error:
        assert "\n" not in error.on_command_line  # noqa: PT017 - most damaged files are read


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("SwitchName=s1 Nodes=n1\nSwitchName=top Switches=s[1-2]", "conf:2: switch s2 has no line, or is below two"),
        ("SwitchName=s1 Nodes=n1\nSwitchName=x Switches=s1\nSwitchName=y Switches=s1", "conf:3: switch s1 has no line"),
        ("SwitchName=s1 Nodes=n1\nSwitchName=x Switches=s1,y\nSwitchName=y Switches=x", "switch x is above itself"),
        ("SwitchName=x Nodes=n1 Switches=x", "conf:1: switch x is above itself"),
    ],
)
def test_a_tree_of_switches_that_is_none_is_refused(written, lines, said):
    path = written(SMALL + "TopologyPlugin=topology/tree\n")
    written(lines + "\n", "topology.conf")
    assert said in refused(read_site, path)


def test_new_nodes_are_like_a_known_one_in_its_partitions_and_below_its_switch(site_of, written):
    written("SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n2\n", "topology.conf")
    site = site_of(SMALL + "TopologyPlugin=topology/tree\nPartitionName=b Nodes=n1\n")
    new = add_nodes(site, "n[9-10]=n2")
    assert [node.name for node in new.nodes] == ["n1", "n2", "n9", "n10"]
    assert {node[1:] for node in new.nodes} == {site.nodes[1][1:]}
    assert [each.nodes for each in new.partitions] == [("n1", "n2", "n9", "n10"), ("n1",)]
    assert new.switches == (Leaf(("n1",)), Leaf(("n2", "n9", "n10")))


PREEMPT = "Name|Priority|Preempt|PreemptExemptTime|PreemptMode\n"
NO_ACCOUNTS = ": it has no line for --accounts; give what `sacctmgr dump CLUSTER File=FILE` or `sacctmgr -P show qos` w"
NO_USAGE = ": it has no line for --sshare; give what `sshare -l -a -P` writes"
ACCOUNTS = [
    ("", NO_ACCOUNTS),
    ("JobID|User\n1|ann\n", NO_ACCOUNTS),
    (SSHARE, NO_ACCOUNTS),
    (QOS.partition("\n")[0], NO_ACCOUNTS),
    ("Cluster - 'x':Fairshare=1\n", NO_ACCOUNTS),
    (DUMP + "Fairshare 3\n", ":12: 'Fairshare 3' is not a line of `sacctmgr dump`"),
    (DUMP + "User - 'eve':Fairshare=some\n", ":12: Fairshare=some is not a whole number"),
    (f"{PREEMPT}a|0|a||\n", ":2: QOS a preempts a: a QOS may not preempt itself; correct the Preempt lists"),
    (f"{PREEMPT}a|0|b||\nb|0|c||\nc|0|x,a||\n", ":4: QOS a preempts b preempts c preempts a: a QOS may not preempt"),
    (f"{PREEMPT}a|0||soon|\n", ":2: PreemptExemptTime=soon is not a duration from 0 s on"),
    (f"{PREEMPT}a|0|||sometimes\n", ":2: PreemptMode=sometimes is not OFF, CANCEL, REQUEUE or SUSPEND"),
    (QOS.replace("cpu=64", "cpu64"), ":3: GrpTRES=cpu64,node=4 is not a list such as cpu=100"),
]
USAGE = [(text, NO_USAGE) for text in ("", DUMP, QOS, SSHARE.replace("RawUsage", ""), SSHARE.partition("\n")[0])]
USAGE += [(SSHARE + " a||1||-3||\n", ":10: RawUsage=-3 is not a number from 0 on")]
CHANGES = [
    ("bf_intervall=60", "bf_intervall: it is not modelled; did you mean 'bf_interval'?"),
    ("PriorityFlags=MAX_TRES,DEPTH_OBLIVIOUS", "depth_oblivious: it is not modelled; known: "),
    ("bf_busy_nodes=", "bf_busy_nodes: it is not modelled; known: "),
    ("bf_interval", "bf_interval=yes is not a whole number"),
    ("MaxTime=3", "MaxTime: set it of a partition, as partition.NAME.MaxTime=..."),
    ("SchedulerParameters=bf_interval=3", "SchedulerParameters: set its keys by themselves, as bf_interval=60"),
    ("partition.b.MaxTime=1", "no partition 'b'; known: a"),
    ("partition.a.OverSubscribe=YES", "OverSubscribe=YES is not one of EXCLUSIVE, NO, YES:1"),
    ("qos.high.Priority=3", "no qos 'high'; known: none, give the files of accounts"),
    ("user.ann.Fairshare=3", "write partition.NAME.OPTION"),
]
NEW_NODES = [
    ("m=x", "no node 'x'"),
    ("n1=n2", "n1 would be there twice"),
    ("m,m=n1", "m would be there twice"),
    ("m[=n1", "'m[' is no list of nodes"),
]
WRONG = {"f": ACCOUNTS, "s": USAGE, "set": CHANGES, "add-nodes": NEW_NODES}


@pytest.mark.parametrize(
    ("what", "text", "wrong"),
    [(what, *case) for what, cases in WRONG.items() for case in cases],
)
def test_accounts_and_changes_that_cannot_be_used_are_refused_with_their_place(site_of, written, what, text, wrong):
    if what in ("f", "s"):
        paths = [written(DUMP, "d"), written(text, "f")]
        given = [paths] if what == "f" else [paths[:1], paths[1:]]
        assert refused(read_accounts, *given).startswith(f"{paths[1]}{wrong}")
    elif what == "set":
        assert refused(apply, site_of(SMALL), [text]).startswith(f"--set {text}: {wrong}")
    else:
        assert refused(add_nodes, site_of(SMALL), text).startswith(f"--add-nodes {text}: {wrong}")
