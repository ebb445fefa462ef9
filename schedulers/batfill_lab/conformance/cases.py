"""The workloads of the kit: each is small enough to be drawn, and separates some variants of EASY from others.

In the drawings a row is a host, the lowest id at the bottom, and a column is 10 s unless stated; a letter is a job as
the variant `easy` runs it, and `.` is idle. Jobs are `name submission hosts walltime runtime`, walltime - for none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal

import orjson

from batfill.model.jobs import DAY_S

NoWalltime = Literal["waits", "is rejected", "counts as short"]  # what a scheduler does with a job that has none
# The thresholds that a scheduler's queue is examined for: 1 s to 10 days.
THRESHOLDS_S = (*(unit * n for unit in (1, 60, 3600) for n in (1, 2, 5, 10, 20)), *(DAY_S * n for n in (1, 2, 5, 10)))
DEPTHS = (2, 3, 4, 8)  # the numbers of reservations, beside one and all, that a scheduler is examined for
APART_S = 1e-7  # too short for the six decimals of a message's date: the second message has the same date


@dataclass(frozen=True, slots=True)
class Case:
    """One workload, and how its schedules are to be read."""

    name: str
    sentence: str  # what it shows
    hosts: int
    jobs: str  # one per line
    answers: dict[str, str] = field(default_factory=dict)  # what a schedule means, by a variant that makes it
    habits: dict[NoWalltime, str] = field(default_factory=dict)  # what each value of `no_walltime` means
    events: tuple[dict[str, Any], ...] = ()  # external events
    registers: bool = False  # whether the scheduler may submit jobs
    optional: bool = False  # whether a scheduler may fail here and still keep the protocol

    def workload(self) -> bytes:
        """The workload as Batsim reads it."""
        jobs: list[dict[str, Any]] = []
        profiles: dict[str, dict[str, Any]] = {}
        for line in self.jobs.split("\n"):
            if not line.strip():
                continue
            name, submit, procs, walltime, runtime = line.split()
            profile = f"delay{runtime}"
            profiles[profile] = {"type": "delay", "delay": float(runtime)}
            job = {"id": name, "subtime": float(submit), "res": int(procs), "profile": profile}
            jobs.append(job if walltime == "-" else {**job, "walltime": float(walltime)})
        document = {"nb_res": self.hosts, "description": self.sentence, "jobs": jobs, "profiles": profiles}
        return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"

    def external_events(self) -> bytes:
        """The external events as Batsim reads them: one per line."""
        return b"".join(orjson.dumps(event) + b"\n" for event in self.events)


def ladder() -> str:
    """The jobs of `waiting`: a wait between each two of the thresholds that are looked for, and beyond them."""
    jobs, now_s = [], 0
    below = (THRESHOLDS_S[0] / 2, *THRESHOLDS_S)
    above = (*THRESHOLDS_S, THRESHOLDS_S[-1] * 2)
    for number, (low_s, high_s) in enumerate(zip(below, above, strict=True)):
        waited_s = round(sqrt(low_s * high_s), 1)
        jobs += [
            f"X{number} {now_s} 2 {waited_s + 1:.1f} {waited_s + 1:.1f}",
            f"L{number} {now_s + 1} 2 40 40",
            f"S{number} {now_s + waited_s + 0.9:.1f} 1 10 10",
        ]
        now_s += int(waited_s) + 100
    return "\n".join(jobs)


def chains() -> str:
    """The jobs of `reservations`: chains of waiting jobs, each one longer than a number that is looked for."""
    jobs = []
    for number, behind in enumerate((1, *DEPTHS)):
        now_s = 2000 * number
        jobs.append(f"A{number} {now_s} 2 100 100")
        jobs += [f"H{number}{i} {now_s + 1 + i} 2 10 10" for i in range(behind)]
        jobs += [f"L{number} {now_s + 20} 3 10 10", f"J{number} {now_s + 30} 1 1000 1000"]
    return "\n".join(jobs)


CASES = {
    case.name: case
    for case in (
        # 0         50        100
        # bbbbb.....ccccc         a, b, c: jobs 10, 11, 9
        # bbbbbccccc
        # aaaaaccccc
        # aaaaaccccc
        Case(
            "queue-order",
            "Jobs of one instant queue by their ids as strings: 10 comes before 11, and 11 before 9.",
            4,
            """
            10 0 2 50 50
            9  0 4 50 50
            11 0 2 50 50
            """,
            {"easy": "by submission, then by ids as strings"},
        ),
        # .JJJJJ....HHHHH
        # ..........HHHHH
        # AAAAAAAAAAHHHHH
        # AAAAAAAAAAHHHHH
        Case(
            "short-job",
            "A job that ends before the shadow time passes the head.",
            4,
            """
            A 0  2 100 100
            H 5  4  50  50
            J 10 1  50  50
            """,
            {"easy": "it is backfilled", "fcfs": "nothing is backfilled"},
        ),
        # .JJJJJJJJJHHHHH
        # AAAAAAAAAAHHHHH
        Case(
            "exactly-by-the-shadow",
            "A job that would end exactly at the shadow time passes the head.",
            2,
            """
            A 0  1 100 100
            H 5  2  50  50
            J 10 1  90  90
            """,
            {"easy": "it is backfilled: t + walltime <= shadow", "easy-strict": "it waits: t + walltime < shadow"},
        ),
        # .JJJJJJJJJJJJJJJJJJJ  J runs on
        # ..........HHHHH
        # ..........HHHHH
        # ..........HHHHH
        # AAAAAAAAAAHHHHH
        # AAAAAAAAAAHHHHH
        Case(
            "extra-processors",
            "A job that outlives the shadow time may use the processors that the head leaves.",
            6,
            """
            A 0  2 100 100
            H 5  5  50  50
            J 10 1 500 500
            """,
            {"easy": "extra processors are used", "easy-no-extra": "extra processors are not used"},
        ),
        # BBBBBBBBBBHHHHH   Two processors are extra at 100, and two hosts are idle at 30. The lowest four hosts, which
        # BBBBBBBBBBHHHHH   a reservation of machines takes, include these two: under such a one J waits until 100.
        # BBBBBBBBBBHHHHH
        # BBBBBBBBBBHHHHH
        # A..JJJJJJJJJJJJJJ
        # A..JJJJJJJJJJJJJJ
        Case(
            "extra-machines",
            "Two processors are extra and two hosts are idle, but these are among the lowest that the head may get.",
            6,
            """
            A 0  2  10  10
            B 0  4 100 100
            H 20 4  50  50
            J 30 2 500 500
            """,
            {
                "easy": "it is backfilled: processors are counted",
                "easy-machines": "it waits: the reservation is of machines, or there are no extra processors",
            },
        ),
        # .JJJJJJJJJJJJJJJJJJJ  J runs on
        # .JJJJJJJJJJJJJJJJJJJ
        # BBBBBBBBBBHHHHH
        # BBBBBBBBBBHHHHH
        # AAAAAAAAAAHHHHH
        # AAAAAAAAAAHHHHH
        Case(
            "ties-at-the-shadow",
            "Two jobs are expected to end at the shadow time, and the head needs the processors of one of them.",
            6,
            """
            A 0  2 100 100
            B 0  2 100 100
            H 5  4  50  50
            J 10 2 500 500
            """,
            {
                "easy": "all releases at the shadow time count",
                "easy-first": "only as many releases count as the head needs, or there are no extra processors",
            },
        ),
        # ..KKKKK...HHHHH
        # .JJJJJJJJJJJJJJJ  J has the one extra processor and runs on; L, as long, waits.
        # ..........HHHHHL
        # AAAAAAAAAAHHHHH
        # AAAAAAAAAAHHHHH
        # AAAAAAAAAAHHHHH
        Case(
            "extra-is-used-up",
            "Two jobs that outlive the shadow time want the one extra processor.",
            6,
            """
            A 0  3 100 100
            H 5  5  50  50
            J 10 1 500 500
            L 10 1 500 500
            K 20 1  50  50
            """,
            {
                "easy": "one has it, and the head is not delayed",
                "easy-no-extra": "none has it",
                "filler": "both start, and the head is delayed",
            },
        ),
        # ............JJJ
        # BBBBBBBHHHHH      A ends at 50 although it may run until 100. Until 50 the shadow time is 100, then it is 70,
        # AAAAA..HHHHH      and J, submitted at 55 with a walltime of 30, would delay the head.
        # AAAAA..HHHHH
        Case(
            "reservation-renewed",
            "A job ends early, which moves the shadow time forward, and then a job arrives that fits the old one only.",
            4,
            """
            A 0  2 100  50
            B 0  1  70  70
            H 5  4  50  50
            J 55 1  30  30
            """,
            {
                "easy": "the reservation is made in each pass",
                "easy-kept": "the reservation is kept, and the head is delayed",
            },
        ),
        # 0         10        20        30        40    (one column is 1 s)
        # ...JJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJKKKK
        # AAAAAAAAAAHHHHHHHHHH.......................KKKK  J does not delay H, but K.
        # AAAAAAAAAAHHHHHHHHHH.......................KKKK
        # AAAAAAAAAAHHHHHHHHHH.......................KKKK
        Case(
            "second-in-line",
            "A job passes the head without delaying it, but delays the job behind the head.",
            4,
            """
            A 0  3  10  10
            H 1  3  10  10
            K 2  4  10  10
            J 3  1  40  40
            """,
            {"easy": "only the head is protected", "conservative": "every job is protected, or nothing is extra"},
        ),
        # Of the first of the chains:
        # ...JJJJJJJJJJJJJJJJJ  J delays L, the second that waits, but not H.
        # AAAAAAAAAAH........L
        # AAAAAAAAAAH........L
        Case(
            "reservations",
            "A long job passes 1, 2, 3, 4 and 8 waiting jobs without delaying them, but delays the one behind them.",
            3,
            chains(),
            {
                "easy": "at most the head is protected",
                **{f"depth-{depth}": f"the first {depth} are protected" for depth in DEPTHS},
                "depth-all": "every job is protected",
            },
        ),
        # K's reservation begins at 200, or at 210 if A and H are each planned 5 s longer; then J fits before it.
        Case(
            "margin",
            "A job ends before a reservation only if walltimes are planned with a margin.",
            4,
            """
            A 0  3 100 100
            H 1  3 100 100
            K 2  4 100 100
            J 3  1 200 200
            """,
            {
                "easy": "it starts: the second reservation is later, or there is none",
                "conservative": "it waits: the second reservation is in its way, or nothing is extra",
            },
        ),
        # BBB.DDDDD...   C waits for A (C and D could not both start at 30). When B ends early, C moves first: it sees
        # BBB.DDDDD...   D's reservation where it was, from 1005 on, and cannot pass it with its walltime of 1000.
        # ....(C from 200 on)
        # AAAAAAAAAAAA
        Case(
            "compression",
            "A job ends early, and two reservations move forward, one after the other.",
            4,
            """
            A 0  1  200  200
            B 5  2 1000   25
            C 10 2 1000 1000
            D 15 2  500  250
            """,
            {
                "conservative": "the first sees the second where it was",
                "easy": "the first has the machines: it is the head, or all reservations are made again",
            },
        ),
        # At 50 A and B end in one message; after the first of the two, J fits beside the head's reservation at 100.
        Case(
            "two-ends-in-one-message",
            "Two jobs end at one instant, in one message.",
            4,
            """
            A 0  2 100 50
            B 0  2 100 50
            H 5  4  50 50
            J 10 2  20 20
            """,
            {"easy": "one decision for the message", "easy-contiguous": "a decision for each event"},
        ),
        # The same, but the end of B arrives in a message of its own, with the same date.
        Case(
            "two-ends-in-two-messages",
            "Two jobs end at one instant, in two messages.",
            4,
            f"""
            A 0  2 100 50
            B 0  2 100 {50 + APART_S:.7f}
            H 5  4  50 50
            J 10 2  20 20
            """,
            {"easy": "a decision for each message", "fcfs": "the head starts: the decision awaits the second message"},
        ),
        # .....JJJJJJ
        # AAAAAHHHHHKKKK
        # AAAAAHHHHHKKKK...
        # AAAAAHHHHH
        Case(
            "end-and-submission",
            "A job ends at the instant at which others are submitted.",
            4,
            """
            A 0  3 100 50
            H 5  3  50 50
            J 50 1 500 60
            K 50 2  40 40
            """,
        ),
        # BBBBBCCCDDDDD...
        # BBBBBCCCDDDDD...
        # AAAAAAAAAA......
        # AAAAAAAAAA......
        Case(
            "walltime-reached",
            "A job that outlives its walltime is ended there, which frees its processors.",
            4,
            """
            A 0  2 100 100
            B 0  2  50  80
            C 10 2  30  30
            D 50 2  50  50
            """,
        ),
        # .BBBBB....CCCCC
        # .BBBBB....CCCCC  N requests five of the four hosts.
        # AAAAAAAAAACCCCC
        # AAAAAAAAAACCCCC
        Case(
            "too-wide",
            "A job that requests more than the machine is rejected, and the others run.",
            4,
            """
            A 0  2 100 100
            N 5  5  50  50
            B 10 2  50  50
            C 20 4  50  50
            """,
            {"easy": "it is rejected"},
        ),
        # ..JJJJJ...  B and D leave two idle hosts that are not neighbours.
        # CCCCCCCCCC
        # B.JJJJJ...
        # AAAAAAAAAA
        Case(
            "scattered-hosts",
            "Enough hosts are idle, but they are not neighbours.",
            4,
            """
            A 0  1 100 100
            B 0  1  10  10
            C 0  1 100 100
            D 0  1  10  10
            J 20 2  50  50
            """,
            {"easy": "any hosts will do", "easy-contiguous": "only neighbouring hosts are used"},
        ),
        Case(
            "long-queue",
            "A dozen jobs: several heads, early ends, and jobs that outlive a shadow time.",
            8,
            """
            a 0   3 120 100
            b 0   2  60  40
            c 5   6  50  50
            d 10  1 400 200
            e 15  3  30  25
            f 20  8  20  20
            g 25  2 110  90
            h 40  1  60  60
            i 60  4  40  10
            j 75  2 300 150
            k 90  5  80  80
            l 100 1  10  10
            """,
        ),
        # Each of the next ten is what a scheduler that is almost `easy` runs otherwise.
        # bbbbbbbbbb: a has all hosts until 100, then b until 150, then c and d.
        Case(
            "one-instant",
            "Four jobs of one instant, by their ids neither shorter nor narrower.",
            4,
            """
            a 0 4 100 100
            b 0 4  50  50
            c 0 2  20  20
            d 0 1  10  10
            """,
            {"easy": "by ids"},
        ),
        # zzzzzzzzzzyyyyyxxxxx
        Case(
            "later-ids-first",
            "Jobs whose ids descend as they are submitted.",
            4,
            """
            z 0 4 100 100
            y 5 4  50  50
            x 6 4  50  50
            """,
            {"easy": "by submission"},
        ),
        # .JJJJJJJJJHHHHHKKKKK
        # AAAAAAAAAAHHHHH      One host is idle at 10, for the first in the queue, not for the shortest.
        Case(
            "longer-before-shorter",
            "Two jobs could be backfilled on one host, and the one that is first in the queue is longer.",
            2,
            """
            A 0  1 100 100
            H 5  2  50  50
            J 10 1  90  90
            K 10 1  50  50
            """,
            {"easy": "in the order of the queue"},
        ),
        # .JJJJJ....HHHHH
        # .JJJJJ....HHHHH
        # AAAAAAAAAAHHHHH
        # AAAAAAAAAAHHHHH  K follows J at 60? No: it would end at 110, so it waits for H.
        Case(
            "wider-before-narrower",
            "Two jobs could be backfilled on two hosts, and the one that is first in the queue is wider.",
            4,
            """
            A 0  2 100 100
            H 5  4  50  50
            J 10 2  50  50
            K 10 1  50  50
            """,
            {"easy": "in the order of the queue"},
        ),
        # ..........HHHHHJJJJJJJJJ
        # AAAAAAAAAAHHHHH
        Case(
            "just-past-the-shadow",
            "A job would end one second after the shadow time, and no processor is extra.",
            2,
            """
            A 0  1 100 100
            H 5  2  50  50
            J 10 1  91  91
            """,
            {"easy": "it waits"},
        ),
        # .JJJJJJJJJHHHHHK  J would end 1 ms before the shadow time, K 1 ms after it.
        # ..........HHHHHK
        # AAAAAAAAAAHHHHHK
        Case(
            "a-millisecond-around-the-shadow",
            "One job would end a millisecond before the shadow time, the other a millisecond after it.",
            3,
            """
            A 0  1 100    100
            H 5  3  50     50
            J 10 1  89.999 89.999
            K 10 1  90.001 90.001
            """,
            {"easy": "only the first is backfilled"},
        ),
        # Two processors are extra. J takes both, and K, one host wide, waits.
        Case(
            "extra-by-width",
            "A job two hosts wide takes both extra processors, and the next wants one.",
            8,
            """
            A 0  4 100 100
            H 5  6  50  50
            J 10 2 500 500
            K 10 1 500 500
            """,
            {"easy": "each takes as many as its width", "easy-no-extra": "extra processors are not used"},
        ),
        # Two processors are extra. J and K take one each, and L waits.
        Case(
            "extra-for-two",
            "Three jobs, each one host wide, want the two extra processors.",
            8,
            """
            A 0  4 100 100
            H 5  6  50  50
            J 10 1 500 500
            K 10 1 500 500
            L 10 1 500 500
            """,
            {"easy": "two have them", "easy-no-extra": "none has them"},
        ),
        # All twelve start at 10.
        Case(
            "many-backfilled",
            "Twelve jobs can be backfilled at one instant.",
            14,
            "A 0 1 500 500\nH 5 14 50 50\n" + "\n".join(f"{letter} 10 1 50 50" for letter in "abcdefghijkl"),
            {"easy": "all are", "fcfs": "none is"},
        ),
        # z starts at 10, although twelve jobs that do not fit are before it.
        Case(
            "deep-queue",
            "The thirteenth job behind the head is the only one that fits.",
            4,
            "A 0 2 500 500\nH 5 4 50 50\n"
            + "\n".join(f"{letter} 10 4 50 50" for letter in "abcdefghijkl")
            + "\nz 10 1 50 50",
            {"easy": "it is backfilled: the whole queue is looked at", "fcfs": "it waits"},
        ),
        # AAAAAHHHHHWWWWWJJ  At 50 H starts, and W is the head: J, which fits beside H, would delay it.
        # AAAAAHHHHHWWWWWJJ
        # AAAAA.....WWWWW
        # AAAAA.....WWWWW
        Case(
            "next-head",
            "A head starts, and a job fits beside it that would delay the next.",
            4,
            """
            A 0 4  50  50
            H 5 2  50  50
            W 6 4  50  50
            J 7 2 100 100
            """,
            {"easy": "the next head is protected at once"},
        ),
        # For each wait: X has both hosts, L waits for so long, S hardly at all; both can go first when X ends.
        Case(
            "waiting",
            "Pairs of a large job that has waited and a small one that has not, with waits from 0.7 s to 14 days.",
            2,
            ladder(),
            {"easy": "in the order of submission at any wait"},
        ),
        # ..JJJJJ...HHHHHUUUUU
        # ..........HHHHH
        # AAAAAAAAAAHHHHH
        # AAAAAAAAAAHHHHH
        Case(
            "no-walltime",
            "A job without walltime is submitted behind the head.",
            4,
            """
            A 0  2 100 100
            H 5  4  50  50
            U 10 1   - 150
            J 20 1  50  50
            """,
            habits={
                "waits": "it is never expected to end, and not backfilled before the shadow time",
                "counts as short": "it is backfilled as if it ended at once, and may delay the head",
                "is rejected": "it is rejected",
            },
        ),
        # ..##################      (# is away)
        # ..##################HHHHH
        # AAAAAAAAAA.....JJJJ.HHHHH
        # AAAAAAAAAABBBBBJJJJ.HHHHH
        Case(
            "machines-away",
            "Two idle hosts go away, and come back later.",
            4,
            """
            A 0  2 100 100
            B 30 1  50  50
            H 40 3  50  50
            J 50 2  40  40
            """,
            events=(
                {"timestamp": 20, "type": "machine_unavailable", "resources": "2-3"},
                {"timestamp": 200, "type": "machine_available", "resources": "2-3"},
            ),
            optional=True,
        ),
        # As short-job.
        Case(
            "registration",
            "The scheduler may submit jobs, and the simulation ends only once it says that it will submit none.",
            4,
            """
            A 0  2 100 100
            H 5  4  50  50
            J 10 1  50  50
            """,
            registers=True,
            optional=True,
        ),
    )
}
