"""A configuration, how near it comes to the policy, and where that is documented."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["exact", "approximate", "not expressible"]
EXACT: Verdict = "exact"
APPROXIMATE: Verdict = "approximate"
IMPOSSIBLE: Verdict = "not expressible"


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """The nearest that a batch system's configuration comes to a policy."""

    system: str
    policy: str
    verdict: Verdict
    differs: tuple[str, ...]  # from the policy, one sentence each; empty for an exact one
    files: dict[str, str]  # text by file, or by the command that takes it
    sources: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def as_text(self) -> str:
        """What is said of it, then the files, each below its name; all but the files are comments."""
        said = [f"{self.policy} on {self.system}: {self.verdict}"]
        said += [f"differs: {line}" for line in self.differs]
        said += [f"source: {line}" for line in self.sources]
        parts = ["\n".join(f"# {line}" for line in said)]
        parts += [f"{mark_of(file)} {file}\n{text.rstrip()}" for file, text in self.files.items()]
        return "\n\n".join(parts)


def mark_of(file: str) -> str:
    """What begins a comment in this file."""
    return "--" if file.endswith(".lua") else "#"
