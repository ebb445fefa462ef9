"""A log's clock: what date its second 0 was, and in which time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from batfill.workloads.swf_log import header_value

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_S = 86_400
WEEK_S = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class Clock:
    """When second 0 of a log was (Unix time), and the zone its users live in."""

    unix_start_s: int
    zone: tzinfo

    def date(self, at_s: float) -> datetime:
        """The date of a second of the log, in the users' zone."""
        return datetime.fromtimestamp(self.unix_start_s + at_s, self.zone)

    def later(self, by_s: float) -> Clock:
        """The clock of what begins that much later."""
        return Clock(self.unix_start_s + round(by_s), self.zone)

    @property
    def zone_name(self) -> str:
        """The zone: its name in the time zone database, or its distance from UTC, as UTC+01:00."""
        return str(getattr(self.zone, "key", None) or self.zone)

    def as_dict(self) -> dict[str, int | str]:
        """For JSON; `of` reads it."""
        return {"unix_start_s": self.unix_start_s, "zone": self.zone_name}

    @classmethod
    def of(cls, stored: dict[str, int | str]) -> Clock:
        """The clock that `as_dict` gave; a zone that this machine does not know is UTC."""
        name = str(stored["zone"])
        if name.startswith("UTC"):
            offset = datetime.strptime(f"{name[3:] or '+00:00'}", "%z").utcoffset()
            return cls(int(stored["unix_start_s"]), timezone(offset or timedelta(0)))
        try:
            return cls(int(stored["unix_start_s"]), ZoneInfo(name))
        except (KeyError, ValueError, OSError):
            return cls(int(stored["unix_start_s"]), UTC)

    def second(self, date: datetime) -> float:
        """The second of the log at which this date was."""
        return date.timestamp() - self.unix_start_s

    def second_of(self, text: str) -> float:
        """The second of the log at this date in the users' zone, as in 2012-02-03 or 2012-02-03 00:00:00.

        Raises:
            ValueError: there is no such date.
        """
        return self.second(datetime.fromisoformat(" ".join(text.split())).replace(tzinfo=self.zone))


def clock_of(header: Sequence[str]) -> Clock | None:
    """The clock a header gives: UnixStartTime, and TimeZoneString, else TimeZone (seconds from UTC), else UTC."""
    words = (header_value(header, "UnixStartTime") or "").split()
    if not words or not (words[0].isascii() and words[0].isdigit()) or int(words[0]) > 2**33:
        return None
    return Clock(int(words[0]), _zone(header))


def _zone(header: Sequence[str]) -> tzinfo:
    try:
        return ZoneInfo(header_value(header, "TimeZoneString") or "")
    except (KeyError, ValueError, OSError):  # no name, or one that this machine does not know
        pass
    try:
        return timezone(timedelta(seconds=int((header_value(header, "TimeZone") or "").split()[0])))
    except (IndexError, ValueError):
        return UTC
