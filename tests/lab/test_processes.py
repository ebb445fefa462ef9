"""Work on several processes ends whatever happens to one of them; what is left of it is told by what is done."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from batfill_lab.processes import TRIES, WorkerDied, spread

LIMIT_S = 60


def square(number):
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number * number


def die_once(mark):
    """Die in the first process that is given this file, and answer in the second."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "answer"


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def forever(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(LIMIT_S)


def begin_an_answer():
    """Write the length of an answer to the pool's pipe, and nothing of it."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["result_queue"]._writer._send(struct.pack("!i", 1000))


def die_once_in_an_answer(mark):
    """Die in the middle of an answer in the first process that is given this file, and answer in the second."""
    if not mark.exists():
        begin_an_answer()
    return die_once(mark)


def test_every_task_is_answered_once_and_an_error_is_an_answer():
    answers = dict(spread(square, [3, -1, 5, 0], 2))
    assert (answers[0], answers[2], answers[3], len(answers)) == (9, 25, 0, 4)
    assert isinstance(answers[1], ValueError)


@pytest.mark.parametrize("dying", [die_once, die_once_in_an_answer])
def test_a_process_that_dies_costs_only_time(tmp_path, dying):
    found = {}
    tasks = [tmp_path / "a", tmp_path / "b"]
    thread = threading.Thread(target=lambda: found.update(spread(dying, tasks, 2)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert found == {0: "answer", 1: "answer"}


def test_a_task_that_kills_every_process_is_given_up():
    ((_, answer),) = spread(die, [0], 1)
    assert isinstance(answer, WorkerDied)
    assert f"died on it {TRIES} times" in str(answer)


def pid_in(path):
    until = time.monotonic() + LIMIT_S
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return int(path.read_text())


def test_workers_end_when_the_caller_stops_in_the_middle(tmp_path):
    began = time.monotonic()
    with closing(spread(first_or_forever, [None, tmp_path / "pid"], 2)) as answers:
        assert next(answers) == (0, None)
        pid = pid_in(tmp_path / "pid")
    assert not psutil.pid_exists(pid)
    assert time.monotonic() - began < LIMIT_S


def first_or_forever(path):
    if path is not None:
        forever(path)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_owner(tmp_path, sent):
    path = tmp_path / "pid"
    script = tmp_path / "owner.py"
    script.write_text(
        "import sys\nfrom batfill_lab.processes import spread\nfrom test_processes import forever\n"
        f"if __name__ == '__main__':\n    list(spread(forever, [{str(path)!r}], 1))\n"
    )
    paths = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    owner = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    worker = psutil.Process(pid_in(path))
    os.killpg(owner.pid, sent) if sent == signal.SIGINT else owner.send_signal(sent)  # Ctrl-C goes to all
    _, said = owner.communicate(timeout=LIMIT_S)
    assert not psutil.wait_procs([worker], timeout=LIMIT_S)[1]
    assert said.count("KeyboardInterrupt") == (sent == signal.SIGINT)  # the owner's alone
