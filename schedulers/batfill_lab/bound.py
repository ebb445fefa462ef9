"""A lower bound on the sum of completion times that no scheduler can beat on a workload.

Job j is submitted at r_j and runs for p_j without a break on q_j of m processors, so it ends at C_j >= r_j + p_j; tries
that were killed only add work. Three relaxations, of which `least_delay` takes the best:

*Shortest remaining work first.* On one machine of speed 1 a job of length a_j = p_j q_j / m may be served as soon as it
is submitted, at any rate and with breaks. Every schedule of the m processors is one of that machine, with the same
C_j, so the least sum of completion times there is a bound; serving the job with the least remaining work attains it
(Schrage, Operations Research 1968). This is the squashed area bound (Turek et al., SODA 1994) with release dates.

*Least work first.* The mean of the times at which job j is served is M_j = C_j - p_j / 2. On the machine of speed 1
the sum of the M_j is least if the submitted job with the least a_j is served, breaking off others (Goemans et al., SIAM
Journal on Discrete Mathematics 2002), so the sum of C_j is at least that sum plus half of all p_j. Eastman, Even and
Isaacs (Management Science 1964) have it without release dates.

*Prices.* Let the whole machine cost lambda(t) >= 0 per second. As no more than m processors are ever in use, all jobs
of a schedule together pay at most the integral of lambda over all times. So the sum of C_j is at least the sum over the
jobs of the least value, over s >= r_j, of s + p_j + q_j / m times the integral of lambda from s to s + p_j; minus the
integral over all times. This is Lagrangian relaxation of the time-indexed formulation (Christofides, Alvarez-Valdes,
Tamarit, European Journal of Operational Research 1987; Möhring, Schulz, Stork, Uetz, Management Science 2003). It holds
for any prices. Good ones are found by subgradient steps that begin at the second bound's dual solution, or part of it.

The first two also hold if jobs may be suspended and resumed, or moulded; the third if each runs whole.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill.base.kernels import F8, I8, Array, entry, outlined

LEAST_ROUNDS, MOST_ROUNDS = 5, 20  # subgradient steps per width of the slots
VISITS = 1_000_000  # steps times jobs per width, between these limits
WIDTHS = (16, 4, 1)  # of the slots, in the narrowest slot's
FEWEST = 1000  # narrow slots, if there are fewer jobs
FINENESS = 16  # narrow slots at most in a mean run time and in a mean delay, since a search walks from slot to slot
PARTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the second bound's prices, with which the search may begin
PATIENCE, SHRINK = 3, 1.5  # when the bound has fallen PATIENCE times, the aim is divided by SHRINK
STRIDE, INERTIA = 0.4, 0.7

Floats = NDArray[np.float64]
READ, READ_ROWS = Array(F8, read=True), Array(I8, read=True)


class Delays(NamedTuple):
    """Lower bounds on the sum of C_j - r_j - p_j, in seconds, by relaxation; each may be below 0."""

    remaining_s: float  # shortest remaining work first
    least_s: float  # least work first
    priced_s: float  # prices; never below 0


def least_delay(
    submit_s: Floats,
    runtime_s: Floats,
    procs: NDArray[np.int64],
    size: int,
    rounds: int | None = None,
    available: tuple[Floats, NDArray[np.int64]] | None = None,
) -> Delays:
    """Lower bounds on the sum of the waits C_j - r_j - p_j of these jobs under any scheduler.

    Args:
        submit_s: r, (n_jobs,), ascending.
        runtime_s: p, (n_jobs,), >= 0.
        procs: q, (n_jobs,), from 1 to `size`.
        size: m.
        rounds: steps of the search for prices at each width of slots; more give a better bound. By default 20 for up to
            50,000 jobs, fewer for more, 5 from 200,000 on.
        available: dates in ascending order, and how many processors are available from each on; None for all, always.
            Only the prices count it.
    """
    lasting = runtime_s > 0  # the others need not wait for anything
    if not lasting.any():
        return Delays(0.0, 0.0, 0.0)
    first_s = submit_s[lasting].min()
    r, p = submit_s[lasting] - first_s, runtime_s[lasting].astype(np.float64)
    share = procs[lasting] / size
    work = p * share
    ends = served(r, work, by_remaining=True).end_s
    service = served(r, work, by_remaining=False)
    before_end_s = service.end_s[service.row] - (service.from_s + service.to_s) / 2
    mean_s = service.end_s - np.bincount(service.row, (service.to_s - service.from_s) * before_end_s) / work
    if rounds is None:
        rounds = min(max(VISITS // len(r), LEAST_ROUNDS), MOST_ROUNDS)
    there = None if available is None else (available[0] - first_s, available[1] / size)
    priced_s = best_price(r, p, share, work, service, rounds, there)
    return Delays(float((ends - r - p).sum()), float((mean_s - r - p / 2).sum()), priced_s)


class Service(NamedTuple):
    """How one machine of speed 1 serves jobs."""

    from_s: Floats  # (n_pieces,)  pieces without a break, in order of time
    to_s: Floats
    row: NDArray[np.int64]  # whose piece it is
    end_s: Floats  # (n_jobs,)  C
    follower: NDArray[np.int64]  # (n_jobs,)  the waiting job that is served next, of those submitted before C; -1: none


def served(submit_s: Floats, work_s: Floats, *, by_remaining: bool) -> Service:
    """Serve at each time the submitted job with the least work, or the least remaining work; `work_s` is > 0."""
    n_jobs = len(submit_s)
    pieces = np.empty(2 * n_jobs), np.empty(2 * n_jobs), np.empty(2 * n_jobs, np.int64)
    service = Service(*pieces, np.empty(n_jobs), np.empty(n_jobs, np.int64))
    heap, key = np.empty(n_jobs, np.int64), np.empty(n_jobs)
    n_pieces = serve(submit_s, work_s, work_s.copy(), int(by_remaining), heap, key, *service)
    return service._replace(from_s=service.from_s[:n_pieces], to_s=service.to_s[:n_pieces], row=service.row[:n_pieces])


@entry(READ, READ, F8, int, I8, F8, F8, F8, I8, F8, I8, gives=int)
@outlined
def serve(submit_s, work_s, left_s, by_remaining, heap, key, from_s, to_s, row, end_s, follower):
    """Fill the columns of a `Service`; returns the number of pieces.

    heap, key: (n_jobs,), memory for the submitted jobs and their priorities; left_s: a copy of work_s.
    """
    n_jobs = len(submit_s)
    pieces = waiting = coming = 0
    now_s = 0.0
    while coming < n_jobs or waiting > 0:
        if waiting == 0:
            now_s = max(now_s, submit_s[coming])
        while coming < n_jobs and submit_s[coming] <= now_s:
            i = waiting
            waiting += 1
            while i > 0 and key[(i - 1) // 2] > work_s[coming]:
                heap[i] = heap[(i - 1) // 2]
                key[i] = key[(i - 1) // 2]
                i = (i - 1) // 2
            heap[i] = coming
            key[i] = work_s[coming]
            coming += 1
        job = heap[0]
        until_s = now_s + left_s[job]
        ends = coming == n_jobs or until_s <= submit_s[coming]
        if not ends:
            until_s = submit_s[coming]
        from_s[pieces] = now_s
        to_s[pieces] = until_s
        row[pieces] = job
        pieces += 1
        left_s[job] -= until_s - now_s
        now_s = until_s
        if not ends:
            if by_remaining:
                key[0] = left_s[job]  # it only gets less, so it stays on top
            continue
        end_s[job] = now_s
        waiting -= 1
        last, last_key = heap[waiting], key[waiting]
        i = 0
        while 2 * i + 1 < waiting:
            child = 2 * i + 1
            if child + 1 < waiting and key[child + 1] < key[child]:
                child += 1
            if key[child] >= last_key:
                break
            heap[i] = heap[child]
            key[i] = key[child]
            i = child
        heap[i] = last
        key[i] = last_key
        follower[job] = heap[0] if waiting > 0 else -1
    return pieces


@entry(READ, READ, READ, READ_ROWS, READ, READ_ROWS, F8, F8, F8)
@outlined
def price(work_s, from_s, to_s, row, end_s, follower, at_end, price_from, price_to):
    """Prices of the machine that make each job of a service by least work as cheap as at any other time.

    While job j is served the price falls at the rate 1 / a_j; at its end it is what its follower's would be then. They
    solve the dual of the linear program that the second bound solves.

    price_from, price_to: (n_pieces,), receive the price at each piece's two ends; at_end: (n_jobs,), at each C.
    """
    for i in range(len(row) - 1, -1, -1):
        job = row[i]
        if to_s[i] == end_s[job]:
            after = follower[job]
            at_end[job] = 0.0 if after < 0 else at_end[after] + (end_s[after] - end_s[job]) / work_s[after]
        price_from[i] = at_end[job] + (end_s[job] - from_s[i]) / work_s[job]
        price_to[i] = at_end[job] + (end_s[job] - to_s[i]) / work_s[job]


def mean_prices(service: Service, work_s: Floats, width_s: float, n_slots: int) -> Floats:
    """The mean in each slot, (n_slots,), of the prices by `price`; 0 in the last slot."""
    price_from, price_to = np.empty(len(service.row)), np.empty(len(service.row))
    price(work_s, *service, np.empty(len(work_s)), price_from, price_to)
    paid = np.cumsum((price_from + price_to) / 2 * (service.to_s - service.from_s))
    times = np.column_stack([service.from_s, service.to_s]).ravel()
    totals = np.column_stack([np.append(0.0, paid[:-1]), paid]).ravel()
    edges = width_s * np.arange(n_slots)
    return np.append(np.diff(np.interp(edges, times, totals)) / width_s, 0.0)


@entry(READ, READ, READ, float, READ, READ, F8, gives=float)
@outlined
def answer(submit_s, runtime_s, share, width_s, prices, totals, change):
    """Start each job where its delay and its price are least together; returns the sum of both over the jobs.

    Args:
        submit_s: r, (n_jobs,), >= 0.
        runtime_s: p.
        share: q / m.
        width_s: of the slots; the last one has no end.
        prices: (n_slots,), of the whole machine per second; 0 in the last slot.
        totals: (n_slots,), the integral of the price up to each slot.
        change: (n_slots + 1,), zeros; receives the machine's seconds used in each slot minus those of the slot before.
    """
    total, last = 0.0, len(prices) - 1
    for job in range(len(submit_s)):
        start_s = submit_s[job]
        end_s = start_s + runtime_s[job]
        i, k = min(int(start_s / width_s), last), min(int(end_s / width_s), last)
        paid = totals[k] + prices[k] * (end_s - k * width_s) - totals[i] - prices[i] * (start_s - i * width_s)
        cost, delay_s = share[job] * paid, 0.0
        least, chosen_s = cost, 0.0
        # The cost is linear between the times at which the start or the end enters another slot.
        while delay_s < least and i < last:
            to_next = (i + 1) * width_s - start_s
            end_to_next = (k + 1) * width_s - end_s if k < last else np.inf
            step_s = min(to_next, end_to_next)
            cost += step_s * (1.0 + share[job] * (prices[k] - prices[i]))
            delay_s += step_s
            start_s += step_s
            end_s += step_s
            if to_next <= end_to_next:
                i += 1
                start_s = i * width_s
            if end_to_next <= to_next:
                k += 1
                end_s = k * width_s
            if cost < least:
                least, chosen_s = cost, delay_s
        total += least
        start_s = submit_s[job] + chosen_s
        end_s = start_s + runtime_s[job]
        i, k = min(int(start_s / width_s), last), min(int(end_s / width_s), last)
        if i == k:
            used = share[job] * runtime_s[job]
            change[i] += used
            change[i + 1] -= used
        else:
            whole = share[job] * width_s
            first, final = share[job] * ((i + 1) * width_s - start_s), share[job] * (end_s - k * width_s)
            change[i] += first
            change[i + 1] += whole - first
            change[k] += final - whole
            change[k + 1] -= final
    return total


def used_up(edges_s: Floats, dates_s: Floats, share: Floats) -> Floats:
    """The seconds of the machine between each edge and the next, if so much of it is available from each date on."""
    whole = np.append(0.0, np.cumsum(share[:-1] * np.diff(dates_s)))
    at = np.searchsorted(dates_s, edges_s, side="right") - 1
    before = np.where(at < 0, edges_s - dates_s[0], 0.0)  # all of it, before the first date
    return np.diff(np.where(at < 0, before, whole[at] + share[at] * (edges_s - dates_s[at])))


def best_price(
    submit_s: Floats,
    runtime_s: Floats,
    share: Floats,
    work_s: Floats,
    service: Service,
    rounds: int,
    available: tuple[Floats, Floats] | None = None,
) -> float:
    """The third bound under the best prices found, which are constant in each of equal slots.

    A subgradient method with inertia: the price of a slot rises while the jobs would use more than the machine. Steps
    aim above the best bound so far, less so the more often the bound falls. `available`: dates, and the share of the
    machine that is available from each on.
    """
    horizon_s = max(float(service.end_s.max()), float((submit_s + runtime_s).max()))
    if available is not None:
        horizon_s = max(horizon_s, float(available[0][-1]))
    late_s = np.maximum(service.end_s - submit_s - runtime_s, 0.0)
    narrow_s = max(
        horizon_s / max(len(submit_s), FEWEST), float(runtime_s.mean()) / FINENESS, float(late_s.mean()) / FINENESS
    )
    best_s, best, aim_s, coarser = -np.inf, np.zeros(0), -1.0, 0
    for width in WIDTHS:
        width_s = width * narrow_s
        n_slots = int(horizon_s / width_s) + 2
        change, totals = np.empty(n_slots + 1), np.empty(n_slots)
        lost_s = (
            np.zeros(n_slots)
            if available is None
            else width_s - used_up(width_s * np.arange(n_slots + 1.0), *available)
        )

        def under(
            prices: Floats,
            width_s: float = width_s,
            change: Floats = change,
            totals: Floats = totals,
            lost_s: Floats = lost_s,
        ) -> float:
            totals[0] = 0.0
            np.cumsum(prices[:-1] * width_s, out=totals[1:])
            change[:] = 0.0
            paid = float(answer(submit_s, runtime_s, share, width_s, prices, totals, change) - totals[-1])
            return paid + float((prices * lost_s).sum())

        if not len(best):
            starts = [part * mean_prices(service, work_s, width_s, n_slots) for part in PARTS]
            best = max(starts, key=under)
        else:
            finer = np.repeat(best, coarser // width)[: n_slots - 1]
            best = np.append(finer, np.zeros(n_slots - len(finer)))
        coarser, prices, move, falls, before_s = width, best, np.zeros(n_slots), 0, -np.inf
        for _ in range(rounds):
            delay_s = under(prices)
            if delay_s > best_s:
                best_s, best = delay_s, prices
            excess = np.cumsum(change)[:-1] - width_s + lost_s
            excess[(prices <= 0) & (excess < 0)] = 0.0
            excess[-1] = 0.0
            norm = float((excess * excess).sum())  # no dot product, which differs from one processor to another
            if norm == 0:
                return best_s  # the jobs fit at these prices: the bound is exact
            if aim_s < 0:
                aim_s = 5 * float(np.maximum(excess, 0.0).sum())
            falls += delay_s < before_s
            before_s = delay_s
            if falls == PATIENCE:
                aim_s, falls = aim_s / SHRINK, 0
            move = INERTIA * move + excess
            prices = np.maximum(prices + STRIDE * (aim_s + best_s - delay_s) / norm * move, 0.0)
            prices[-1] = 0.0
    return best_s
