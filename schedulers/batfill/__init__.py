"""EASY-backfilling schedulers for the Batsim simulator, and a compiled engine that replays the same decisions.

Everything a study needs is here, and is loaded on first use:

>>> import batfill as bf
>>> log = bf.read("workloads/sample.json")
>>> fcfs, saf = bf.replay(log, "fcfs"), bf.replay(log, "saf", threshold_s=200_000)
>>> bool(saf.figures.mean_wait_s < fcfs.figures.mean_wait_s)
True
"""

from batfill.base.version import __version__ as __version__


def __listed():  # type: ignore[no-untyped-def]  # type checkers read the list instead of this file
    """The names in `__init__.pyi`: the module and the name there of each, and the list as a page."""
    home, places, page = {}, {}, []
    for line in __spec__.loader.get_data(f"{__file__}i").decode().split("\n\n", 2)[2].splitlines():
        if line.startswith("# "):
            page += ["", line[2:]]
            continue
        place, _, summary = line.partition("  # ")
        if place.startswith("from "):
            _, module, _, names = place.split(maxsplit=3)
            home |= {its_name.partition(" as ")[0]: module for its_name in names.split(", ")}
        if summary:
            its_name, name = place.rpartition(" ")[2], place.rpartition(" as ")[2].partition(" = ")[0]
            places[name] = home[its_name], its_name
            page.append(f"    {name:13} {summary}")
    return places, "\n".join(page)


PLACES, __page = __listed()
__doc__ = f"{__doc__}{__page}\n\n`help(batfill.NAME)` tells more of each; times are in seconds, sizes in processors.\n"
__all__ = sorted([*PLACES, "__version__"])


def __getattr__(name):  # type: ignore[no-untyped-def]
    """Load a public name from its module on first use: `import batfill` loads nothing slow."""
    if name in ("JobTable", "Workload"):
        raise AttributeError(
            f"batfill.{name} is batfill.Jobs; the machine's processors are its `size`, its `procs` are the jobs'"
        )
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, its_name = PLACES[name]
    value = getattr(import_module(module), its_name)
    globals()[name] = value
    return value


def __dir__():  # type: ignore[no-untyped-def]
    return __all__
