from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.cli import main
from batfill.errors import WorkloadError
from batfill.workloads.cleaning import RULES, clean, header_flurries, matching
from batfill.workloads.swf_log import new_log, read_log
from swf_text import row


def log(**columns):
    return new_log(["MaxProcs: 10"], {name: np.array(values, float) for name, values in columns.items()})


def test_wide_looks_at_allocated_and_requested_processors():
    made = clean(log(procs=[11, 10, 1], requested_procs=[1, 10, 11]), rules=["wide"], procs=10)
    assert made.log["procs"].tolist() == [10]
    assert made.dropped == {"wide": 2}


def test_processors_fills_in_the_one_that_is_unknown():
    made = clean(log(procs=[4, -1, -1, 3], requested_procs=[-1, 5, -1, 2]), rules=["processors"])
    assert made.log["procs"].tolist() == [4, 5, 3]
    assert made.log["requested_procs"].tolist() == [4, 5, 2]
    assert made.dropped == {"processors": 1}
    assert made.changed == {"processors filled in": 2}


def test_times_drops_negative_ones_and_ran_drops_zero_too():
    columns = {"submit_s": [0, -1, 5, 6], "runtime_s": [-1, 5, 0, 7]}
    assert clean(log(**columns), rules=["times"]).log["runtime_s"].tolist() == [0, 7]
    assert clean(log(**columns), rules=["times", "ran"]).dropped == {"times": 2, "ran": 1}


def test_duplicates_keeps_the_first_of_equal_rows():
    made = clean(log(job=[1, 2, 1], runtime_s=[5, 5, 5]), rules=["duplicates"])
    assert made.log["job"].tolist() == [1, 2]


def test_statuses_are_kept_and_others_counted():
    made = clean(log(status=[0, 1, 5, 1]), rules=[], statuses=[0, 1])
    assert made.log["status"].tolist() == [0, 1, 1]
    assert made.dropped == {"status not 0 or 1": 1}


def test_a_flurry_is_dropped_by_the_filter_of_a_header():
    text = "user=68 and (job>=58 and job<=564)"
    columns = {"job": [57, 58, 564, 565, 100], "user": [68, 68, 68, 68, 1]}
    assert matching(log(**columns), text).tolist() == [False, True, True, False, False]
    assert clean(log(**columns), rules=[], flurries=[text]).dropped == {f"flurry {text}": 2}


def test_filters_are_found_in_a_header():
    header = [
        "; Note: THIS IS A CLEANED VERSION OF THE LOG!",
        ";   job<=14 (14 jobs removed)",
        ";  user=1 (1 job removed)",
    ]
    assert header_flurries(header) == ["job<=14", "user=1"]


@pytest.mark.parametrize("text", ["", "user", "user=a", "colour=1", "user=1 or job=2", "user=1;job=2"])
def test_a_filter_in_other_words_is_refused(text):
    with pytest.raises(WorkloadError, match="is not FIELD OPERATOR NUMBER"):
        matching(log(job=[1]), text)


def test_overruns_are_kept_killed_or_left():
    columns = {"runtime_s": [50, 50, 50], "requested_s": [40, 60, -1]}
    runs = {how: clean(log(**columns), rules=[], overrun=how) for how in ("leave", "keep", "kill")}
    assert runs["leave"].log["runtime_s"].tolist() == [50, 50, 50]
    assert runs["keep"].log["requested_s"].tolist() == [50, 60, -1]
    assert runs["kill"].log["runtime_s"].tolist() == [40, 50, 50]
    assert runs["kill"].changed == {"overrun kill": 1}


def test_mistakes_are_said():
    with pytest.raises(WorkloadError, match="no cleaning rule 'tidy'; there are wide"):
        clean(log(job=[1]), rules=["tidy"])
    with pytest.raises(WorkloadError, match="pass --procs"):
        clean(log(job=[1]), rules=["wide"])
    with pytest.raises(WorkloadError, match=r"drops all 1 rows \(ran 1\)"):
        clean(log(runtime_s=[0]), rules=["ran"])


VALUES = st.integers(-1, 12)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES, VALUES), min_size=1, max_size=20),
    st.permutations(list(RULES)),
)
def test_rows_kept_and_dropped_add_up_and_cleaning_twice_changes_nothing(rows, rules):
    names = ("submit_s", "runtime_s", "procs", "requested_procs", "requested_s")
    full = log(**dict(zip(names, zip(*rows, strict=True), strict=True)))
    try:
        once = clean(full, rules=rules, procs=10)
    except WorkloadError:
        return
    assert len(once.log) + sum(once.dropped.values()) == len(full)
    twice = clean(once.log, rules=[rule for rule in rules if rule != "duplicates"], procs=10)
    assert sum(twice.dropped.values()) == sum(twice.changed.values()) == 0
    assert (twice.log.rows == once.log.rows).all()


def test_the_command_counts_every_rule_and_writes_it_into_the_header(tmp_path, capsys):
    source, out = tmp_path / "in.swf", tmp_path / "out.swf.gz"
    source.write_text("; MaxProcs: 4\n" + row(1, 0, 5) + row(2, 0, 5, req_procs=9) + row(3, 0, -1) + row(4, 0, 0))
    with pytest.raises(SystemExit) as ended:
        main(["workload", "clean", str(source), "--out", str(out), "--json"])
    assert ended.value.code == 0
    counts, err = capsys.readouterr()
    assert json.loads(counts)["dropped"] == {"wide": 1, "processors": 0, "times": 1, "ran": 1}
    for said in ("wide: 1 of 4 rows dropped", "times: 1 of 4", "ran: 1 of 4", "processors filled in: 1 rows", "1 rows"):
        assert said in err
    cleaned = read_log(out)
    assert cleaned["job"].tolist() == [1]
    assert "wide: 1 rows dropped" in cleaned.header[-2]
    assert "source in.swf, source_sha256" in cleaned.header[-1]


def test_flurries_of_a_cleaned_log_clean_the_original(archive_log, tmp_path, capsys):
    source, out = tmp_path / "in.swf", tmp_path / "out.swf"
    source.write_text(row(58, 0, 5, user=68) + row(600, 0, 5, user=68))
    cleaned = archive_log("SDSC-BLUE-2000-4.2-cln.swf.gz")
    with pytest.raises(SystemExit):
        main(["workload", "clean", str(source), "--out", str(out), "--rule", "ran", "--flurries-from", str(cleaned)])
    assert read_log(out)["job"].tolist() == [600]
