# The public names, by task: what each is, and where. This is the only list of them: `__init__.py` reads it to load the
# names and to write `help(batfill)`, and type checkers and editors read it as it stands.
# ruff: noqa: E402, I001

__version__: str
__all__: list[str]

# Workloads
from batfill.workloads import generate_workload, read_workload

read = read_workload  # a workload from a file in any format, or from a data frame
generate = generate_workload  # a workload of the Lublin-Feitelson model
from batfill.workloads.formats import write as write  # a workload into a file: SWF or Batsim JSON
from batfill.model.jobs import job_table as job_table  # a workload from lists, arrays, Series or dates
from batfill.model.jobs import Jobs as Jobs  # a workload: its jobs as columns, its machine, clock and origin
from batfill.model.limits.calendar import Calendar as Calendar  # windows in which processors are unavailable

# Policies
from batfill.model.policy import POLICIES

policies = POLICIES  # the policies that have names
from batfill.model.policy import Policy as Policy  # an order of the queue, also one of your own

# Replays
from batfill.replays.replay import replay as replay  # a workload under one policy
from batfill.replays.replay import replay_many as replay_many  # a workload under several policies, on all processors
from batfill.replays.session import Replay as Replay  # a replay that stops at any instant, forks, and is saved
from batfill.replays.result import Result as Result  # what a replay found: figures, every job, plots
from batfill_site.starts.when import when as when  # when the waiting jobs of a cluster are expected to start

# Comparisons and reports
from batfill_pages.comparison import compare as compare  # paired differences of replays, with intervals
from batfill_pages.write import report as report  # a page about replays, or about the result files of runs
from batfill_site.advice.what_if import what_if as what_if  # what other schedulers would have done on a cluster's log
from batfill_site.slurm.what_if import slurm as slurm  # what changes of its slurm.conf would have done on a site's log
from batfill_lab.campaigns import campaign as campaign  # a grid of replays from a file, resumed where it stopped

# Search and learning
from batfill_lab.search.tune import tune as tune  # the best mixed policy of a log's past weeks, tested on the next
from batfill_lab.learning.fit import fit as fit  # a policy fitted to simulated trials
from batfill_lab.search.select import select as select  # policies chosen online, period by period
from batfill_site.fidelity import fidelity as fidelity  # how far simulated waits are from those in a log

# Errors
from batfill.base.errors import BatfillError as BatfillError  # unusable input; the message says what to correct
