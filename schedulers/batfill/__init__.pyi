# The public names, by task: what each is, and where. This is the only list of them: `__init__.py` reads it to load the
# names and to write `help(batfill)`, and type checkers and editors read it as it stands.
# ruff: noqa: E402, I001

__version__: str
__all__: list[str]

# Workloads
from batfill.workloads import generate_workload, read_workload

read = read_workload  # a workload from a file in any format, or from a data frame
generate = generate_workload  # a workload of the Lublin-Feitelson model
from batfill.workloads.formats import write as write  # a workload into a file: SWF, Batsim JSON or Parquet
from batfill.model.jobs import job_table as job_table  # a table of jobs from lists, arrays, Series or dates
from batfill.model.jobs import JobTable as JobTable  # the jobs of a workload as columns
from batfill.model.jobs import Workload as Workload  # a table of jobs with its machine and its origin
from batfill.model.calendar import Calendar as Calendar  # windows in which processors are unavailable

# Policies
from batfill.model.policy import POLICIES

policies = POLICIES  # the policies that have names
from batfill.model.policy import Policy as Policy  # an order of the queue, also one of your own
from batfill.model.networks import network_of as network_of  # a small neural network from its layers
from batfill.model.policy import picked_by as picked_by  # the policy under which a network picks the next job
from batfill.model.policy import save_network as save_network  # write a network to a file, for the policy nn@FILE

# Replays
from batfill.replays.replay import replay as replay  # a workload under one policy
from batfill.replays.replay import replay_many as replay_many  # a workload under several policies, on all processors
from batfill.replays.session import Replay as Replay  # a replay that stops at any instant, forks, and is saved
from batfill.replays.result import Result as Result  # what a replay found: figures, every job, plots
from batfill.replays.when import when as when  # when the waiting jobs of a cluster are expected to start
from batfill.replays.when import ForecastOfReplay

Forecast = ForecastOfReplay  # the same as a replay goes on, with intervals that each start calibrates

# Comparisons and reports
from batfill.reports.comparison import compare as compare  # paired differences of replays, with intervals
from batfill.reports.write import report as report  # a page about replays, or about the result files of runs
from batfill.reports.what_if import what_if as what_if  # what other schedulers would have done on a cluster's log
from batfill.campaigns import campaign as campaign  # a grid of replays from a file, resumed where it stopped
from batfill.reports.siteconfig import site_config

export_config = site_config  # a batch system's configuration for a policy

# Search and learning
from batfill.search.tune import tune as tune  # the best mixed policy of a log's past weeks, tested on the next
from batfill.search.fit import fit as fit  # a policy fitted to simulated trials
from batfill.search.select import select as select  # policies chosen online, period by period
from batfill.search.fidelity import fidelity as fidelity  # how far simulated waits are from those in a log

# Errors
from batfill.base.errors import BatfillError as BatfillError  # unusable input; the message says what to correct
