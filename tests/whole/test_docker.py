"""The container image, built and run by whichever of docker, podman and buildah works on this machine."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from command import free_port

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "image.sh"
COMPOSE = ROOT / "docker" / "compose.yaml"
UNREACHED = "NewConnectionError|ConnectTimeoutError|Could not resolve"
STOPPED_S = 2  # Docker's own patience is 10
MINE = (
    f"{os.getuid()}:{os.getgid()}" if os.getuid() else "1234:1234"
)  # -u "$(id -u):$(id -g)"; some user if that is root

pytestmark = [pytest.mark.slow, pytest.mark.long]
numbers = itertools.count()


def call(*command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, **settings)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


class Container:
    """A command that runs in a container of its own as the first process, on this machine's network.

    `buildah run` has no process numbers of its own and does not pass signals on: there `unshare` makes the former, and
    the signal goes to the process itself.
    """

    def __init__(self, builder, image, command, log, *, user=None, data=None):
        self.builder, self.log = builder, log
        self.name = f"batfill-test-{os.getpid()}-{next(numbers)}"
        hosts = ["--add-host", "scheduler:127.0.0.1"]  # as Compose names its services
        mount = ["--volume", f"{data}:/data"] if data else []
        if builder == "buildah":
            call("buildah", "from", "--name", self.name, *hosts, image)
            config = json.loads(call("buildah", "inspect", "--type", "image", image))["OCIv1"]["config"]
            uid, gid = (user or config["User"]).split(":")
            root = ["--user", "0", "--cap-add", "CAP_SYS_ADMIN"]
            first = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
            own = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
            run = ["buildah", "run", *root, *mount, self.name, "--", *first, *own, *(command or config["Cmd"])]
        else:
            whose = ["--user", user] if user else []
            run = [builder, "run", "--name", self.name, "--network", "host", *hosts, *whose, *mount, image, *command]
        with log.open("w") as opened:
            self.process = subprocess.Popen(run, stdout=opened, stderr=subprocess.STDOUT)

    def ended(self, limit_s=60):
        """The exit status, and what was printed."""
        try:
            return self.process.wait(limit_s), self.log.read_text()
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.process.args} has not ended: {self.log.read_text()[-2000:]}")

    def says(self, text):
        for _ in range(600):
            if text in self.log.read_text():
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        pytest.fail(f"{self.process.args} never said {text!r}: {self.log.read_text()[-2000:]}")

    def stop(self):
        """Send SIGTERM to the first process; returns the exit status and the seconds until the end."""
        if self.builder == "buildah":
            inside = [each for each in psutil.Process(self.process.pid).children(recursive=True) if first(each)]
            (pid,) = (each.pid for each in inside)
            began_s = time.monotonic()
            os.kill(pid, signal.SIGTERM)
        else:
            began_s = time.monotonic()
            call(self.builder, "kill", "--signal", "TERM", self.name)
        return self.ended()[0], time.monotonic() - began_s

    def copy(self, path, to):
        """Copy a file out of the container, running or not."""
        if self.builder == "buildah":
            shutil.copy(call("buildah", "mount", self.name).strip() + path, to)
        else:
            call(self.builder, "cp", f"{self.name}:{path}", str(to))

    def remove(self):
        if self.process.poll() is None:  # a test failed
            inside = psutil.Process(self.process.pid).children(recursive=True)
            for each in [*inside, self.process]:
                each.kill()
            self.process.wait(20)
        call(self.builder, "rm", *([] if self.builder == "buildah" else ["--force"]), self.name)


def first(process):
    """Whether it is the first process of a namespace below ours."""
    numbers = re.search(r"^NSpid:\t(.+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)[1].split()
    return len(numbers) > 1 and numbers[-1] == "1"


@pytest.fixture(scope="module")
def builder():
    found = subprocess.run([SCRIPT, "--builder"], capture_output=True, text=True, timeout=60)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUILDAH_ISOLATION", os.environ.get("BUILDAH_ISOLATION", "chroot"))
        yield found.stdout.strip()


@pytest.fixture(scope="module")
def base(builder):
    """python:3.12-slim if it can be fetched, else Debian 12 made here; what was not there before is removed."""

    def there(name):
        return subprocess.run([builder, "inspect", "--type", "image", name], capture_output=True).returncode == 0

    default, debian = "python:3.12-slim", "batfill-debian:12"
    before = {name for name in (default, debian) if there(name)}
    if default in before or subprocess.run([builder, "pull", default], capture_output=True).returncode == 0:
        chosen = default
    elif debian in before or shutil.which("mmdebstrap"):
        chosen = "debian"
    else:
        pytest.skip(f"{default} cannot be fetched; to make a base here: apt-get install mmdebstrap")
    yield chosen
    for name in {default, debian} - before:
        subprocess.run([builder, "rmi", name], capture_output=True)


def built(builder, base, target):
    """The image, until the file's tests are over."""
    name = f"batfill-test-{os.getpid()}"
    environment = {**os.environ, "BASE": base, "IMAGE": name}
    done = subprocess.run([SCRIPT, target], env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode and re.search(UNREACHED, done.stderr):
        pytest.skip("the packages cannot be fetched here: the network is not reached")
    assert done.returncode == 0, done.stderr
    name += "" if target == "core" else f":{target}"
    yield name
    call(builder, "rmi", name)


@pytest.fixture(scope="module")
def image(builder, base):
    yield from built(builder, base, "core")


@pytest.fixture(scope="module")
def image_of_all(builder, base):
    yield from built(builder, base, "all")


@pytest.fixture
def contain(builder, tmp_path):
    """A function that starts a command in a container of an image."""
    started = []

    def start(image, *command, **settings):
        started.append(Container(builder, image, command, tmp_path / f"{len(started)}.log", **settings))
        return started[-1]

    yield start
    for each in started:
        each.remove()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """What the sample's experiments read."""
    folder = tmp_path_factory.mktemp("study")
    for name in ("expe/sample_saf.yaml", "platforms/sample.xml", "workloads/sample.json"):
        (folder / name).parent.mkdir()
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def rows(study):
    """The jobs of the main job, run outside."""
    run = [sys.executable, "-m", "batfill", "run", "--simulator", "embedded", "expe/sample_saf.yaml"]
    call(*run, cwd=study)
    return (study / "expe-out/sample_saf/out_jobs.csv").read_text()


@pytest.fixture
def mounted(study, tmp_path):
    """A copy of the study without results, in which the user MINE may write."""
    data = tmp_path / "data"
    shutil.copytree(study, data, ignore=shutil.ignore_patterns("expe-out"))
    data.chmod(0o755)
    out = data / "expe-out/sample_saf"
    out.mkdir(parents=True)
    for path in (out, out.parent):
        os.chown(path, *map(int, MINE.split(":")))
    return data


def batsim(port, workload="workloads/sample.json"):
    """The stand-in's command."""
    files = ["-p", "platforms/sample.xml", "-w", workload, "-e", "expe-out/sample_saf/out"]
    return ["batfill", "batsim", *files, "-s", f"tcp://localhost:{port}"]


def test_the_main_job_runs_without_a_mount_and_gives_the_rows_of_a_run_outside(contain, image, rows, tmp_path):
    ran = contain(image)
    status, said = ran.ended()
    assert (status, "jobs         800 (0 rejected, 0 killed)" in said) == (0, True), said
    ran.copy("/data/expe-out/sample_saf/out_jobs.csv", tmp_path)
    assert (tmp_path / "out_jobs.csv").read_text() == rows


def test_the_image_is_small_and_has_neither_a_compiler_nor_root(contain, image):
    leftover = "command -v cc gcc clang zig make pip; ls -d /src /tools /wheels /run/secrets/*; pip config list"
    asks = f"id -u; du -sm /opt/batfill | cut -f1; {{ {leftover}; env | grep PIP_; }} 2> /dev/null; true"
    status, said = contain(image, "sh", "-c", asks).ended()
    uid, megabytes, *rest = said.split()
    assert (status, int(uid) > 0, int(megabytes) < 250, rest) == (0, True, True, []), said


def test_the_services_of_the_compose_file_give_the_same_rows(contain, image, mounted, rows):
    """Each in a container; batfill's stand-in replaces Batsim's image, and the study's owner is another user."""
    port = str(free_port())
    text = COMPOSE.read_text().replace("28000", port).replace("${BATSIM_USER:-1000:1000}", MINE)
    services = yaml.safe_load(text)["services"]
    scheduler, simulator = services["scheduler"], services["batsim"]
    assert (COMPOSE.parent / scheduler["build"]["context"] / scheduler["build"]["dockerfile"]).is_file()
    assert (scheduler["build"]["target"], simulator["volumes"]) == ("core", ["..:/data"])
    listening = contain(image, *scheduler["command"])
    command = ["batfill", "batsim", *shlex.split(simulator["command"])]
    ran = contain(image, *command, user=simulator["user"], data=mounted)
    assert ran.ended() == (0, ran.log.read_text())
    assert listening.ended()[0] == 0
    out = mounted / "expe-out/sample_saf/out_jobs.csv"
    assert out.read_text() == rows
    assert f"{out.stat().st_uid}:{out.stat().st_gid}" == MINE


def test_both_stop_within_two_seconds_of_sigterm_and_results_stay_whole(contain, image, mounted):
    """As first processes, which ignore what they do not handle."""
    path = mounted / "workloads/sample.json"
    sample = json.loads(path.read_text())
    jobs = [
        {**job, "id": f"{job['id']}-{turn}", "subtime": job["subtime"] + turn * 500_000}
        for turn in range(40)
        for job in sample["jobs"]
    ]
    path.write_text(json.dumps({**sample, "jobs": jobs}))
    port = free_port()
    scheduler = contain(image, "batfill", "schedule", "--policy", "saf", "-s", f"tcp://*:{port}")
    simulator = contain(image, *batsim(port), user=MINE, data=mounted)
    simulator.says("JOB_COMPLETED")
    status, took_s = simulator.stop()
    assert (status, took_s < STOPPED_S) == (143, True), took_s
    with (mounted / "expe-out/sample_saf/out_jobs.csv").open(newline="") as file:
        header, *ended = csv.reader(file)
    assert 0 < len(ended) < len(jobs)
    assert {len(row) for row in ended} == {len(header)}
    assert sorted(each.name for each in (mounted / "expe-out/sample_saf").iterdir() if each.name.startswith(".")) == []
    status, took_s = scheduler.stop()
    assert (status, took_s < STOPPED_S) == (143, True), took_s


def test_the_image_all_has_every_extra_and_runs_pybatsim(contain, image_of_all):
    imports = "import cmaes, dask_jobqueue, distributed, gymnasium, matplotlib, pyarrow, pydantic, sklearn"
    assert contain(image_of_all, "python", "-c", imports).ended() == (0, "")
    status, said = contain(image_of_all, "batfill", "run", "expe/sample_fcfs.yaml").ended()
    assert (status, "jobs         800" in said) == (0, True), said
