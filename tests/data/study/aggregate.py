"""Print the mean waiting time and the makespan of every experiment, as CSV."""

import csv
import sys
from pathlib import Path

table = csv.writer(sys.stdout)
table.writerow(["scheduler", "workload", "jobs", "mean_waiting_time", "makespan"])
for path in sorted(Path("out").glob("*/_schedule.csv")):
    scheduler, workload = path.parent.name.split("_")
    with path.open() as file:
        (row,) = csv.DictReader(file)
    table.writerow([scheduler, workload, row["nb_jobs_success"], row["mean_waiting_time"], row["makespan"]])
