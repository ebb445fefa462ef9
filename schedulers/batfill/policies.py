"""Every queue order batfill knows: name, formula, source, and the key that sorts by it.

The sort rule is one everywhere: lowest key first, ties by submission time, then by `seq`. Policies that say "largest
first" have the negated key. In the formulas r is the submission time, p~ the requested time (walltime), q the
processors, t now and w = t - r the waiting time. No policy reads the actual run time p.

Most keys never change the order of two waiting jobs, because nothing in them moves with t, or only w, which grows
alike for every job (there -r stands for w). They are computed once, at submission. The others are computed at each
pass by `easy.key_at` from the fixed part and the code given here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batfill.errors import PolicyError
from batfill.jobs import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Key = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]]

# How a key moves with time; `easy.key_at` has the formulas.
FIXED, EXPANSION, WFP3, UNICEF = range(4)
KINDS = {FIXED: "FIXED", EXPANSION: "EXPANSION", WFP3: "WFP3", UNICEF: "UNICEF"}

UNLIMITED_S = LONGEST_S  # what a job without walltime counts as in a key, so that no formula meets infinity

PURE_SOURCE = "pure policy; Carastan-Santos et al., CCGrid 2019, and the 2019 study of mixed policies, Section 4"
SC17 = "regression; Carastan-Santos and de Camargo, SC 2017"
FEATURES = ("q", "p~", "w", "p~/q", "(w+p~)/p~", "p~ q")


@dataclass(frozen=True, slots=True)
class Policy:
    """One queue order.

    `fixed` maps (submit_s, walltime_s, procs), each of shape (n_jobs,), to the key, shape (n_jobs,), or to the part of
    it that does not move with time. `kind` says how `easy.key_at` completes it; `weight` is EXPANSION's weight on the
    expansion factor. `weights` are those of a mixed policy on FEATURES, of L1 norm 1.
    """

    name: str
    formula: str
    source: str
    fixed: Key
    kind: int = FIXED
    weight: float = 0.0
    weights: tuple[float, ...] | None = None

    @property
    def order_changes(self) -> bool:
        """Whether two jobs may change places while both wait."""
        return self.kind != FIXED

    def check(self) -> None:
        """Refuse what `easy.key_at` would take for something else.

        Raises:
            PolicyError: the kind is none of FIXED, EXPANSION, WFP3 and UNICEF, or the weight is no finite number.
        """
        if self.kind not in KINDS:
            kinds = ", ".join(f"{name} = {kind}" for kind, name in KINDS.items())
            raise PolicyError(f"policy {self.name}: kind {self.kind!r} does not exist; there are {kinds}")
        if not np.isfinite(self.weight):
            raise PolicyError(f"policy {self.name}: weight {self.weight!r} is no finite number; mend it")

    def fixed_key(
        self, submit_s: NDArray[np.float64], walltime_s: NDArray[np.float64], procs: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The part of each job's key that does not move with time: float64, shape (n_jobs,).

        Raises:
            PolicyError: the policy gives something else, or a key that is no finite number, which nothing sorts by.
        """
        key = np.asarray(self.fixed(submit_s, np.minimum(walltime_s, UNLIMITED_S), procs), np.float64)
        if key.shape != np.shape(submit_s):
            raise PolicyError(
                f"policy {self.name}: its keys have shape {key.shape}, not {np.shape(submit_s)}; return one per job"
            )
        if not (finite := np.isfinite(key)).all():
            row = int(np.argmin(finite))
            raise PolicyError(
                f"policy {self.name}: its key is {key[row]} for r = {submit_s[row]:g}, p~ = {walltime_s[row]:g}, "
                f"q = {procs[row]}; mend its formula so that every key is a finite number"
            )
        return key


def nothing(r: NDArray[np.float64], _p: NDArray[np.float64], _q: NDArray[np.int64]) -> NDArray[np.float64]:
    """No fixed part: the whole key moves with time."""
    return np.zeros(len(r))


def log10_submission(r: NDArray[np.float64]) -> NDArray[np.float64]:
    """log10(r), with the first second counted as 1: the papers' logs never have r = 0, ours do."""
    return np.log10(np.maximum(r, 1.0))


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("fcfs", "r", PURE_SOURCE, lambda r, p, q: r),
        Policy("lcfs", "-r", PURE_SOURCE, lambda r, p, q: -r),
        Policy("spf", "p~", PURE_SOURCE, lambda r, p, q: p),
        Policy("lpf", "-p~", PURE_SOURCE, lambda r, p, q: -p),
        Policy("sqf", "q", PURE_SOURCE, lambda r, p, q: q.astype(np.float64)),
        Policy("lqf", "-q", PURE_SOURCE, lambda r, p, q: -q.astype(np.float64)),
        Policy("saf", "p~ q", PURE_SOURCE, lambda r, p, q: p * q),
        Policy("laf", "-p~ q", PURE_SOURCE, lambda r, p, q: -(p * q)),
        Policy("srf", "p~ / q", PURE_SOURCE, lambda r, p, q: p / q),
        Policy("lrf", "-p~ / q", PURE_SOURCE, lambda r, p, q: -(p / q)),
        Policy("sexp", "(w + p~) / p~", PURE_SOURCE, nothing, EXPANSION, 1.0),
        Policy("lexp", "-(w + p~) / p~", PURE_SOURCE, nothing, EXPANSION, -1.0),
        Policy("wfp3", "-(w / p~)^3 q", "Tang et al., CLUSTER 2009", lambda r, p, q: np.cbrt(q), WFP3),
        Policy(
            "unicef",
            "-w / (log2(max(q, 2)) p~)",
            "Tang et al., CLUSTER 2009; log2(1) = 0 would put every one-processor job first, so q = 1 counts as 2",
            lambda r, p, q: np.log2(np.maximum(q, 2)),
            UNICEF,
        ),
        Policy(
            "f1", "log10(p~) q + 870 log10(r)", SC17, lambda r, p, q: np.log10(p) * q + 8.70e2 * log10_submission(r)
        ),
        Policy(
            "f2", "sqrt(p~) q + 25,600 log10(r)", SC17, lambda r, p, q: np.sqrt(p) * q + 2.56e4 * log10_submission(r)
        ),
        Policy("f3", "p~ q + 6,860,000 log10(r)", SC17, lambda r, p, q: p * q + 6.86e6 * log10_submission(r)),
        Policy(
            "f4", "p~ sqrt(q) + 530,000 log10(r)", SC17, lambda r, p, q: p * np.sqrt(q) + 5.30e5 * log10_submission(r)
        ),
    )
}
MIXED = "mixed:a,b,c,d,e,f"
MIXED_FORMULA = "a q + b p~ + c w + d p~/q + e (w+p~)/p~ + f p~ q, the weights scaled to L1 norm 1"
MIXED_SOURCE = "linear mixed policy; the 2019 study of mixed policies, Section 4; FCFS is mixed:0,0,-1,0,0,0"
IN_FILE = "NAME@FILE.json"  # of `policy_files`


def mixed(weights: tuple[float, ...]) -> Policy:
    """The linear mixed policy of six weights on FEATURES, scaled to L1 norm 1, lowest first.

    Raises:
        PolicyError: not six finite numbers, or all of them zero.
    """
    given = np.asarray(weights, np.float64)
    with np.errstate(over="ignore"):
        norm = float(np.abs(given).sum())
    if given.shape != (6,) or not np.isfinite(norm) or norm == 0:
        raise PolicyError(
            f"policy mixed: {list(weights)} are not six finite weights, one of them not zero and their sum "
            f"below 1e308, on {', '.join(FEATURES)}"
        )
    a, b, c, d, e, f = (given / norm).tolist()

    def fixed(r: NDArray[np.float64], p: NDArray[np.float64], q: NDArray[np.int64]) -> NDArray[np.float64]:
        key: NDArray[np.float64] = mixed_key(a, b, c, d, f, r, p, q)  # type: ignore[no-untyped-call]
        return key

    name = "mixed:" + ",".join(f"{weight:.17g}" for weight in weights)
    kind = FIXED if e == 0 else EXPANSION
    return Policy(name, MIXED_FORMULA, MIXED_SOURCE, fixed, kind, e, (a, b, c, d, e, f))


def mixed_key(a, b, c, d, f, r, p, q):  # type: ignore[no-untyped-def]  # of arrays, and compiled of one job
    """The fixed part of a mixed policy's key; c is the weight on w, for which -r stands."""
    return a * q + b * p - c * r + d * (p / q) + f * (p * q)


def policy_named(text: str) -> Policy:
    """The policy a user means: a name of POLICIES, `mixed:` and six weights separated by commas, or a file's.

    Raises:
        PolicyError: there is none of that name; the message lists the known ones.
    """
    if "@" in text:
        from batfill.policy_files import policy_in_file

        return policy_in_file(text)
    name, colon, rest = text.strip().lower().partition(":")
    if name == "mixed" and colon:
        try:
            return mixed(tuple(float(word) for word in rest.split(",")))
        except ValueError:
            raise PolicyError(f"policy {text}: weights are six numbers separated by commas, as in {MIXED}") from None
    if name in POLICIES and not colon:
        return POLICIES[name]
    raise PolicyError(f"policy {text!r} is unknown; known are {', '.join(POLICIES)}, {IN_FILE}, and {MIXED}")


def listing() -> list[dict[str, str]]:
    """Every policy as a user sees it: name, formula, order ("fixed" or "changes"), source."""
    rows = [
        {
            "name": policy.name,
            "formula": policy.formula,
            "order": "changes" if policy.order_changes else "fixed",
            "source": policy.source,
        }
        for policy in POLICIES.values()
    ]
    order = "fixed unless e is given"
    return [*rows, {"name": MIXED, "formula": MIXED_FORMULA, "order": order, "source": MIXED_SOURCE}]
