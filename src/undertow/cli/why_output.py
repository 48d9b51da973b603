"""Write the findings of `undertow why` to the files and in the format of its options."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext

from undertow.why.finding import Finding
from undertow.why.formats import as_github, as_json, as_sarif
from undertow.why.show import Outcome, show


def write_report(
    arguments: argparse.Namespace, ended: Outcome, findings: list[Finding], folder: str, status: int, data: str = "",
    output: str = "",
) -> None:  # fmt: skip
    """Write the findings as the options say. data, output: the options' files, if the folder may have changed."""
    if arguments.json not in (None, "-"):
        with open(data or arguments.json, "w", encoding="utf-8") as file:
            file.write(as_json(ended, findings) + "\n")
    form = "json" if arguments.json == "-" else arguments.format
    name = output or arguments.output
    try:
        with open(name, "w", encoding="utf-8") if arguments.output else nullcontext(sys.stdout) as out:
            if form == "text":
                show(findings, out, otherwise=ended.verdict)
            else:
                print(_formatted(form, ended, findings, folder, status), file=out)
            out.flush()
    except BrokenPipeError:  # `| head` closed the pipe, and Python would flush again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _formatted(form: str, ended: Outcome, findings: list[Finding], folder: str, status: int) -> str:
    """Return the findings in a format. folder: the current one when the program started."""
    if form == "json":
        return as_json(ended, findings)
    if form == "github":
        return as_github(ended, findings, os.environ.get("GITHUB_WORKSPACE", folder))
    return as_sarif(ended, findings, folder, status)
