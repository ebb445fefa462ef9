import pytest

pytest.importorskip("pyarrow")

from batfill.campaigns.store import open_store
from batfill.reports.grids import campaign_comparisons, is_campaign
from command import json_result
from report_runs import campaign_row as row


@pytest.fixture
def campaign(tmp_path):
    """A function that leaves these rows in a folder, as a campaign that is under way does."""

    def store(*rows):
        with open_store(tmp_path / "study") as opened:
            opened.add(rows)
        return tmp_path / "study"

    return store


def test_choices_are_compared_on_the_windows_that_all_of_them_ran_on(campaign):
    folder = campaign(
        row("fcfs", 0, 4.0), row("fcfs", 1, 6.0), row("saf", 1, 5.0), row("saf", 0, 1.0), row("saf", 2, 9.0)
    )
    assert is_campaign(folder)
    (comparison,) = campaign_comparisons(folder)
    assert comparison.names == ("fcfs", "saf")
    assert comparison.bsld.tolist() == [[4, 6], [1, 5]]
    assert comparison.wait_s.tolist() == [[40, 60], [10, 50]]
    (d,) = comparison.differences(seed=0)
    assert (d.bsld.value, d.better) == (-2, 1)


def test_a_choice_with_several_seeds_counts_with_its_mean(campaign):
    folder = campaign(
        row("fcfs", None, 4.0),
        row("fcfs", None, 1.0, knowledge="forest", seed=1),
        row("fcfs", None, 3.0, knowledge="forest", seed=2),
    )
    (comparison,) = campaign_comparisons(folder)
    assert comparison.bsld.tolist() == [[4], [2]]


def test_the_seeds_of_resamplings_are_different_jobs(campaign):
    folder = campaign(
        *(
            row(policy, None, bsld + seed, seed=seed, sample=0)
            for policy, bsld in (("fcfs", 5), ("saf", 3))
            for seed in (1, 2)
        )
    )
    (comparison,) = campaign_comparisons(folder)
    assert comparison.bsld.tolist() == [[6, 7], [4, 5]]


def test_the_page_shows_a_campaign(campaign):
    folder = campaign(*(row(policy, window, window + 1.0) for policy in ("fcfs", "saf") for window in range(3)))
    page, *figures = json_result("report", folder, "--figures", "svg")
    assert page == str(folder / "report.html")
    text = (folder / "report.html").read_text()
    assert "<h1>log.swf: 2 choices compared</h1>" in text
    assert "Cannot tell: 3\u00a0pieces are too few." in text
    assert '<th scope=row>Smallest area first<span class="sub">saf</span></th>' in text
    assert str(folder / "pieces-bsld.svg") in figures
