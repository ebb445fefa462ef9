"""Why first tries work: the two figures of docs/results/first-tries.md.

`python -m studies.tables.first_tries_figures KTH-SP2.swf.gz CTC-SP2.swf.gz --out docs/results/first-tries`
writes rush.svg, the machine in one rush of the first log without and with first tries, and front.svg, the mean bounded
slowdown of both logs over the longest wait. Each log of the second figure is replayed with the promise's seeds.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

import numpy as np

import batfill as bf
from batfill.base.files import write_text
from batfill.base.version import __version__
from batfill.batsim_files.replayed import Tries
from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.options import Options
from batfill.replays.replay import simulate
from batfill_pages.figures import STYLE
from batfill_pages.palette import JOBS, LIGHT, REST
from studies.tables.common import by_name, progress
from studies.tables.promise import SEEDS, figures_of, moved

FIRST_TRIES, FCFS = {"preset": "first-tries"}, {}
SETTINGS = {"FCFS": FCFS, "first tries": FIRST_TRIES}
DRAWN = {**STYLE, "svg.fonttype": "none", "axes.grid": False, "font.family": "sans-serif"}

# The rush: the jobs submitted within half a day of KTH-SP2, from an empty machine. It was chosen since what happens is
# easy to see, and since first tries gain on it what they gain on the whole log.
RUSH_S, RUSH_LASTS_S, SHOWN_S = 135 * DAY_S + 22 * HOUR_S, 12 * HOUR_S, 16 * HOUR_S
SHORT_S = 120  # the jobs in red run for at most that

THRESHOLDS_H = (2, 4, 8, 12, 24, 48, 96, 144)  # of SAF
NAMED_H = (48, 96, 144)


def rush_figure(log, from_s):
    """The machine over time under both, and how many jobs wait."""
    from matplotlib.figure import Figure

    jobs = log.jobs.select((log.jobs.submit_s >= from_s) & (log.jobs.submit_s < from_s + RUSH_LASTS_S))
    figure = Figure(figsize=(7.4, 6.4), layout="constrained")
    *machines, queue = figure.subplots(3, sharex=True, height_ratios=(3, 3, 1.5))
    for axes, colour, (name, setting) in zip(machines, (REST[1], LIGHT[0]), SETTINGS.items(), strict=True):
        schedule, _ = simulate(jobs, log, Options.of(setting))
        draw_machine(axes, schedule, from_s)
        found = figures_of(schedule)
        kills = f", {found.kills} tries killed" if found.kills else ""
        axes.set_title(
            f"{name}: mean bounded slowdown {found.bsld:.1f}, mean wait {found.wait / HOUR_S:.1f} h, "
            f"longest {found.longest / HOUR_S:.1f} h{kills}",
            fontsize=8,
            loc="left",
        )
        draw_queue(queue, schedule, from_s, colour, name)
    queue.set(xlabel="hours", ylabel="jobs that wait", xlim=(0, SHOWN_S / HOUR_S), ylim=(0, None))
    queue.legend(frameon=False)
    figure.legend(*machines[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure, len(jobs)


def draw_machine(axes, schedule, from_s):
    """Each try as bars over its processors: short jobs, killed tries, all others."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    tries = Tries(schedule)
    short = schedule.runtime_s[tries.row] <= SHORT_S
    looks = {
        "runs for longer than two minutes": (~short & ~tries.killed, JOBS[1], "white"),
        "a try that is killed": (tries.killed, JOBS[2], JOBS[2]),
        "runs for at most two minutes": (short & ~tries.killed, JOBS[3], JOBS[3]),
    }
    for name, (chosen, colour, edge) in looks.items():
        bars = [
            ((left, first), (right, first), (right, last + 1), (left, last + 1), (left, first))
            for i in np.flatnonzero(chosen & (tries.start_s < from_s + SHOWN_S))
            for left, right in [((at_s - from_s) / HOUR_S for at_s in (tries.start_s[i], tries.end_s[i]))]
            for first, last in tries.machines.of(i)
        ]
        if bars:
            outlines = Path.make_compound_path(*(Path(corners, closed=True) for corners in bars))
            axes.add_patch(PathPatch(outlines, facecolor=colour, edgecolor=edge, linewidth=0.6, label=name))
    axes.set(ylabel="processors", ylim=(0, schedule.size))


def draw_queue(axes, schedule, from_s, colour, name):
    """How many jobs wait; one whose try was killed waits until its second start."""
    submit_s, start_s = np.sort(schedule.jobs.submit_s), np.sort(schedule.start_s)
    at_s = np.unique(np.concatenate([[from_s], submit_s, start_s]))
    waiting = np.searchsorted(submit_s, at_s, "right") - np.searchsorted(start_s, at_s, "right")
    axes.step((at_s - from_s) / HOUR_S, waiting, where="post", color=colour, label=name)


def front_figure(logs):
    """Mean bounded slowdown over longest wait, a point for each seed, and their means."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    for axes, (name, log) in zip(figure.subplots(1, len(logs)), logs.items(), strict=True):
        replicas = [moved(log.jobs, seed) for seed in SEEDS]
        guarded = {f"{hours} h": {"policy": "saf", "threshold": hours * HOUR_S} for hours in THRESHOLDS_H}
        points = {
            setting: [figures_of(simulate(each, log, Options.of(options))[0]) for each in replicas]
            for setting, options in {**SETTINGS, "SAF": {"policy": "saf"}, **guarded}.items()
        }
        at = {
            setting: np.array([[one.longest / HOUR_S, one.bsld] for one in found]) for setting, found in points.items()
        }
        progress(f"{name}: {', '.join(f'{key} {value.mean(axis=0).round(1)}' for key, value in at.items())}")
        means = np.array([at[setting].mean(axis=0) for setting in guarded])
        axes.plot(*means.T, "-", color=LIGHT[1], linewidth=0.8, zorder=1)
        draw_points(axes, np.stack([at[setting] for setting in guarded]), LIGHT[1], "D", "SAF with a threshold")
        draw_points(axes, at["FCFS"][None], REST[1], "s", "FCFS")
        draw_points(axes, at["first tries"][None], LIGHT[0], "o", "first tries")
        for hours, at_point in zip(THRESHOLDS_H, means, strict=True):
            if hours in NAMED_H:
                axes.annotate(f"{hours} h", at_point, (0, 6), textcoords="offset points", fontsize=7, ha="center")
        alone = "SAF without a threshold: {:,.0f} h, {:.1f}".format(*at["SAF"].mean(axis=0))
        axes.text(0.98, 0.03, alone, transform=axes.transAxes, ha="right", fontsize=7)
        axes.set(xlabel="longest wait, hours", title=name, xlim=(60, 210), ylim=(0, None))
        axes.set_ylabel("mean bounded slowdown, tau 60 s")
        axes.legend(fontsize=7)
    return figure


def draw_points(axes, values, colour, mark, label):
    """Points of shape (n_settings, n_seeds, 2): every seed small, and the means."""
    axes.plot(*values.reshape(-1, 2).T, mark, color=colour, alpha=0.35, markersize=2)
    axes.plot(*values.mean(axis=1).T, mark, color=colour, markersize=5, label=label)


def save(figure, path):
    """Write the figure as SVG; two decimals of a point are enough."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": f"batfill {__version__}"})
    write_text(path, re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text.getvalue()))


def main():
    """Write both."""
    import matplotlib as mpl

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs=2, type=Path, help="SWF files")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    given = parser.parse_args()
    logs = {name: bf.read(path) for name, path in by_name(given.logs).items()}
    given.out.mkdir(exist_ok=True)
    with mpl.rc_context(DRAWN):
        rush, n_jobs = rush_figure(next(iter(logs.values())), RUSH_S)
        progress(f"rush.svg: {n_jobs} jobs")
        save(rush, given.out / "rush.svg")
        save(front_figure(logs), given.out / "front.svg")


if __name__ == "__main__":
    main()
