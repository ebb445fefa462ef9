"""`batfill` as a user meets it: an exit status and two streams."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import zmq

from batfill.cli import main

# Said once after an installation, by whatever command comes first.
COMPILING = "batfill: compiling the engine"
# How many runs of Batsim are killed at messages, and half as many campaigns at answers;
# `BATFILL_KILLS=50 make test ARGS="-m slow -k 'any_message or any_answer'"` asks for more.
KILLS = int(os.environ.get("BATFILL_KILLS", "2"))


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


def batfill(*arguments: object) -> Done:
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code
    said = [line for line in err.getvalue().splitlines(keepends=True) if not line.startswith(COMPILING)]
    return Done(status, out.getvalue(), "".join(said))


def result(*arguments: object) -> str:
    """What the command prints when all goes well, which says nothing on stderr."""
    done = batfill(*arguments)
    assert (done.status, done.err) == (0, "")
    return done.out


def json_result(*arguments: object) -> Any:
    return json.loads(result(*arguments, "--json"))


def refusal(*arguments: object) -> str:
    """The one line with which the command refuses a user's mistake."""
    done = batfill(*arguments)
    assert (done.status, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("batfill: ")
    return line.removeprefix("batfill: ")


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port: int = unused.getsockname()[1]
        return port


def conversed(frames, *options):
    """What `batfill schedule` leaves behind in this process after these frames, and its answers.

    A frame may be a list of parts.
    The line that says where it listens is left out.
    """
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    over = threading.Event()
    answers: list[bytes] = []

    def send():
        with zmq.Context() as context, context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(endpoint)
            for frame in frames:
                socket.send_multipart(frame if isinstance(frame, list) else [frame])
                while not socket.poll(20):
                    if over.is_set() and not socket.poll(200):  # the last answer may come after the end
                        return
                answers.append(socket.recv())

    batsim = threading.Thread(target=send)
    batsim.start()
    try:
        done = batfill("schedule", *options, "-s", endpoint)
    finally:
        over.set()
        batsim.join(10)
    said = [line for line in done.err.splitlines() if not line.startswith("batfill: listening on tcp://127.0.0.1:")]
    return (done.status, done.out, said), answers


@contextmanager
def scheduler(answer):
    """A scheduler in a thread, as the option that names it.

    `answer` turns a message into decisions; once it returns None the scheduler is gone.
    """
    there, over = threading.Event(), threading.Event()
    where: list[int] = []

    def serve():
        with zmq.Context() as context, context.socket(zmq.REP) as rep:
            rep.setsockopt(zmq.LINGER, 1000)
            where.append(rep.bind_to_random_port("tcp://127.0.0.1"))
            there.set()
            while not over.is_set():
                if not rep.poll(50):
                    continue
                message = json.loads(rep.recv())
                decisions = answer(message)
                if decisions is None:
                    return
                now = message["now"]
                events = [{"timestamp": now, "type": kind, "data": data} for kind, data in decisions]
                rep.send(json.dumps({"now": now, "events": events}).encode())

    thread = threading.Thread(target=serve)
    thread.start()
    assert there.wait(10)
    try:
        yield ["-s", f"tcp://127.0.0.1:{where[0]}"]
    finally:
        over.set()
        thread.join(10)
        assert not thread.is_alive()
