"""Hold Cuvil to PyTorch's own operator database.

    python -m tools.opinfo [--only NAMES] [--skip PREFIXES] [--native] [--json FILE]

Each operator's sample inputs (float32, int64, bool) become small programs, which are captured and
run by the reference interpreter (or compiled, with --native) and compared with torch. Operators
that FILE has a verdict on already are left alone, so a run can be stopped and continued. Each
operator is judged in a process of its own.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tools.opinfo.apart import judge_apart
from tools.opinfo.forms import FORMS
from tools.opinfo.run import judge_operator
from tools.opinfo.samples import operators

STATUSES = ("right", "refused", "wrong", "fault", "slow", "skipped")


def chosen(names: list[str], only: list[str], skip: list[str]) -> list[str]:
    """The names that some pattern of ``only`` fits (all without one) and no prefix of ``skip``."""
    kept = [n for n in names if not n.startswith(tuple(skip))]
    return [n for n in kept if not only or any(fnmatch.fnmatchcase(n, p) for p in only)]


def summary(table: dict[str, dict[str, Any]]) -> str:
    """How many operators ended how."""
    count = collections.Counter(v["status"] for v in table.values())
    judged = sum(count[s] for s in STATUSES if s != "skipped")
    parts = [f"{count[s]} {s}" for s in STATUSES if count[s]]
    return f"{', '.join(parts)}: {count['right'] / max(judged, 1):.1%} of {judged} right"


def main(arguments: list[str]) -> int:
    """0 where nothing is wrong, at fault or slow; else 1."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.opinfo")
    parser.add_argument("--only", nargs="*", default=[], help="names or patterns (add, nn.*)")
    parser.add_argument("--skip", nargs="*", default=[], help="prefixes to leave out")
    parser.add_argument("--native", action="store_true", help="compile instead of interpreting")
    parser.add_argument("--json", type=Path, help="verdicts are kept here and not made again")
    parser.add_argument("--refusals", type=Path, metavar="FILE",
                        help="write the operators of --json that are refused, with the reason "
                             "that FILE has already, or the first one given")
    parser.add_argument("--again", nargs="*", default=[], metavar="STATUS",
                        help="judge again what the file has with these statuses")  # fmt: skip
    parser.add_argument("--most", type=int, help="sample inputs of each dtype at most")
    parser.add_argument("--patience", type=int, help="refusals after which a program isn't split")
    parser.add_argument("--form", choices=sorted(FORMS), default="function",
                        help="call it in place, through a view, with out=, as a method, by alias")
    parser.add_argument("--more", action="store_true", help="torch's longer list of samples")
    parser.add_argument("--seconds", type=float, default=60, help="for each operator")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    infos = operators()
    torch.set_num_threads(1)  # a pool of threads doesn't outlive a fork
    judge_operator(infos["neg"], "neg", most=1)  # what is loaded now isn't loaded by each child
    names = chosen(list(infos), given.only, given.skip)
    kept = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    for name in names:
        before = kept.get(name)
        if before and before["status"] not in given.again:
            continue
        verdict = judge_apart(
            infos[name], name, native=given.native, seconds=given.seconds, most=given.most,
            patience=given.patience, form=given.form, more=given.more,
        )  # fmt: skip
        _keep(given.json, kept, name, asdict(verdict))
        print(f"{verdict.status:8} {verdict.seconds:6.1f} s  {name} {verdict.counts}", flush=True)
        for kind in ("fault", "wrong", "refused"):
            for reason in verdict.reasons.get(kind, [])[:3]:
                print(f"    {kind}: {reason.splitlines()[0][:300]}", flush=True)
    table = {n: kept[n] for n in names if n in kept}
    print(summary(table))
    if given.refusals is not None:
        known = json.loads(given.refusals.read_text()) if given.refusals.exists() else {}
        found = {n: known.get(n, _reason(v)) for n, v in table.items() if v["status"] == "refused"}
        given.refusals.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(v["status"] in ("wrong", "fault", "slow") for v in table.values()))


def _reason(verdict: dict[str, Any]) -> str:
    """Why some sample of an operator is refused: the first reason, without the sample."""
    text = str(next(iter(verdict["reasons"].get("refused", [])), "refused")).splitlines()[0]
    return text.split(": ", 1)[-1][:200]


def _keep(path: Path | None, kept: dict[str, Any], name: str, verdict: dict[str, Any]) -> None:
    kept[name] = verdict
    if path is not None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        part.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
