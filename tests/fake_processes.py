"""A simulator and a scheduler that agree on nothing but a TCP port, and go wrong in whatever way a test asks for.

Both read FAKE_BATSIM and FAKE_SCHED for what they do; anything unknown means that all goes well.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

COMMON = """
import argparse, json, os, signal, socket, sys, time

def port_of(endpoint):
    return int(endpoint.rpartition(":")[2])

def hang():
    while True:
        time.sleep(0.05)

def wait_for_test():
    while not os.path.exists("go"):  # which the test makes
        time.sleep(0.02)

def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()
"""

SIMULATOR = """
does = os.environ.get("FAKE_BATSIM", "")
parser = argparse.ArgumentParser()
for option in ("-p", "-e", "-s"):
    parser.add_argument(option, dest=option[1])
parser.add_argument("-w", dest="w", action="append")
parser.add_argument("--no-sched", action="store_true")
parser.add_argument("--dump-execution-context", action="store_true")
given = parser.parse_args()
if given.dump_execution_context:
    if does == "hangs when asked":
        hang()
    if does == "says nothing when asked":
        sys.exit()
    for path in given.w:
        if not os.path.exists(path):
            sys.exit(2)
    print(json.dumps({"socket_endpoint": given.s, "redis_enabled": False, "export_prefix": given.e,
                      "external_scheduler": not given.no_sched}))
    sys.exit()
print("fake batsim starts", file=sys.stderr, flush=True)
if does == "exits at once":
    sys.exit("bad luck")
if does == "hangs":
    hang()
if does == "is deaf":
    deaf()
link = None
while not given.no_sched:
    try:
        link = socket.create_connection(("localhost", port_of(given.s)))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
if link:
    link.sendall(b"begin")
    answer = link.recv(10)
if does == "dies mid-way":
    os.kill(os.getpid(), signal.SIGABRT)
if link and not answer:
    hang()  # as Batsim does when its scheduler is gone
columns = ("job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,"
           "final_state,starting_time,execution_time,finish_time,allocated_resources")
with open(given.e + "_jobs.csv", "w") as out:
    print(columns, file=out)
    for number, path in enumerate(given.w):
        jobs = json.load(open(path))["jobs"]
        for job in jobs[: -2 if does == "leaves jobs" else None]:
            print(f"{job['id']},w{number},p,0.0,{job['res']},10.0,1,COMPLETED_SUCCESSFULLY,5.0,20.0,25.0,0", file=out)
    if does == "is cut off":
        print("7,w0,p,0.0,1", end="", file=out)
with open(given.e + "_schedule.csv", "w") as out:
    version = "4.2.0+batfill-0.1.0" if does == "is embedded" else "4.2.0"
    print(f"batsim_version,nb_computing_machines\\n{version},4", file=out)
if does == "is stuck":
    print("[server/CRITICAL] Deadlock detected!!!", file=sys.stderr)
if does == "waits at its end":
    wait_for_test()
"""

SCHEDULER = """
does = os.environ.get("FAKE_SCHED", "")
print("fake scheduler starts", flush=True)
if does == "exits at once":
    raise ValueError("no such policy")
if does == "leaves at once":
    sys.exit(0)
if does == "never binds":
    hang()
if does == "binds late":
    wait_for_test()
if does == "is deaf":
    deaf()
server = socket.create_server(("localhost", port_of(sys.argv[1])))
link, _ = server.accept()
link.recv(10)
if does == "dies mid-way":
    os.kill(os.getpid(), signal.SIGSEGV)
if does == "fails mid-way":
    sys.exit("out of ideas")
if does == "leaves early":
    sys.exit(0)
if does == "hangs mid-way":
    hang()
if does == "hangs mid-way in a group of its own":
    os.setpgid(0, 0)
    deaf()
link.sendall(b"go on")
while link.recv(10):
    pass
if does == "overstays":
    hang()
if does == "miscounts":
    sys.exit("submitted 3, scheduled 2")
"""


def write_program(path: Path, source: str) -> None:
    """An executable script that this Python runs."""
    path.write_text(f"#!{sys.executable} -SE\n{COMMON}{source}")
    path.chmod(0o755)


def processes_with(variable: str, value: str) -> list[int]:
    """The living processes that have this in their environment: everything that a test started, however indirectly."""
    wanted = f"{variable}={value}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
