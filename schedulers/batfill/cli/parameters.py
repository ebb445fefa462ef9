"""Options that several commands share, each declared once, and the scheduler's, from their table."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from batfill.base.errors import LARGEST, BatfillError, nearest, whole_from
from batfill.cli import note
from batfill.cli.app import named, option_name
from batfill.model.kinds import LIVE_ONLY, PREDICTIONS, SMALL_JOBS, URGENT_JOBS, WHAT
from batfill.model.options import LIVE, NAMES, NO_PRESET, OPTIONS, PRESETS, refuse_other
from batfill.model.values import UNREQUESTED as UNREQUESTED_WORDS
from batfill.model.values import (
    has_policy_name,
    number_of,
    number_or_text,
    part_of,
    probability_of,
    seconds_of,
    speed_given,
    unrequested_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from click.shell_completion import CompletionItem

    from batfill.base.files import Writes
    from batfill.model.kinds import Option

    Command = TypeVar("Command", bound=Callable[..., Any])

HOSTS = "batfill.hosts"  # in the meta of a command's context: the number of hosts of its --platform
FORMS = {".html", ".json", ".csv", ".xml"}  # of files that a command writes in one form, each by its suffix
WORDS = "batfill.words"  # in the meta of a command's context: the words given for each parameter
MOST_MS = 2**31 - 1  # ZeroMQ's longest timeout, 24 days


SLURM = "a site's own Slurm"
# Headings of a command's help, in their order; "" is the command's own.
GROUPS = (WHAT, URGENT_JOBS, SMALL_JOBS, PREDICTIONS, LIVE_ONLY, "", SLURM, "periods", "log", "output")
GROUP_OF = {
    **dict.fromkeys(("days", "months", "boundary", "skip", "count", "min-jobs", "training", "last"), "periods"),
    **dict.fromkeys(("procs", "tau", "overrun", "unrequested", "cancelled", "speed", "platform", "at"), "log"),
    **dict.fromkeys(("out", "json", "help"), "output"),
    **dict.fromkeys(("slurm-conf", "accounts", "sshare", "windows", "slurm-version"), SLURM),
    **dict.fromkeys(("set", "add-nodes", "runs", "timezone"), SLURM),
    "threshold": WHAT,
}


class OfScheduler(click.Option):
    """An option of the scheduler's table."""

    def __init__(self, *args: Any, group: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self.group = group


def group_of(option: click.Option) -> str:
    return (isinstance(option, OfScheduler) and option.group) or GROUP_OF.get(option_name(option), "")


def files_in(value: Any) -> Iterator[str]:
    """The files that words for a parameter may name: the words themselves, and FILE in area@FILE."""
    for word in [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []:
        yield from (str(word), *(part.partition(",")[0] for part in str(word).split("@")[1:]))


class OnceCommand(click.Command):
    """A command that takes each option once, but for those that are lists, and shows a scheduler's in their groups.

    It overwrites nothing that it reads.
    """

    def __init__(self, *args: Any, heading: str = "", **more: Any) -> None:
        """`heading`: above its own options, in the help of a command with options of a scheduler."""
        super().__init__(*args, **more)
        self.heading = heading

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; refuse to write a file that another of them names, be it read or written."""
        from batfill.base.files import require_other

        rest = super().parse_args(ctx, args)
        given: dict[str, Any] = ctx.meta.get(WORDS, {})
        for param in self.params:
            path = ctx.params.get(param.name or "")
            if not isinstance(param.type, PathParam) or not isinstance(path, Path):
                continue
            others = [value for name, value in given.items() if name != param.name]
            for place in param.type.written(path):
                require_other(named(param), place, [Path(file) for value in others for file in files_in(value)])
            param.type.require_form(path, param, ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options; under headings if the table's are among them."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record is not None:
                groups.setdefault(group_of(param), []).append(record)
        if not any(isinstance(param, OfScheduler) for param in self.params):
            super().format_options(ctx, formatter)
            return
        formatter.write_paragraph()
        for group, records in sorted(groups.items(), key=lambda item: GROUPS.index(item[0])):
            heading = group or self.heading
            formatter.write_heading(f"{heading[:1].upper()}{heading[1:]}")
            with formatter.indentation():
                formatter.write_dl(records, col_max=22)

    def make_parser(self, ctx: click.Context) -> Any:
        """Click's, but for an option that is given twice, and without hidden ones among those that it suggests."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            try:
                parsed = parse(args)
            except click.NoSuchOption as error:
                hidden = {name for param in self.params if getattr(param, "hidden", False) for name in param.opts}
                known = [name for name in error.possibilities or () if name not in hidden]
                raise click.NoSuchOption(error.option_name, possibilities=known, ctx=ctx) from None
            ctx.meta[WORDS] = parsed[0]
            given: set[click.Parameter] = set()
            for param in parsed[2]:
                if param in given and isinstance(param, click.Option) and not (param.multiple or param.is_eager):
                    named = "/".join([*param.opts, *param.secondary_opts])
                    raise click.UsageError(f"{named} is given more than once; give it once", ctx)
                given.add(param)
            return parsed

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser


def command(name: str | None = None, **more: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command of the command line; the arguments are click's."""
    return click.command(name, cls=OnceCommand, **more)


class Choice(click.Choice):  # type: ignore[type-arg]  # older clicks have no generic one
    """One of some words; a word that is none is answered with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r} is not one of {', '.join(self.choices)}{nearest(str(value), self.choices)}", param, ctx
            )


class PathParam(click.Path):
    """A path; of what the command writes (`writes`), one that can be written, which is checked before any work."""

    def __init__(self, writes: Writes | None = None, example: str = "out", also: str = "") -> None:
        """`writes` and `example` as for `require_place`, None: the command reads it; `also`: a second suffix."""
        super().__init__(path_type=Path)
        self.also = also
        self.writes = writes
        self.example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from batfill.base.files import require_place

        try:
            os.lstat(value or "\0")
        except (OSError, ValueError) as error:  # ValueError: with a NUL
            if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
                self.fail(f"{value!r:.80} is no path; give one", param, ctx)
        if self.writes is not None:
            require_place(f"--{option_name(param)}", str(value), self.writes, self.example)
        return super().convert(value, param, ctx)

    def require_form(self, path: Path, param: click.Parameter, ctx: click.Context) -> None:
        """Refuse a file whose suffix is of another form than that in which the command writes, or for several files."""
        from batfill.base.files import PACKED

        form = Path(self.example).suffix
        given = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix not in PACKED), form)
        if self.writes == "file" and given not in (form, self.also) and {form, given} <= FORMS:
            self.fail(f"{path!s:.80} is written as {form[1:].upper()}; name it *{form}", param, ctx)
        if self.writes in ("prefix", "folder") and given in {*FORMS, ".swf"}:
            begin = path.with_name(path.name[: path.name.lower().index(given)] or self.example)
            page = f"; then `batfill report {begin}` makes a page" * ((self.writes, given) == ("prefix", ".html"))
            self.fail(f"{path!s:.80} is no file here, but a {self.writes}; give {begin!s:.80}{page}", param, ctx)

    def written(self, path: Path) -> list[Path]:
        """The files that the command writes there, as far as their names are known before."""
        if self.writes == "prefix":
            from batfill.batsim_files.results import JOBS_CSV_5, result_file, written_by_run

            return written_by_run(result_file(path, JOBS_CSV_5))
        return [path] if self.writes == "file" else []


FILE = PathParam()
NEW_FILE = PathParam("file")
NEW_FOLDER = PathParam("folder")


class Checked(click.ParamType):  # type: ignore[type-arg]  # older clicks have no generic one
    """A value checked by the library, so that every host refuses it with the same words."""

    def __init__(self, name: str, check: Callable[[str, Any], Any], words: Sequence[str] = ()) -> None:
        """`check` takes the option's name and value; `words` are completions for a shell."""
        self.name, self.check, self.words = name, check, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.check(option_name(param), number_or_text(value))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.known() if word.startswith(incomplete)]

    def known(self) -> Sequence[str]:
        return self.words


class PolicyName(Checked):
    """The name of a policy, or several names, as given; an unknown one is refused before any work."""

    def __init__(self, *more: str, several: bool = False) -> None:
        """`more`: words accepted instead; `several`: names separated by commas."""
        super().__init__("policy", lambda _, value: value)
        self.more, self.several = more, several

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        plain = not self.several and "batfill.model.policy" not in sys.modules  # to which users may add their own
        if value in self.more or (plain and has_policy_name(value)):
            return value
        from batfill.model.policy import names_in, policy_named

        for name in names_in(value) if self.several else [value]:
            policy_named(name)
        return value

    def known(self) -> Sequence[str]:
        from batfill.model.policy import POLICIES

        return (*self.more, *POLICIES)


class Whole(click.IntRange):
    """A whole number from `min` to `max`."""

    name = "integer"

    def _describe_range(self) -> str:
        return f"x>={self.min}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        least, most = int(self.min or 0), int(self.max or LARGEST)
        number = number_or_text(value)
        if type(number) is not int or not least <= number <= most:
            self.fail(f"{value!r} is not {whole_from(least, most)}", param, ctx)
        return number


def milliseconds_of(name: str, value: Any) -> int:
    """A number of milliseconds, as for pybatsim's launcher, or a duration with its unit; rounded up, as 0 is never."""
    if isinstance(value, str):
        with suppress(BatfillError):  # which is worded in seconds
            value = seconds_of(name, value) * 1000
    rule = f"a number of milliseconds from 0 to {MOST_MS}, or a duration such as 30s"
    return -int(-number_of(name, value, 0, MOST_MS, rule) // 1)


def collecting(into: str, options: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add these options, each with click's arguments, passed to the command as one mapping of those that are given.

    `into`: the command's argument that takes it.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def collected(**values: Any) -> Any:
            given = {name: values.pop(name) for name in options}
            return command(**values, **{into: {name: one for name, one in given.items() if one not in (None, ())}})

        for name, how in options.items():
            collected = click.option(f"--{name.replace('_', '-')}", **how)(collected)
        return collected

    return add


link_options = collecting(
    "links",
    {
        name: {
            "metavar": name.upper(),
            "help": f"{name.title()} of every link of the platform, such as {example}. [default: {usual}]",
        }
        for name, example, usual in (("latency", "50us", "0us"), ("bandwidth", "1.25GBps", "1e21Bps"))
    },
)


def speed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--speed` and `--platform`, passed to the command as one `speed` in operations per second, or None."""

    @wraps(command)
    def collected(*, platform: Path | None, **values: Any) -> Any:
        if platform is not None:
            from batfill.batsim_files.platform import read_platform

            if values["speed"] is not None:
                raise click.UsageError("--speed and --platform exclude each other; give one of them")
            found = read_platform(platform)
            values["speed"] = found.speed
            click.get_current_context().meta[HOSTS] = len(found.compute)
        return command(**values)

    return SPEED(click.option("--platform", type=FILE, help="The platform that states it.")(collected))


SPEED = click.option(
    "--speed", type=Checked("speed", speed_given), help="Speed of the hosts on which jobs compute, as 1Gf."
)
SECONDS = Checked("duration", seconds_of)
POSITIVE_SECONDS = Checked("duration", lambda name, value: seconds_of(name, value, least=1e-9))
MILLISECONDS = Checked("milliseconds", milliseconds_of)
PART = Checked("share", part_of)
SHARE = Checked("share", probability_of)
POSITIVE = Checked(
    "number", lambda name, value: number_of(name, value, 1e-300, float("inf"), "a finite number > 0, as 7 or 0.5")
)
SIZE = Whole(1, LARGEST)
SEED = Whole(0, LARGEST)
WHOLE = Whole(1, LARGEST)  # a count
WHOLE_OR_NONE = Whole(0, LARGEST)


def scheduler_option(option: Option, **changes: Any) -> Callable[[Command], Command]:
    """An option of the table on the command line; None if it is not given."""
    usual = "" if option.default is None else f" [default: {option.default}]"
    how: dict[str, Any] = {"default": None, "help": f"{option.help.removesuffix('.')}{usual}."}
    how["type"] = Checked(option.kind.metavar, option.check, option.kind.choices)
    if option.kind.choices and not option.kind.typed:
        how |= {"type": Choice(option.kind.choices), "metavar": option.kind.metavar.upper()}
    elif option.name == "policies":
        how["type"] = PolicyName("ten", "twelve", several=True)
    elif option.kind.metavar == "policy":
        how["type"] = PolicyName(*[option.default] * (option.name == "backfill"))
    elif option.name == "pool":  # which may be given several times
        how |= {"multiple": True, "callback": lambda _, __, given: ",".join(one.name for one in given) or None}
    return click.option(f"--{option.name}", cls=OfScheduler, group=option.group, **how | changes)


def only_live(_: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        refuse_other(option_name(parameter))


def scheduler_options(
    *names: str, hidden: Collection[str] = (), more: Mapping[str, Option] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add these options of the table (all by default), passed to the command as one mapping `options`.

    The mapping holds the given values, falsy or not, by the table's names, and nothing else. Those of `hidden`, which
    the command refuses with its reason, are not in its help. `more`: rows that are not of the table.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def collected(**values: Any) -> Any:
            given = {name: values.pop(name.replace("-", "_")) for name in names or NAMES}
            options = {name: value for name, value in given.items() if value is not None}
            preset = options.get("preset", NO_PRESET)
            if PRESETS[preset].lacks:
                note(f"{preset}: {PRESETS[preset].words}")
            return command(**values, options=options)

        for name in LIVE.keys() - set(names or NAMES):
            collected = click.option(f"--{name}", hidden=True, expose_value=False, is_eager=True, callback=only_live)(
                collected
            )
        for name in reversed(names or NAMES):
            option = {**(more or {}), **OPTIONS, **LIVE}[name]
            collected = scheduler_option(option, hidden=name in hidden)(collected)
        return collected

    return add


def choice_option(*names: str, choices: Sequence[str], help: str) -> Callable[[Command], Command]:  # noqa: A002
    """One of these words, by default the first."""
    return click.option(*names, type=Choice(choices), default=choices[0], help=help)


def out_option(
    writes: Writes,
    help: str,  # noqa: A002
    *,
    example: str = "out",
    also: str = "",
    **more: Any,
) -> Callable[[Command], Command]:
    """`--out`, the same in every command; `writes`, `example` and `also` as for `PathParam`."""
    return click.option("--out", "-o", type=PathParam(writes, example, also), help=help, **more)


LOG_OUT = out_option("file", "The log to write: .swf or .json, also compressed.", example="out.swf", required=True)


WORKLOAD = click.argument("workload", type=FILE)
SOURCE = click.argument("source", metavar="IN", type=FILE)
PROCS = click.option("--procs", type=SIZE, help="The machine's size; by default the log's.")
TAU = click.option(
    "--tau",
    "tau_s",
    type=POSITIVE_SECONDS,
    default="10",
    help="The bound of the bounded slowdown.",
)
OVERRUN = click.option(
    "--overrun",
    type=Choice(["keep", "kill", "extend"]),
    metavar="WHICH",
    help="Of jobs past their request: `keep` raises it, `kill` ends them, `extend` does neither [default: keep].",
)
UNREQUESTED = click.option(
    "--unrequested",
    metavar="CHOICE",
    type=Checked("choice", unrequested_of, UNREQUESTED_WORDS),
    help="For a missing request: `runtime`, `none`, a limit as 24h, `queue` (its longest), `user-max` (the user's "
    "longest run so far), or `refuse` logs with over 1 % [default: refuse, or runtime if generated].",
)
CANCELLED = click.option(
    "--cancelled",
    type=Choice(["drop", "wait"]),
    metavar="WHICH",
    help="Rows cancelled while they waited: `drop` them, or they `wait` until then [default: drop].",
)
MONTHS = click.option("--months", is_flag=True, help="Calendar months instead.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def seed_option(of: str) -> Callable[[Command], Command]:
    """`--seed`, the seed `of` something."""
    return click.option("--seed", type=SEED, default=0, help=f"Seed of {of}.")


def boundary_option(usual: str, what: str) -> Callable[[Command], Command]:
    """`--boundary`: the jobs that a time window keeps."""
    kinds = Choice(["submitted", "submit-finish", "start-finish"])
    return click.option("--boundary", type=kinds, default=usual, help=what)
