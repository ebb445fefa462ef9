# What the other houses use of the core, by module. Each name is documented where it is defined; one that is neither
# here nor in `__init__.pyi` may change at any time. Only type checkers, editors and a test read this file; the test
# keeps it equal to what is used.
# ruff: noqa: F401, I001
# fmt: off

from batfill import engine

# What any program needs
from batfill.base import version
from batfill.base.documents import Document, KeyPath, read_document
from batfill.base.doors import door
from batfill.base.errors import (
    BatfillError, Interrupted, LARGEST, MissingExtra, RunFailed, WorkloadError, installed, library_version,
    nearest, on_command_line, optional, require,
)
from batfill.base.files import (
    LONGEST_LINE, all_or_none, csv_text, decompressed, digest, json_text, make_folder, raw_file, read_json,
    readable, remove_left_overs, scratch_folder, whole_lines, write_json, write_text,
)
from batfill.base.kernels import Array, F4, F8, I1, I8, Many, ManyOf, U1, U4, digest_of, entry, kernel, outlined, record
from batfill.base.memory import require_memory
from batfill.base.processes import Bar, Remaining, cpu_count, spread
from batfill.base.progress import patient_progress
from batfill.base.stats import (
    BETTER, CONFIDENCE, FEWEST_BLOCKS, Paired, RESAMPLES, UNCLEAR, WORSE, comparison_warnings, decidable,
    few_blocks, holm, least_squares, paired, signed_least_squares, variance_inflation,
)
from batfill.base.tables import JobRows, Keyed, as_table, data_frame, in_columns, label_html, rows_html, text_html
from batfill.base.version import ENGINE, __version__
from batfill.base.words import duration, in_a_row, instant, percent, things, wrapped

# The decision: kernels and their records, for what compiles its own loop
from batfill.engine.easy import backfill_behind_head, easy_pass, reserve
from batfill.engine.ends import ONE, clear_ends, enter, next_end_s
from batfill.engine.keys import section_of, set_aged_key, set_mixed_key
from batfill.engine.loop import (
    AT_START, BEFORE_START, Events, Given, REACHED, TO_DECIDE, advance, next_change_s, record_start, reset,
)
from batfill.engine.motion import BY_EXPECTED, BY_SECOND, FIXED, UNLIMITED_S
from batfill.engine.records import AWAY, JOB, LINE, QueueArrays, TRY
from batfill.engine.running import charged, may_backfill, reservation
from batfill.engine.sources import FILES, SOURCES
from batfill.engine.tree import LEAF
from batfill.engine.waiting import dequeue, enqueue_at, start_heads, start_waiting

# Jobs, options, policies, schedules, as plain data
from batfill.model import policy
from batfill.model.calendar import ANNOUNCED, Calendar, NO_WINDOWS, Window
from batfill.model.invariants import require_at_most
from batfill.model.jobs import (
    Clock, DAY_S, HOUR_S, JobTable, Overrun, Unrequested, WEEK_S, Workload, checked_size, job_table,
    refuse_unrequested, size_warnings, zone_named,
)
from batfill.model.metrics import (
    RUNTIME_BINS, Summary, TAU_S, bounded_slowdown, class_figures, long_waits, overtaking, span_and_work,
    utilisation, who_pays, width_bins, width_class,
)
from batfill.model.options import (
    ALL, ALWAYS, CLASS, EVERY, FIRST_TRIES, FOREST, HALF, LEARNED, LIVE, NAMES, NO_PRESET, NO_SMALL, OFF, OPTIONS,
    Options, PREDICTIONS, PRESETS, REPLAYED, REQUEST, RUNTIME, SAME, SCHEDULING, SHARED_BY_CHOICES,
    SHARED_BY_TRIES, SMALLS, arguments_of, as_word, described, named_values, of_arguments, policy_words,
    refuse_replayed, shared_of, those_that_apply, with_preset,
)
from batfill.model.policy import FILE_FORMAT, POLICIES, Policy, Term, policy_named, polynomial, reads_submission
from batfill.model.rules import EVERY_JOB, Rules
from batfill.model.schedule import CUT, KILLED, REFUSED, REJECTED, STATES, Schedule
from batfill.model.values import number_of, number_or_text, probability_of, seconds_of, seed_of, tau_of, unrequested_of

# Logs
from batfill.workloads import formats, opened, read_workload
from batfill.workloads.batsim5_json import EXTRA_FIELD, fields_in
from batfill.workloads.batsim_json import load_document, user_of
from batfill.workloads.formats import System, format_of, replayable, save_log, source_of
from batfill.workloads.parquet_log import is_parquet, write_pieces
from batfill.workloads.resampling import MOST_WEEKS, ProfileWeeks, ResamplingMethod, resample
from batfill.workloads.scaling import runs
from batfill.workloads.splitting import Align, Boundary, Window as LogWindow, consecutive_windows, cut, windows
from batfill.workloads.swf import job_rows, machine_size
from batfill.workloads.swf_log import (
    CANCELLED, COMPLETED, Comment, FAILED, FIELD, FIELDS, SwfLog, UNKNOWN_STATUS, new_log, number_in, rows_in,
    write_rows,
)

# What a scheduler may know
from batfill.learn import SubmittedJob, forest
from batfill.learn.classifier import Classifier
from batfill.learn.events import EventQueue
from batfill.learn.habits import CATEGORIES, NO_CLOCK

# Result files, machines, and the embedded simulator
from batfill.batsim.external_events import read_external_events
from batfill.batsim.machines import intervals_of, intervals_text, machine_set
from batfill.batsim.platform import homogeneous_platform, read_platform
from batfill.batsim.results import (
    JOBS_CSV, JOBS_CSV_5, JobRecord, REPORT_PAGE, RUN_JSON, ResultError, Results, may_be_results, prefix_of,
    read_results, read_schedule, result_file,
)
from batfill.batsim.runner.commands import Command, end
from batfill.batsim.runner.context import is_listening
from batfill.batsim.runner.sessions import Lifeline, POLL_S, end_sessions
from batfill.batsim.runner.verdict import ending, quoted
from batfill.batsim.scheduler_link import scheduler_link
from batfill.batsim.simulation import Simulation
from batfill.batsim.wire import SimulationSettings, SimulationStopped
from batfill.batsim.wire4 import Wire4

# Replays
from batfill.replays.engine_replay import EngineReplay, available
from batfill.replays.learning import Confusion
from batfill.replays.many import in_threads
from batfill.replays.queue import Queue, copy_of, repeated, users_by_number
from batfill.replays.replay import nothing, options_of, simulate
from batfill.replays.result import Result, until_of
from batfill.replays.session import Replay

# Studies over periods
from batfill.search.periods import Conditions, Periods, costs_and_waits, read_periods
from batfill.search.results import Found, ReadingOptions, Seeded, document, judged, rows_over

# What commands share
from batfill.cli import aside, note, say, warn, wrote
from batfill.cli.parameters import (
    FILE, JSON, LOG_OUT, NEW_FILE, NEW_FOLDER, OVERRUN, PART, POSITIVE, POSITIVE_SECONDS, PROCS, SECONDS, SHARE,
    SIZE, SOURCE, TAU, UNREQUESTED, WHOLE, WORKLOAD, choice_option, command, out_option, scheduler_options,
    seed_option,
)
from batfill.cli.progress import progress
from batfill.cli.workload import log_in
