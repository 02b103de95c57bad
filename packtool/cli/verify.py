"""`packtool verify`: prove a dataset, list every problem, exit 1 if there is one."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from packtool.inspect import verify as verify_dataset

__all__ = ["verify"]


def verify(
    dataset: Annotated[Path, typer.Argument(help="A folder written by `packtool pack`.")],
    quick: Annotated[bool, typer.Option("--quick", help="Only the manifest, sizes, headers and offsets.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check every promise of the format on DATASET: files, packs, ledger and totals."""
    report = verify_dataset(dataset, quick=quick)
    if as_json:
        print(json.dumps(dataclasses.asdict(report), sort_keys=True))
    else:
        for problem in report.problems:
            print(f"problem: {problem}")
        if report.without_target:
            shown = ", ".join(map(str, report.without_target[:5]))
            more = ", ..." if len(report.without_target) > 5 else ""
            print(f"note: {len(report.without_target):,} packs hold no trained token: {shown}{more}")
        if not report.problems:
            what = "sizes, headers and offsets" if quick else "files, packs, ledger and totals"
            print(f"ok: {report.packs:,} packs, {report.records:,} records; {what} are as they should be")
    if report.problems:
        raise typer.Exit(1)
