"""Every queue order batfill knows: name, formula, source, and sort key.

One sort rule holds everywhere: lowest key first, ties by submission time, then by `seq`. "Largest first" policies
negate their key. In the formulas r is the submission time, p~ the requested time (walltime), q the processors, t the
current time and w = t - r the waiting time. No policy reads the actual run time p.

Every key is a line in the wait: key + rise (w / p~), or key + rise w. Most policies have no rise, because their key
does not depend on t, or only on w, which grows equally for all jobs (-r then replaces w); such orders never change
while jobs wait.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError, PolicyError
from batfill.base.files import read_json
from batfill.base.tables import in_columns, label_html
from batfill.engine.motion import BY_EXPECTED, BY_SECOND, FIXED, UNLIMITED_S, aged_size, mixed_key
from batfill.model.values import AGED, MIXED, has_policy_name, is_finite, number_or_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.float64] | NDArray[np.int64]
    Key = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], Column]

FORM = re.compile(r"(mixed|aged):[-+.,e\d\s]*|.*@.*")  # of names that `policy_named` reads, beside POLICIES
Term = tuple[float, int, int, int]  # coefficient, powers of p, q, r

LARGEST_POWER = 8  # in a polynomial: p~^8 of a job without walltime is 10^96
LARGEST_EXPONENT = 4  # of an aged order: p~^4 of a job without walltime is 10^48, far from the ends of a float

PURE_SOURCE = "Carastan-Santos et al., CCGrid 2019"
TANG = "Tang et al., CLUSTER 2009"
SC17 = "regression; Carastan-Santos and de Camargo, SC 2017"
FEATURES = ("q", "p~", "w", "p~/q", "(w+p~)/p~", "p~ q")


class Policies(dict[str, "Policy"]):
    """Policies by name, shown as a table of their formulas."""

    def __repr__(self) -> str:
        return in_columns([("policy", "formula"), *((name, one.formula) for name, one in self.items())], (0, 1))

    def _repr_html_(self) -> str:
        return label_html((name, one.formula) for name, one in self.items())


POLICIES = Policies()  # the policies that have names, which are below


@dataclass(frozen=True, slots=True, repr=False)
class Policy:
    """One queue order, lowest key first.

    The functions map (submit_s, p~, procs), each of shape (n_jobs,), to shape (n_jobs,); p~ is the request, or the
    predicted run time instead, and 10^12 s for a job without walltime. At most one of `per_wait` and `per_expansion` is
    given; without either, the order of two waiting jobs never changes. The arrays that they get are read-only.

    Raises:
        PolicyError: the name is not a text, or it names another policy, or a function is none.

    >>> frugal = Policy("frugal", key=lambda r, p, q: p * q, per_wait=lambda r, p, q: -q)
    >>> frugal.moves
    True
    """

    name: str
    key: Key  # the key at submission
    per_wait: Key | None = None  # increase of the key per second of waiting
    per_expansion: Key | None = field(default=None, kw_only=True)  # its increase each time the wait grows by p~
    words: str = field(default="", kw_only=True)  # what comes first; "" if it has no name in words
    formula: str = field(default="", kw_only=True)
    source: str = field(default="", kw_only=True)
    weights: tuple[float, ...] | None = field(default=None, kw_only=True)  # of a mixed policy, on FEATURES; L1 norm 1
    digest: str = field(default="", kw_only=True)  # sha256 of the file that it was read from, hexadecimal

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise PolicyError(f"policy: {self.name!r:.60} is not a name; give a text, as 'mine'")
        for what in ("key", "per_wait", "per_expansion"):
            function = getattr(self, what)
            if not (callable(function) or (function is None and what != "key")):
                raise PolicyError(
                    f"policy {self.name}: its {what} is {function!r:.60}; give a function of (submit_s, p~, procs)"
                )
        if self.is_misnamed:
            raise PolicyError(f"policy {self.name}: this name is that of another order; choose one of your own")
        if self.per_wait is not None and self.per_expansion is not None:
            raise PolicyError(f"policy {self.name}: per_wait and per_expansion are both given; give one of them")

    def __reduce__(self) -> tuple[Any, ...]:
        """Policies of the table are pickled by name, others by their fields: a function of one's own needs a name."""
        if POLICIES.get(self.name) is self:
            return policy_named, (self.name,)
        return partial(Policy, **{f.name: getattr(self, f.name) for f in fields(self)}), ()

    def rows(self) -> list[tuple[str, str]]:
        """What it is, as rows of (label, text)."""
        order = "changes while jobs wait" if self.moves else "fixed"
        stated = ("policy", self.name), ("formula", self.formula), ("order", order), ("source", self.source)
        return [(label, text) for label, text in stated if text]

    def __repr__(self) -> str:
        return f"<Policy {self.name}{self.formula and f': {self.formula}'}>"

    def _repr_html_(self) -> str:
        return label_html(self.rows())

    @property
    def is_misnamed(self) -> bool:
        """Whether `policy_named` takes the name for another policy."""
        name = self.name.strip().lower()
        functions = self.key, self.per_wait, self.per_expansion
        if (known := POLICIES.get(name)) is not None:
            return functions != (known.key, known.per_wait, known.per_expansion)
        return bool(FORM.fullmatch(name)) and not (isinstance(self.key, WithNumbers) or self.key is submission)

    @property
    def moves(self) -> bool:
        """Whether two waiting jobs may change order."""
        return self.per_wait is not None or self.per_expansion is not None

    @property
    def motion(self) -> int:
        """How keys move: FIXED, BY_EXPECTED or BY_SECOND."""
        return BY_EXPECTED if self.per_expansion is not None else BY_SECOND if self.per_wait is not None else FIXED

    def lines(
        self, submit_s: NDArray[np.float64], request_s: NDArray[np.float64], procs: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Every job's key as a line: (key at submission, rise), float64, each of shape (n_jobs,).

        At t the key is key + rise (w / p~) with `per_expansion`, and key + rise w with `per_wait`, computed in this
        floating-point form.

        Raises:
            PolicyError: a function of the policy returns another shape, or a number that is not finite.
        """
        # A live scheduler asks for one job at a time; a plain comparison takes a fifth of numpy's time for it.
        if len(request_s) != 1 or request_s[0] > UNLIMITED_S:
            request_s = np.minimum(request_s, UNLIMITED_S)
        known = submit_s.view(), request_s.view(), procs.view()  # a function of one's own must not change the jobs
        for column in known:
            column.flags.writeable = False
        key = self.checked("key", self.key(*known), *known)
        if self.per_expansion is not None:
            return key, self.checked("per_expansion", self.per_expansion(*known), *known)
        if self.per_wait is not None:
            return key, self.checked("per_wait", self.per_wait(*known), *known)
        return key, np.zeros(len(key))

    def checked(
        self,
        what: str,
        values: NDArray[np.generic],
        submit_s: NDArray[np.float64],
        request_s: NDArray[np.float64],
        procs: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """The values of the policy's function `what` for these jobs, as float64; see `lines`."""
        found, name = np.asarray(values), f"policy {self.name}: its {what}"
        if found.dtype.kind not in "iufb":
            raise PolicyError(f"{name} is of type {found.dtype}; return real numbers, one per job")
        numbers = found.astype(np.float64, copy=False)
        if numbers.shape != submit_s.shape:
            raise PolicyError(f"{name} has shape {numbers.shape}, not {submit_s.shape}; return one number per job")
        # The same with math, which takes a tenth of numpy's.
        if not (math.isfinite(numbers[0]) if len(numbers) == 1 else np.isfinite(numbers).all()):
            row = int(np.argmin(np.isfinite(numbers)))
            raise PolicyError(
                f"{name} is {numbers[row]} for r = {submit_s[row]:g}, p~ = {request_s[row]:g}, q = {procs[row]}; "
                "correct its formula so that it is finite for every job"
            )
        return numbers


@dataclass(frozen=True, slots=True)
class WithNumbers:
    """A function of the jobs after its own numbers: unlike a lambda it can be pickled, and equal ones are equal."""

    function: Callable[..., Column]
    numbers: tuple[Any, ...]

    def __call__(self, r: NDArray[np.float64], p: NDArray[np.float64], q: NDArray[np.int64]) -> Column:
        return self.function(*self.numbers, r, p, q)


def same_for_all(value: float, r: NDArray[np.float64], p: Column, q: Column) -> Column:
    return np.full(len(r), value)


def constant(value: float) -> Key:
    return WithNumbers(same_for_all, (value,))


# The functions of the table have names, so that they and what is built on them can be pickled.
def submission(r, p, q):  # type: ignore[no-untyped-def]
    return r


def request(r, p, q):  # type: ignore[no-untyped-def]
    return p


def width(r, p, q):  # type: ignore[no-untyped-def]
    return q.astype(np.float64)


def area(r, p, q):  # type: ignore[no-untyped-def]
    return p * q


def ratio(r, p, q):  # type: ignore[no-untyped-def]
    return p / q


def minus(key, r, p, q):  # type: ignore[no-untyped-def]  # largest first
    return -key(r, p, q)


def negative(key: Key) -> Key:
    return WithNumbers(minus, (key,))


def wfp3_rise(r, p, q):  # type: ignore[no-untyped-def]  # the cube root of its key
    return -np.cbrt(q)


def unicef_rise(r, p, q):  # type: ignore[no-untyped-def]
    return -1 / np.log2(np.maximum(q, 2))


def learned(of_p, of_q, weight, r, p, q):  # type: ignore[no-untyped-def]  # the papers' logs never have r = 0, ours do
    return of_p(p) * of_q(q) + weight * np.log10(np.maximum(r, 1.0))


UNDATED = (request, width, area, ratio, wfp3_rise, unicef_rise, same_for_all)  # they do not read r


def reads_submission(key: Key) -> bool:
    """Whether a key may depend on r."""
    if not isinstance(key, WithNumbers):
        return all(key is not other for other in UNDATED)
    if key.function is over_aged_size:
        return False
    return reads_submission(key.numbers[0] if key.function is minus else key.function)


# fmt: off
POLICIES.update((policy.name, policy) for policy in (
    Policy("fcfs", submission, words="First come, first served", formula="r", source=PURE_SOURCE),
    Policy("lcfs", negative(submission), words="Last come, first served", formula="-r", source=PURE_SOURCE),
    Policy("spf", request, words="Shortest first", formula="p~", source=PURE_SOURCE),
    Policy("lpf", negative(request), words="Longest first", formula="-p~", source=PURE_SOURCE),
    Policy("sqf", width, words="Fewest processors first", formula="q", source=PURE_SOURCE),
    Policy("lqf", negative(width), words="Most processors first", formula="-q", source=PURE_SOURCE),
    Policy("saf", area, words="Smallest area first", formula="p~ q", source=PURE_SOURCE),
    Policy("laf", negative(area), words="Largest area first", formula="-p~ q", source=PURE_SOURCE),
    Policy("srf", ratio, words="Smallest ratio of time to processors first", formula="p~ / q", source=PURE_SOURCE),
    Policy("lrf", negative(ratio), words="Largest ratio of time to processors first", formula="-p~ / q",
           source=PURE_SOURCE),
    Policy("sexp", constant(1.0), per_expansion=constant(1.0), words="Lowest slowdown so far first",
           formula="(w + p~) / p~", source=PURE_SOURCE),
    Policy("lexp", constant(-1.0), per_expansion=constant(-1.0), words="Highest slowdown so far first",
           formula="-(w + p~) / p~", source=PURE_SOURCE),
    Policy("wfp3", constant(0.0), per_expansion=wfp3_rise, words="Long relative waits and wide jobs first",
           formula="-(w / p~)^3 q", source=TANG),
    Policy("unicef", constant(0.0), per_expansion=unicef_rise, words="Long waits and small requests first",
           formula="-w / (log2(max(q, 2)) p~)",
           source=f"{TANG}; log2(1) = 0 would put every one-processor job first, so q = 1 counts as 2"),
    Policy("f1", WithNumbers(learned, (np.log10, np.positive, 8.70e2)), words="Regression F1 on simulated queues",
           formula="log10(p~) q + 870 log10(r)", source=SC17),
    Policy("f2", WithNumbers(learned, (np.sqrt, np.positive, 2.56e4)), words="Regression F2 on simulated queues",
           formula="sqrt(p~) q + 25,600 log10(r)", source=SC17),
    Policy("f3", WithNumbers(learned, (np.positive, np.positive, 6.86e6)), words="Regression F3 on simulated queues",
           formula="p~ q + 6,860,000 log10(r)", source=SC17),
    Policy("f4", WithNumbers(learned, (np.positive, np.sqrt, 5.30e5)), words="Regression F4 on simulated queues",
           formula="p~ sqrt(q) + 530,000 log10(r)", source=SC17),
))
# fmt: on

# The twelve pure policies of the 2019 study of mixed policies, Section 4.2.
PURE = ("fcfs", "lcfs", "spf", "lpf", "sqf", "lqf", "saf", "laf", "lexp", "sexp", "lrf", "srf")
MIXED_FORMULA = "a q + b p~ + c w + d p~/q + e (w+p~)/p~ + f p~ q, the weights scaled to L1 norm 1"
MIXED_SOURCE = "linear mixed policy; the 2019 study of mixed policies, Section 4; FCFS is mixed:0,0,-1,0,0,0"
AGED_FORMULA = "-(c + w) / (p~^alpha q^beta)"
AGED_SOURCE = (
    "aged order; alpha = beta = 0 is fcfs, alpha = 1, beta = 0, c = 0 lexp, alpha = 1, beta = -1/3, c = 0 wfp3; as c "
    "grows it tends to the order by p~^alpha q^beta: spf, saf, srf, sqf, ..."
)
FILE_FORMAT = "batfill policies 1"


def mixed(weights: tuple[float, ...]) -> Policy:
    """The linear mixed policy of six weights on FEATURES, scaled to L1 norm 1, lowest first."""
    given = np.asarray(weights, np.float64)
    with np.errstate(over="ignore"):
        norm = float(np.abs(given).sum())
    if given.shape != (6,) or not np.isfinite(norm) or norm == 0:
        raise PolicyError(
            f"policy mixed: {list(weights)} are not six finite weights, one of them not zero and their sum "
            f"below 1e308, on {', '.join(FEATURES)}; write {MIXED}, as mixed:0,0,-1,0,0,0"
        )
    a, b, c, d, e, f = (given / norm).tolist()
    return Policy(
        "mixed:" + ",".join(f"{weight:.17g}" for weight in weights),
        WithNumbers(expanded_mixed_key, (a, b, c, d, e, f)),
        per_expansion=constant(e) if e else None,
        formula=MIXED_FORMULA,
        source=MIXED_SOURCE,
        weights=(a, b, c, d, e, f),
    )


def expanded_mixed_key(a, b, c, d, e, f, r, p, q):  # type: ignore[no-untyped-def]  # of arrays
    return e + mixed_key(a, b, c, d, f, r, p, q)  # type: ignore[no-untyped-call]


def aged(c_s: float, alpha: float, beta: float) -> Policy:
    """The order by (c + w) / (p~^alpha q^beta), highest first: small jobs first, until others have waited for long.

    Every job gains on those that would need more, the faster the smaller it is, so no job waits for ever. The larger c,
    the longer the order of small jobs first holds out against the wait.
    """
    if not (0 <= c_s < math.inf and abs(alpha) <= LARGEST_EXPONENT and abs(beta) <= LARGEST_EXPONENT):
        raise PolicyError(
            f"policy aged: {c_s:g}, {alpha:g} and {beta:g} are not seconds >= 0 and two exponents from "
            f"-{LARGEST_EXPONENT} to {LARGEST_EXPONENT}; write {AGED}, as aged:50000,0.5,0.5"
        )
    moves = alpha != 0 or beta != 0
    return Policy(
        "aged:" + ",".join(repr(float(value)).removesuffix(".0") for value in (c_s, alpha, beta)),
        WithNumbers(over_aged_size, (-c_s, alpha, beta)) if moves else submission,
        per_wait=WithNumbers(over_aged_size, (-1, alpha, beta)) if moves else None,
        formula=AGED_FORMULA,
        source=AGED_SOURCE,
    )


def over_aged_size(number, alpha, beta, r, p, q):  # type: ignore[no-untyped-def]  # of arrays
    return number / aged_size(p, q, alpha, beta)  # type: ignore[no-untyped-call]


def policy_named(text: str) -> Policy:
    """The policy a user names: one of POLICIES, `mixed:` or `aged:` with its numbers, or one in a file.

    The part before an @ names it inside its file.
    """
    if "@" in text:
        return policy_in_file(text)
    name, _, rest = text.strip().lower().partition(":")
    if has_policy_name(text, POLICIES):
        return POLICIES[name]
    n, form, example = (6, MIXED, "mixed:0,0,-1,0,0,0") if name == "mixed" else (3, AGED, "aged:50000,0.5,0.5")
    try:
        numbers = [float_of(word) for word in rest.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != n:
        raise PolicyError(f"policy {text}: it takes {n} numbers, {form}, as {example}")
    return mixed(tuple(numbers)) if name == "mixed" else aged(*numbers)


def float_of(word: Any) -> float:
    number = number_or_text(word)
    if not is_finite(number):
        raise ValueError(word)
    return float(number)


def order_words(name: str) -> tuple[str, str]:
    """A policy's name in words, and a short one; its file, if it has one, is not read.

    Examples:
        >>> order_words("saf"), order_words("aged:20000,0.5,0.5")
        (('Smallest area first', 'saf'), ('Small areas first, ageing with the wait', 'aged:20000,0.5,0.5'))
    """
    kind, colon, numbers = name.partition(":")
    first, at, file = name.partition("@")
    if at:
        short = f"{first}@{Path(file).name}"
        return f"Learned order {short}", short
    if colon and kind == "mixed":
        weights = ",".join(f"{float(weight):.3g}" for weight in numbers.split(","))
        return "Weighted sum of six features", f"mixed:{weights}"
    if colon and kind == "aged":
        _, alpha, beta = (float(number) for number in numbers.split(","))
        sizes = {(1, 1): "Small areas", (1, 0): "Short requests", (0, 1): "Few processors"}
        size = sizes.get((int(np.sign(alpha)), int(np.sign(beta))), "Order by size")
        return f"{size}{' first' * (size in sizes.values())}, ageing with the wait", name
    return (POLICIES[name].words if name in POLICIES else "") or name, name


def digests(policies: Iterable[Policy | None]) -> dict[str, dict[str, str]]:
    """What a result states besides the policies' names: the sha256 of the files of those in files; {} without any."""
    found = {policy.name: policy.digest for policy in policies if policy is not None and policy.digest}
    return {"policy_sha256": found} if found else {}


NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)


def names_in(text: str) -> list[str]:
    """The policies' names in a list separated by commas or semicolons, or by + if no name is of a file.

    >>> names_in("fcfs,aged:50000,0.5,0,saf"), names_in("fcfs+aged:1e+05,0.5,0+saf")
    (['fcfs', 'aged:50000,0.5,0', 'saf'], ['fcfs', 'aged:1e+05,0.5,0', 'saf'])
    """
    if "@" not in text:
        text = re.sub(r"\+(?=\s*[A-Za-z])", ";" if ";" in text else ",", text)
    names: list[str] = []
    for word in text.split(";" if ";" in text else ","):
        if ";" not in text and names and NUMBER.fullmatch(word.strip()):
            names[-1] += f",{word.strip()}"
        else:
            names.append(word.strip())
    return names


def listing() -> list[dict[str, str]]:
    """Every policy for display: name, formula, order ("fixed" or "changes"), source."""
    rows = [(one.name, one.formula, "changes" if one.moves else "fixed", one.source) for one in POLICIES.values()]
    rows.append((MIXED, MIXED_FORMULA, "fixed unless e is given", MIXED_SOURCE))
    rows.append((AGED, AGED_FORMULA, "changes", AGED_SOURCE))
    return [dict(zip(("name", "formula", "order", "source"), row, strict=True)) for row in rows]


# Learned policies in files: `area@heuristics.json` is the function `area` of that file, and `@heuristics.json` what it
# recommends, one of its functions or of POLICIES. A function is a sum of terms, coefficient x p^a q^b r^c, with the
# requested time p~ in place of p: lowest first.


def polynomial(name: str, terms: Sequence[Term], source: str, digest: str = "") -> Policy:
    """The policy that orders by this polynomial; `digest` is that of its file."""
    formula = " ".join(formula_of(term) for term in terms if term[0] != 0)
    key = WithNumbers(sum_of_terms, (tuple(terms),))
    return Policy(name, key, formula=formula, source=source, digest=digest)


def sum_of_terms(
    terms: Sequence[Term], r: NDArray[np.float64], p: NDArray[np.float64], q: NDArray[np.int64]
) -> NDArray[np.float64]:
    total = np.zeros(len(r))
    with np.errstate(over="ignore", invalid="ignore"):  # `Policy.checked` refuses what comes of it
        for coefficient, of_p, of_q, of_r in terms:
            total += coefficient * p**of_p * q.astype(np.float64) ** of_q * r**of_r
    return total


def formula_of(term: Term) -> str:
    """One term as text: +2.5e-08 p~ q^2."""
    coefficient, *powers = term
    named = zip(("p~", "q", "r"), powers, strict=True)
    factors = [f"{name}^{power}" if power > 1 else name for name, power in named if power]
    return " ".join([f"{coefficient:+.6g}", *factors])


def policy_in_file(text: str) -> Policy:
    """The policy of NAME@FILE, or the one that the file recommends for @FILE."""
    name, _, file = text.strip().partition("@")
    name, path = name.lower(), Path(file)
    try:
        content, digest = read_json(path, "`batfill fit` writes such files")
    except BatfillError as error:
        raise PolicyError(f"policy {text}: {error.on_command_line.removeprefix(f'{path}: ')}") from None
    functions = content.get("functions") if isinstance(content, dict) and content.get("format") == FILE_FORMAT else None
    if not isinstance(functions, dict):
        raise PolicyError(
            f"policy {text}: {path} is not a policy file ({FILE_FORMAT}); `batfill fit` writes such files"
        )
    if not name:
        advice = content.get("recommendation")
        name = str(advice.get("take") or "") if isinstance(advice, dict) else ""
        if name in POLICIES:
            return POLICIES[name]
    if name not in functions:
        has = f"has no function {name!r}" if name else "recommends nothing"
        raise PolicyError(f"policy {text}: {path} {has}; name one of its functions, {', '.join(functions) or 'none'}")
    try:
        terms = [term_of(term) for term in functions[name]["terms"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise PolicyError(
            f"policy {text}: a term of {name!r} in {path} is not a finite coefficient with whole powers p, q, r from 0 "
            f"to {LARGEST_POWER}; fit it again"
        ) from None
    return polynomial(f"{name}@{path}", terms, str(content.get("made_by", path)), digest)


def term_of(entry: Any) -> Term:
    powers = [entry.get(name, 0) for name in ("p", "q", "r")]
    if any(type(power) is not int or not 0 <= power <= LARGEST_POWER for power in powers):
        raise ValueError(powers)
    return float_of(entry["coefficient"]), powers[0], powers[1], powers[2]
