"""Networks in files: what is written is read back, damage is refused in one line, and every host takes them."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError, PolicyError
from batfill.engine.features import FEATURES, FEATURES_OF_CLUSTER
from batfill.live.agent import Agent
from batfill.model.jobs import Workload
from batfill.model.networks import FORMAT
from batfill.model.options import Options
from batfill.model.policy import network_in_file, policy_named
from command import json_result, refusal
from strategies import random_table

SAMPLE = Path(__file__).parents[1] / "workloads" / "sample.json"


def random_network(seed=0, visible=16, widths=(FEATURES, 5, 1)):
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=pair), rng.normal(size=pair[1])) for pair in pairwise(widths)]
    return bf.network_of(layers, visible=visible)


@pytest.fixture
def trained(tmp_path):
    """A network's file."""
    bf.save_network(tmp_path / "trained.npz", random_network(), base="saf", about={"episodes": 3})
    return tmp_path / "trained.npz"


def changed(path, **arrays):
    """Write the file again with other content: an array, or None to leave it out."""
    with np.load(path) as stored:
        kept = dict(stored) | arrays
    np.savez(path, **{name: array for name, array in kept.items() if array is not None})


def test_a_network_is_read_as_it_was_written(trained):
    made, read = random_network(), policy_named(f"nn@{trained}")
    assert read.network.layers == made.layers == (FEATURES, 5, 1)
    assert read.network.weights.tobytes() == made.weights.tobytes()
    assert read.network.visible == 16
    assert (read.name, read.moves) == (f"nn@{trained}", False)
    assert read.digest == hashlib.sha256(trained.read_bytes()).hexdigest()
    assert json.loads(read.source.removeprefix(f"{trained}: ")) == {"episodes": 3}
    assert read.formula == "a network of 16-5-1 units picks among the first 16 by saf"
    # In the order of `Network`: weights of a layer row by row, then its biases.
    layers = [(np.arange(2.0 * FEATURES).reshape(FEATURES, 2), [100, 101]), ([[7], [8]], [9])]
    flat = bf.network_of(layers).weights.tolist()
    assert flat == [*range(2 * FEATURES), 100, 101, 7, 8, 9]


def test_equal_networks_are_equal_files_and_the_name_of_a_file_is_free(trained, tmp_path):
    other = tmp_path / "any name, at all"
    bf.save_network(other, random_network(), base="saf", about={"episodes": 3})
    assert other.read_bytes() == trained.read_bytes()
    assert policy_named(f" NN@{other} ").network is not None


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([], "its layers are 16 units wide; the first needs 16, the last 1"),
        ([(np.zeros((1, FEATURES)), [0])], r"layer 1 has weights of shape \(1, 16\).*transpose torch's weights"),
        ([(np.zeros((FEATURES, 2)), [0])], r"needs \(16, n\) and \(n,\)"),
        ([(np.zeros((FEATURES, 2)), [0, 0])], "its layers are 16-2 units wide"),
        ([(np.zeros((FEATURES, 2)), [0, 0]), (np.zeros((3, 1)), [0])], r"layer 2 .* needs \(2, n\)"),
        ([(np.full((FEATURES, 1), np.nan), [0])], "a weight is not a finite number"),
        ([(np.full((FEATURES, 1), 1e39), [0])], "a weight is not a finite number"),
        ([(np.zeros((FEATURES, 1)), ["a"])], "must be arrays of numbers"),
        ([(np.zeros(FEATURES), 0.0)], r"weights of shape \(16,\)"),
    ],
    ids=str,
)
def test_layers_that_are_no_network_are_refused(layers, why):
    with pytest.raises(PolicyError, match=why):
        bf.network_of(layers)


def test_a_base_order_is_fixed_and_named(tmp_path):
    with pytest.raises(PolicyError, match="a network needs a fixed order, and this one moves"):
        bf.save_network(tmp_path / "n", random_network(), base="wfp3")
    with pytest.raises(PolicyError, match=r"its base order 'area@f\.json' is in another file"):
        bf.picked_by(random_network(), base="area@f.json")
    with pytest.raises(PolicyError, match=r"policy 'sfa' is unknown.*did you mean 'srf'"):
        bf.picked_by(random_network(), base="sfa")
    with pytest.raises(BatfillError, match="about is not JSON"):
        bf.save_network(tmp_path / "n", random_network(), about={"of": object()})
    with pytest.raises(BatfillError, match="cannot be written"):
        bf.save_network(tmp_path / "away" / "n", random_network())
    assert not list(tmp_path.iterdir())


TWO = np.zeros(2, np.float32)
DAMAGES = {
    "format": ({"format": np.array("batfill network 0")}, f"the file is not a network's ({FORMAT})"),
    "no format": ({"format": None}, f"the file is not a network's ({FORMAT})"),
    "a feature fewer": ({"features_of_job": np.array(["wait"])}, "its features of job are wait, and those here wait, "),
    "other order": (
        {"features_of_cluster": np.array(list(FEATURES_OF_CLUSTER)[::-1])},
        "its features of cluster are extra, shadow",
    ),
    "no features": ({"features_of_job": None}, "its features of job are missing"),
    "no layers": ({"layers": None}, "the file lacks 'layers'"),
    "no weights": ({"weights": None}, "the file lacks 'weights'"),
    "no visible": ({"visible": None}, "the file lacks 'visible'"),
    "no base": ({"base": None}, "policy '' is unknown"),
    "no about": ({"about": None}, "how it was made is not JSON"),
    "about": ({"about": np.array("{")}, "how it was made is not JSON"),
    "short weights": ({"weights": TWO}, "weights of shape (2,); layers of these widths have 91"),
    "weights in rows": ({"weights": np.zeros((7, 13), np.float32)}, "weights of shape (7, 13)"),
    "wide floats": ({"weights": np.zeros(91)}, "its weights are float64, not float32"),
    "nan": ({"weights": np.full(91, np.nan, np.float32)}, "a weight is not a finite number"),
    "inf": ({"weights": np.full(91, np.inf, np.float32)}, "a weight is not a finite number"),
    "other inputs": ({"layers": np.array([15, 5, 1])}, "its layers are 15-5-1 units wide"),
    "other outputs": ({"layers": np.array([16, 5, 2])}, "its layers are 16-5-2 units wide"),
    "negative": ({"layers": np.array([16, -5, 1])}, "its layers are 16--5-1 units wide"),
    "half a unit": ({"layers": np.array([16, 5.5, 1])}, "its layers are not whole numbers"),
    "nobody": ({"visible": np.array(0)}, "it sees 0 jobs"),
    "several": ({"visible": np.array([1, 2])}, "its visible are not whole numbers"),
    "moving": ({"base": np.array("unicef")}, "a network needs a fixed order"),
    "unknown": ({"base": np.array("best")}, "policy 'best' is unknown"),
    "another": ({"base": np.array("nn@other")}, "is in another file"),
    "pickled": ({"weights": np.array([{}])}, "not a whole .npz file"),
}


@pytest.mark.parametrize(("arrays", "why"), DAMAGES.values(), ids=DAMAGES)
def test_a_file_that_is_no_network_of_these_features_is_refused(trained, arrays, why):
    changed(trained, **arrays)
    with pytest.raises(PolicyError, match=re.escape(why)) as caught:
        network_in_file(f"nn@{trained}")
    assert str(caught.value).startswith(f"policy nn@{trained}: ")
    assert "\n" not in str(caught.value)


def test_damaged_bytes_are_refused_or_change_nothing(trained):
    whole, made = trained.read_bytes(), random_network()
    rng = np.random.default_rng(1)
    accepted = 0
    for place in [*rng.integers(0, len(whole), 300).tolist(), *range(len(whole) - 60, len(whole))]:
        for content in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x21]) + whole[place + 1 :]):
            trained.write_bytes(content)
            with suppress(PolicyError):
                assert network_in_file(f"nn@{trained}").network.weights.tobytes() == made.weights.tobytes()
                accepted += 1
    assert accepted < 100


# Where it runs


@pytest.mark.needs("pandas")
def test_a_result_states_the_digest_of_the_file(trained, tmp_path):
    digest = {f"nn@{trained}": hashlib.sha256(trained.read_bytes()).hexdigest()}
    ran = bf.replay(SAMPLE, f"nn@{trained}")
    assert ran.as_dict()["policy_sha256"] == digest
    assert ran.to_pandas().attrs["policy_sha256"] == digest
    assert bf.replay_many(SAMPLE, [f"nn@{trained}", "saf"]).attrs["policy_sha256"] == digest
    assert json_result("replay", SAMPLE, "--policy", f"nn@{trained}")["policy_sha256"] == digest
    assert "policy_sha256" not in bf.replay(SAMPLE, "saf").as_dict()
    stated = Agent({"policy": f"nn@{trained}"}).stated()
    assert stated["policy_sha256"] == digest

    run = bf.Replay(SAMPLE, f"nn@{trained}").run(until_s=100_000)
    run.save(tmp_path / "run.npz")
    again = bf.Replay.load(tmp_path / "run.npz").run()
    assert again.result().schedule.start_s.tobytes() == ran.schedule.start_s.tobytes()
    assert run.fork(policy="saf").run().result().as_dict()["policy_sha256"] == digest
    bf.save_network(trained, random_network(seed=1), base="saf")
    with pytest.raises(BatfillError, match="held another network"):
        bf.Replay.load(tmp_path / "run.npz")


@pytest.mark.needs("pydantic")
def test_a_campaign_states_the_digest_and_runs_again_when_the_file_changes(trained, tmp_path):
    text = f"workloads: [{{file: {SAMPLE}}}]\npolicies: ['nn@{trained}', saf]\n"
    (tmp_path / "campaign.yaml").write_text(text)
    rows = []
    for seed in (0, 0, 1):
        bf.save_network(trained, random_network(seed=seed), base="saf", about={"episodes": 3})
        made = bf.campaign(tmp_path / "campaign.yaml", out=tmp_path / "out")
        digest = {f"nn@{trained}": hashlib.sha256(trained.read_bytes()).hexdigest()}
        table = made.to_pandas()
        stated = [json.loads(options).get("policy_sha256") for options in table["options"]]
        assert digest in stated
        assert None in stated
        rows.append(len(table))
    assert rows[0] == rows[1]


def test_a_network_is_refused_where_it_would_mean_nothing(trained, tmp_path):
    name = f"nn@{trained}"
    tune = ("tune", SAMPLE, "--days", "0.5")
    refusals = {
        ("replay", SAMPLE, "--backfill", name): "option backfill takes an order only",
        ("replay", SAMPLE, "--policy", name, "--small", "all", "--kill", "needed"): "kill: needed looks at",
        ("schedule", "--select", f"full:policies={name}+saf"): "a selection chooses among orders",
        ("schedule", "--backfill", name): "option backfill takes an order only",
        (*tune, "--policy", name): "only orders are replayed many at a time",
        ("select", SAMPLE, "--policies", name): "a selection chooses among orders",
        ("export-config", "slurm", "--policy", name): "a batch system's configuration gives a priority",
        ("replay", SAMPLE, "--policy", "nn@nowhere.npz"): "'nowhere.npz' cannot be read (No such file or directory)",
        ("replay", SAMPLE, "--policy", f"nn@{SAMPLE}"): "is not a whole .npz file",
    }
    for arguments, why in refusals.items():
        assert why in refusal(*arguments), arguments
    with pytest.raises(PolicyError, match="option predict_for: order would hide the predictions from it"):
        Options.of({"policy": name, "predict": "easy++", "predict-for": "order"})
    classed = Workload("made", random_table(1, n_jobs=10, size=8, span_s=30, small=0.5), 8)
    run = bf.Replay(classed, "saf", small="class", divider=60, kill="needed")
    with pytest.raises(PolicyError, match="kill: needed"):
        run.fork(policy=name)
