"""The Python interface in a minute: `python docs/examples/first_minute.py LOG`; by default the sample."""

import sys

import batfill as bf

log = bf.read(sys.argv[1] if len(sys.argv) > 1 else "workloads/sample.json")
fcfs = bf.replay(log, "fcfs")
saf = bf.replay(log, "saf", backfill="spf", threshold_s=200_000)
print(saf)
print(saf.to_pandas().groupby("user").wait_s.mean().head())
print(saf.to_arrow().num_rows, "rows without pandas")
saf.to_batsim("out/saf")
print(bf.compare(fcfs, saf))

mine = bf.Policy("mine", key=lambda r, p, q: p * q, per_wait=lambda r, p, q: -q)
frame = bf.replay_many(log, [mine, *bf.policies.values()])
print(frame[["mean_wait_s", "max_wait_s", "mean_bsld"]])

run = bf.Replay(log, "saf").run(until_s=86_400)
other = run.fork(policy="wfp3").run()
print(len(run.waiting), "waiting and", len(run.running), "running after a day;", other.figures.mean_bsld)
