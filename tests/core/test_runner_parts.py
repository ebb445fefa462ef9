"""The pieces of the runner: what a command line names, which port is taken, what a log says, what results hold."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from batfill.base.errors import BatfillError
from batfill.batsim_files.results import JOB_COLUMNS, ResultError, read_results
from batfill.runner.batcmd import choose_engine, options_file_of, parse_context, read_command
from batfill.runner.experiment import workload_jobs
from batfill.runner.pair import Watch, state_text
from batfill.runner.sessions import is_listening, last_line_of
from batfill.simulator.display import SimulationState


def command_of(batcmd, **env):
    return read_command(SimpleNamespace(path="e.yaml", descriptor=SimpleNamespace(batcmd=batcmd), env=env))


@pytest.mark.parametrize(
    ("batcmd", "program", "workloads", "platform"),
    [
        ("batsim -p p.xml -w w.json -e out", "batsim", ["w.json"], "p.xml"),
        ("/opt/batsim --platform=p.xml\\\n --workload a -wb --workload=c", "/opt/batsim", ["a", "b", "c"], "p.xml"),
        ("batsim -p 'a $X/p.xml' -w w -W flow.xml --WS 3 --mmax-workload", "batsim", ["w"], "a $X/p.xml"),
        ("$DOCKER -w /data -p 80:80 oarteam/batsim:4.2.0 -p p -w w", "oarteam/batsim:4.2.0", ["w"], "p"),
        ("simulate -p p -w w", None, ["w"], "p"),
        ("batsim -p p -w a b '' -r h storage --workload=c -e out/ -s e ''", "batsim", ["a", "b", "c"], "p"),
        ("batsim", "batsim", [], None),
        ('${BATSIM:-batsim} -w "${IN-x}/a b" ${EMPTY:-c} d${EMPTY-no}', "batsim", ["in put/a b", "c", "d"], None),
        ('batsim --sched-cfg \'{"a": [1, "$(x);"]}\' -w a\\ b\\; -p x#y~z{}', "batsim", ["a b;"], "x#y~z{}"),
    ],
)
def test_a_batcmd_is_split_as_bash_splits_it(batcmd, program, workloads, platform):
    env = {"DOCKER": "docker run", "IN": "in put", "EMPTY": ""}
    command = command_of(batcmd, **env)
    assert command.program == program
    assert [str(path) for path in command.workloads] == workloads
    assert command.platform == (platform and Path(platform))
    shown = subprocess.run(
        ["bash", "-uc", f"printf '%s\\0' {batcmd}"], env=env, capture_output=True, text=True, check=True, timeout=30
    )
    assert shown.stdout.split("\0")[:-1] == list(command.words)


@pytest.mark.parametrize(
    ("batcmd", "said"),
    [
        *(
            (f"batsim -w {word}", f"needs a shell ({sign!r}); write the command of Batsim alone, or run the descriptor")
            for word, sign in {
                "a; b": ";", "a && b": "&", "a | b": "|", "a > b": ">", "a < b": "<", "(a)": "(", "`a`": "`",
                "$(a)": "$", '"$(a)"': "$", "${A%b}": "$", "*.json": "*", "a?": "?", "[ab]": "[", "{a,b}": "{",
                "a\nb": "\n", "~/a": "~", "a # b": "#",
            }.items()
        ),
        ("batsim -w $NONE/w.json", "$NONE has no value; set the variable, or write ${NAME:-VALUE}"),
        ("batsim -w ${NONE}", "${NONE} has no value"),
        ("batsim -w 'a", "no closing quotation; fix it"),
        ('batsim -w "a', "no closing quotation; fix it"),
    ],
)  # fmt: skip
def test_a_batcmd_that_needs_a_shell_is_refused_with_what_to_write(batcmd, said):
    with pytest.raises(BatfillError) as refused:
        command_of(batcmd)
    assert str(refused.value).startswith("e.yaml: batcmd")
    assert said in str(refused.value)


def test_the_context_is_found_among_other_lines():
    dump = '{"socket_endpoint":"tcp://localhost:28001","export_prefix":"o/x","external_scheduler":true}'
    context = parse_context(f"loading modules\n{dump}\n")
    assert context is not None
    assert (context.port, context.external_scheduler, context.protocol) == (28001, True, 4)
    assert context.jobs_csv == Path("o/x_jobs.csv")
    assert context.port_here == 28001
    assert context._replace(endpoint="tcp://elsewhere:28001").port_here is None
    assert context._replace(external_scheduler=False).port is None


def test_an_error_of_simgrid_is_quoted_rather_than_what_follows_it(tmp_path):
    log = tmp_path / "batsim.log"
    log.write_text(
        "[0.000000] [xbt_cfg/INFO] Configuration change\n"
        "[master_host:server:(2) 3.0] [server/ERROR] first\n"
        "[master_host:server:(2) 3.0] ./src/server.cpp:91: [server/CRITICAL] Deadlock detected!!!\n"
        "[3.000000] [batsim/INFO] bye\n/usr/lib/libc.so.6(+0x2a1c9) [0x7f]\n"
    )
    assert last_line_of([log]).endswith(": [server/CRITICAL] Deadlock detected!!!")
    assert last_line_of([log]).startswith(f"{log} reports: [master_host:server:(2) 3.0] ./src/server.cpp:91:")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_is_in_use_while_a_process_listens_on_it(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        assert is_listening(port)
    assert not is_listening(port)


@pytest.mark.parametrize(
    ("schedcmd", "found"),
    [
        ("pybatsim easyBackfill -t 0 -O o.json", "o.json"),
        ("pybatsim batfill/scheduler -O'a folder/o.json' -v warning", "a folder/o.json"),
        ("pybatsim easyBackfill --options-file x/o.json", "x/o.json"),
        ("pybatsim easyBackfill --options-file=o.json -t 0", "o.json"),
        ("pybatsim easyBackfill -o '{}'", None),
        ("pybatsim easyBackfill -O", None),
        ("pybatsim easyBackfill -O $HOME/o.json", None),  # bash knows
        ("pybatsim easyBackfill -O ~/o.json", None),
        ("mine -O o.json", None),
        ("", None),
    ],
)
def test_the_file_of_options_of_a_pybatsim_is_found(schedcmd, found):
    assert options_file_of(shlex.split(schedcmd)) == (found and Path(found))


def test_the_simulator_is_chosen_from_what_is_there(tmp_path):
    there = {"PATH": str(tmp_path)}
    assert choose_engine("auto", there) == "embedded"
    shutil.copy(sys.executable, tmp_path / "batsim")
    assert choose_engine("auto", there) == choose_engine("batsim", there) == "batsim"
    assert choose_engine("embedded", there) == "embedded"
    assert choose_engine("auto", {**there, "BATSIM": "docker run batsim"}) == "environment"
    with pytest.raises(BatfillError, match="not on PATH"):
        choose_engine("batsim", {"PATH": ""})


def csv_of(path, *lines):
    path.write_text("\n".join((JOB_COLUMNS, *lines)) + "\n")
    return path


def job_line(job_id, state="COMPLETED_SUCCESSFULLY", submit=0, procs=1, start=0, ran=10):
    times = ",,,,,,,," if state == "REJECTED" else f"{start},{ran},{start + ran},0,0,1,0,-1,"
    return f'{job_id},w0,p,{submit},{procs},100,{int(state.endswith("FULLY"))},{state},{times}""'


def test_tries_of_one_job_count_once_and_killed_ones_as_wasted_work(tmp_path):
    lines = [
        job_line("1", "COMPLETED_KILLED", ran=5, procs=2),
        job_line("2", "REJECTED"),
        job_line("1#1", start=30, ran=20, procs=2),
        job_line("3", "COMPLETED_WALLTIME_REACHED", submit=10, start=20, ran=30),
        job_line("9#1", submit=50, start=50, ran=0),  # no job 9: the name only looks like a later try
    ]
    figures = read_results(csv_of(tmp_path / "x_jobs.csv", *lines), size=4).known_figures()
    assert (figures["jobs"], figures["rejected"], figures["killed"], figures["requeued"]) == (4, 1, 1, 1)
    assert figures["makespan_s"] == 50
    assert figures["mean_wait_s"] == (30 + 10 + 0) / 3
    assert figures["utilisation"] == (10 + 40 + 30) / (4 * 50)
    assert figures["wasted"] == 10 / 80
    assert "backfilled" not in figures  # Batsim's files do not say it


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: no column "),
        ("job_id,workload_name\n", ":1: no column "),
        (f"{JOB_COLUMNS}\n{job_line('1')}\n{job_line('2')[:30]}", ":3: cut off"),
        *(
            (f"{JOB_COLUMNS}\n{job_line('1')}\n{job_line('2').replace(',0,1,', f',{date},1,', 1)}", f":3: .*{said}")
            for date, said in (("nan", "up to 1e"), ("inf", "up to 1e"), ("1e300", "up to 1e"), ("x", "not convert"))
        ),
        (f"{JOB_COLUMNS}\n{job_line('1', procs=2**31)}", f":2: .*up to {2**31 - 1}"),
        (f"{JOB_COLUMNS}\n{job_line('1', submit='')}", ": no submission_time of job '1'"),
        (f"{JOB_COLUMNS}\n{job_line('1').replace(',1,0,-1,', f',1,{2**31},-1,')}", ": alloc"),
    ],
)
def test_results_that_are_not_whole_are_refused_with_their_line(tmp_path, text, said):
    path = tmp_path / "x_jobs.csv"
    path.write_text(text)
    with pytest.raises(ResultError, match=f"x_jobs.csv{said}"):
        read_results(path)


def test_what_only_looks_like_the_number_of_a_try_is_part_of_the_name(tmp_path):
    names = ["1", "1#1", f"1#{'9' * 200_000}", "1#\u0662"]
    results = read_results(csv_of(tmp_path / "x_jobs.csv", *map(job_line, names)))
    assert sorted(set(results.ids)) == sorted({"1", *names[2:]})


def test_the_jobs_of_a_workload_are_called_as_batsim_calls_them(tmp_path):
    workload = tmp_path / "w.json"
    workload.write_text('{"nb_res": 4, "profiles": {}, "jobs": [{"id": "1"}, {"id": "w0!2"}, {"id": 3}]}')
    assert workload_jobs([workload]).jobs == [("w0", "1"), ("w0", "2"), ("w0", "3")]


def test_progress_is_read_from_the_simulator_or_counted_in_its_results(tmp_path):
    jobs_csv, progress = tmp_path / "x_jobs.csv", tmp_path / "progress.json"
    watch = Watch(progress, jobs_csv, 5)
    assert watch.read() == SimulationState(0, 5)
    csv_of(jobs_csv, "1", "2")
    assert watch.read() == SimulationState(2, 5)
    with jobs_csv.open("a") as file:
        file.write("3\nhalf of ")
    assert watch.read() == SimulationState(3, 5)
    progress.write_text('{"date": 90000.5, "jobs_done": 4, "jobs_total": 5, "waiting": 1}')
    assert watch.read() == SimulationState(4, 5, 90000.5, 1)
    assert state_text(watch.read()) == "simulating, day 1 1:00:00, 1 waiting"
