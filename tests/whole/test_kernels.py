"""The border between Python and the compiled kernels: what is passed, what is loaded, and what both rest on."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import batfill
from batfill.base import kernels, sums
from batfill.base.errors import BatfillError
from batfill.engine import blocks, ends
from batfill.engine.sources import SOURCES, digest_of
from batfill.learn import estimates
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from strategies import random_table

PACKAGE = Path(batfill.__file__).parent
ROOT = Path(__file__).parents[2]
compiled = pytest.mark.compiled


# What kernels are


def test_the_digest_of_the_engine_is_that_of_its_files():
    assert digest_of(*sorted((PACKAGE / "engine").glob("*.py"))) == SOURCES


# What Python passes


@compiled
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda array: array[::2], "strided"),
        (lambda array: array.astype(np.float32), "float32"),
        (lambda array: array[None], "2 axes"),
        (lambda array: array.tolist(), "list where an array is needed"),
        (lambda array: np.frombuffer(array.tobytes()), "read-only"),
    ],
)
def test_an_array_that_is_not_what_a_kernel_takes_is_refused(wrong, says):
    weights, scale, gradient, state = (np.ones(8) for _ in range(4))
    with pytest.raises((TypeError, Exception), match=f"descend: weights.*{says}"):
        estimates.descend(np.ones(8), 1.0, 1.0, 0.1, wrong(weights), scale, gradient, state)


@compiled
def test_a_kernel_reads_what_it_does_not_change_from_an_array_that_cannot_be_written():
    assert sums.add(np.frombuffer(np.ones(3).tobytes())) == 3


@compiled
def test_a_record_is_checked_when_a_kernel_first_takes_it():
    whole = ends.new_ends(8)
    assert ends.next_end_s(whole) == np.inf
    for wrong in (
        whole._replace(slots=whole.slots[::2]),
        whole._replace(directory=whole.slots),
        whole._replace(used=None),
        tuple(whole),
        blocks.new_blocks(4, 8, 0),
        3,
    ):
        with pytest.raises((TypeError, Exception), match=r"Ends"):
            ends.next_end_s(wrong)


@compiled
def test_a_number_of_the_wrong_kind_is_refused():
    with pytest.raises(Exception, match="argument 1"):
        blocks.width_of(2.5)
    with pytest.raises(Exception, match="argument 2"):
        ends.enter(ends.new_ends(8), "soon", 1, 0)
    assert blocks.width_of(np.int32(4)) == 4


@compiled
def test_copies_of_a_record_have_arrays_and_an_address_of_their_own():
    one = ends.new_ends(8)
    ends.enter(one, 5.0, 1, 0)
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one)), type(one)(*map(np.copy, one))):
        ends.enter(other, 3.0, 1, 1)
        assert (ends.next_end_s(one), ends.next_end_s(other)) == (5.0, 3.0)
    shared = copy.copy(one)
    assert shared.slots is one.slots
    moved = one._replace(slots=one.slots.copy())
    ends.enter(moved, 2.0, 1, 1)
    assert ends.next_end_s(shared) == one.slots["end_s"][1]  # the directory is shared, the slots are not


@compiled
def test_a_record_keeps_what_kernels_read_alive():
    made = [ends.new_ends(2000) for _ in range(50)]
    for place, one in enumerate(made):
        ends.enter(one, float(place), 1, 0)
    gc.collect()
    rubbish = [np.full(100_000, np.nan) for _ in range(20)]
    assert [ends.next_end_s(one) for one in made] == list(map(float, range(50)))
    del rubbish


@pytest.mark.compiled
def test_replays_in_threads_and_in_a_forked_process_are_the_same():
    jobs = random_table(3, n_jobs=200, size=16, span_s=900)
    known = replay_jobs(jobs, 16, Rules(policy_named("saf"))).start_s
    found = [None] * 4

    def work(place):
        found[place] = replay_jobs(jobs, 16, Rules(policy_named("saf"))).start_s

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.tobytes() == known.tobytes() for one in found)
    run = EngineReplay(jobs, 16, Rules(policy_named("saf")))
    run.advance(300.0)
    child = os.fork()
    if child == 0:
        run.advance()
        os._exit(0 if run.start_s.tobytes() == known.tobytes() else 1)
    assert os.waitpid(child, 0)[1] == 0
    run.advance()
    assert run.start_s.tobytes() == known.tobytes()


def test_a_queue_grows_while_a_kernel_holds_none_of_its_old_arrays():
    queue = Queue(4, Rules(policy_named("fcfs")), capacity=2)
    for row in range(300):
        queue.submit(str(row), float(row), 10.0, 4)
        gc.collect(0)
    assert queue.decide(300.0).tolist() == [0]
    assert len(queue.waiting_rows) == 299


# What is loaded


@pytest.fixture
def installed(tmp_path):
    """The library of a copy of the package, which has no studies."""
    shutil.copytree(PACKAGE.parent, tmp_path / "schedulers", ignore=shutil.ignore_patterns("__pycache__"))
    yield tmp_path / "schedulers" / "batfill" / "kernels.so"
    kernels.libraries.cache_clear()


@compiled
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "cannot be loaded"),
        (lambda path: path.write_bytes(b""), "cannot be loaded"),
        (lambda path: path.write_text("no library"), "cannot be loaded"),
        (lambda path: path.write_bytes(other_processor(path.read_bytes())), "cannot be loaded"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be loaded"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_named_with_what_to_do(installed, damage, says):
    damage(installed)
    with pytest.raises(BatfillError, match=rf"batfill/kernels.so: .*{says}.*run `make kernels`"):
        kernels.libraries(installed)


def other_processor(library):
    """The library as if it were for IBM's z machines: bytes 18 and 19 name the processor."""
    return library[:18] + b"\x16\x00" + library[20:]


@compiled
@pytest.mark.parametrize("name", ["engine/easy.py", "base/kernels.py", "../batfill_site/slurm/loop.py"])
def test_a_library_made_before_a_kernel_changed_is_refused(installed, name):
    path = installed.parent / name
    path.write_text(path.read_text() + "# changed\n")
    with pytest.raises(BatfillError, match=rf"compiled before {name} changed; run `make kernels`"):
        kernels.libraries(installed)


def test_files_with_types_or_constants_of_kernels_make_the_library_stale():
    # A constant is a number in the compiled code: a library older than its file would go on with the former one.
    sources = kernels.sources_of(kernels.LIBRARY)
    for path in ("batfill/engine/records.py", "batfill_site/slurm/records.py", "batfill_site/slurm/site.py"):
        assert os.path.relpath(ROOT / "schedulers" / path, kernels.LIBRARY.parent) in sources


REPLAY = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
from batfill.cli import main
main(["replay", "workloads/sample.json", "--policy", "saf", "--json"])
"""


@compiled
@pytest.mark.parametrize("plain", ["", "1"])
def test_a_replay_needs_no_compiler_and_is_the_same_as_plain_python(plain):
    said = subprocess.run(
        [sys.executable, "-c", REPLAY],
        cwd=ROOT,
        env={**os.environ, "BATFILL_PLAIN": plain},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert '"mean_wait_s": 6184.9375' in said.stdout
    assert said.stderr == ""
