"""What a comparison of paths found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PathSite:
    """What was seen at one branch or loop: ``ways`` has how often each possible way was gone in
    the reference, ``different`` those that the artifact did not go as often on some inputs.
    ``divergence`` is the largest error of a carried value at a loop's end, over its scale."""

    kind: str
    place: str
    ways: dict[str, int] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)
    divergence: float = 0.0


@dataclass(frozen=True)
class PathReport:
    """All sites. ``coverage`` is the share of possible ways that some inputs went, ``fidelity`` the
    share of those that the artifact reproduced on all inputs."""

    sites: tuple[PathSite, ...] = ()
    cases: int = 0

    @property
    def passed(self) -> bool:
        return not any(site.different for site in self.sites)

    @property
    def coverage(self) -> float:
        ways = [n for site in self.sites for n in site.ways.values()]
        return sum(n > 0 for n in ways) / len(ways) if ways else 1.0

    @property
    def fidelity(self) -> float:
        gone = [(s, way) for s in self.sites for way, n in s.ways.items() if n]
        wrong = sum(way in site.different for site, way in gone)
        return 1 - wrong / len(gone) if gone else 1.0

    @property
    def divergence(self) -> float:
        """The largest of all sites."""
        return max((site.divergence for site in self.sites), default=0.0)

    @property
    def missed(self) -> list[str]:
        """Ways that no inputs went, in words."""
        return [f"{w} of {s.place}" for s in self.sites for w, n in s.ways.items() if not n]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return {
            "passed": self.passed,
            "fidelity": self.fidelity,
            "coverage": self.coverage,
            "divergence": self.divergence if math.isfinite(self.divergence) else "inf",
            "cases": self.cases,
            "missed": self.missed,
            "sites": [
                {"kind": s.kind, "place": s.place, "ways": s.ways, "different": s.different,
                 "divergence": s.divergence if math.isfinite(s.divergence) else "inf"}
                for s in self.sites
            ],
        }  # fmt: skip

    def __str__(self) -> str:
        if not self.sites:
            return "paths: no branches or loops"
        head = (
            f"paths: {self.fidelity:.0%} of the ways that inputs went are reproduced, "
            f"{self.coverage:.0%} of all were gone; loop state differs by at most "
            f"{self.divergence:.2e} of scale"
        )
        lines = [head]
        lines += [
            f"  {s.kind} at {s.place}: {', '.join(s.different)} in another number"
            for s in self.sites if s.different
        ]  # fmt: skip
        lines += [f"  not reached: {text}" for text in self.missed]
        return "\n".join(lines)
