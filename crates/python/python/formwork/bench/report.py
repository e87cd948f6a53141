"""The table and the page of a measurement."""

from __future__ import annotations

import html
import math
from typing import Any

PERCENTILES = [25, 50, 75, 90, 95, 99, 99.9]
"""Percentiles of the plot."""

COLOURS = ["#0b6e4f", "#c44536", "#3a5ba0", "#8a6d3b"]
"""Colours of the engines, in their order."""


def percentile(values: list[float], share: float) -> float | None:
    """Returns the value below which `share` percent of the sorted `values` lie."""
    if not values:
        return None
    return values[min(len(values) - 1, math.ceil(share / 100 * len(values)) - 1 if share > 0 else 0)]


def summary(engine: str, outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts the outcomes of an engine, and sums up its times in microseconds."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome["status"]] = counts.get(outcome["status"], 0) + 1
    first = sorted(outcome["first_us"] for outcome in outcomes if outcome["first_us"] is not None)
    mask = sorted(value for outcome in outcomes for value in outcome["mask_us"])
    return {"engine": engine, "counts": counts, "first_us": _times(first), "mask_us": _times(mask)}


def _times(values: list[float]) -> dict[str, Any]:
    times: dict[str, Any] = {"count": len(values), "average": sum(values) / len(values) if values else None}
    times.update({f"p{share}": percentile(values, share) for share in PERCENTILES})
    times["max"] = values[-1] if values else None
    return times


COLUMNS = ["pass", "refused", "valid rejected", "invalid accepted", "timeout or crash"]


def _counts(summary: dict[str, Any]) -> list[int]:
    counts = summary["counts"]
    names = ["pass", "compile_error", "valid_rejected", "invalid_accepted"]
    return [*(counts.get(name, 0) for name in names), counts.get("timeout", 0) + counts.get("crash", 0)]


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _rows(summaries: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    heads = ["engine", *COLUMNS, "first mask p50", "p99", "mask average", "p50", "p99", "max"]
    rows = []
    for one in summaries:
        first, mask = one["first_us"], one["mask_us"]
        times = [first["p50"], first["p99"], mask["average"], mask["p50"], mask["p99"], mask["max"]]
        rows.append([one["engine"], *map(str, _counts(one)), *map(_shown, times)])
    return heads, rows


def table(summaries: list[dict[str, Any]], cases: int) -> str:
    """Returns the table as text. Times are in microseconds."""
    heads, rows = _rows(summaries)
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = [f"{cases} cases, times in microseconds"]
    for row in [heads, *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def page(summaries: list[dict[str, Any]], outcomes: dict[str, Any], settings: dict[str, Any]) -> str:
    """Returns a page with the table, and with a plot of mask times and times to the first mask."""
    heads, rows = _rows(summaries)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    described = ", ".join(f"{html.escape(str(name))}: {html.escape(str(value))}" for name, value in settings.items())
    plots = "".join(
        f"<h2>{title}</h2>{_plot(summaries, key)}"
        for title, key in [("Time of a mask", "mask_us"), ("Time to the first mask", "first_us")]
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>MaskBench</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }} svg {{ width: 100%; height: auto; }}
</style>
<h1>MaskBench</h1><p>{described}. Times in microseconds, engines in turns on each case.</p>
<table><tr>{head}</tr>{body}</table>{plots}</html>
"""


def _plot(summaries: list[dict[str, Any]], key: str) -> str:
    """Returns a plot of the percentiles, with a logarithmic axis of times."""
    values = [one[key][f"p{share}"] for one in summaries for share in PERCENTILES]
    known = [value for value in values if value]
    if not known:
        return "<p>No times.</p>"
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    high = max(high, low + 1)
    width, height, left, bottom = 900, 380, 70, 40

    def x(index: int) -> float:
        return left + index * (width - left - 160) / (len(PERCENTILES) - 1)

    def y(value: float) -> float:
        return (height - bottom) - (math.log10(value) - low) / (high - low) * (height - bottom - 15)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" font-size="13">']
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="{left}" x2="{x(len(PERCENTILES) - 1)}" y1="{at}" y2="{at}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4}" text-anchor="end">{10.0**power:g} µs</text>')
    for index, share in enumerate(PERCENTILES):
        parts.append(f'<text x="{x(index)}" y="{height - 15}" text-anchor="middle">p{share}</text>')
    for number, one in enumerate(summaries):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(index), y(one[key][f"p{share}"])) for index, share in enumerate(PERCENTILES) if one[key][f"p{share}"]]
        if points:
            line = " ".join(f"{across:.1f},{up:.1f}" for across, up in points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
            name = html.escape(one["engine"])
            parts.append(f'<text x="{points[-1][0] + 8}" y="{points[-1][1] + 4}" fill="{colour}">{name}</text>')
    return "".join(parts) + "</svg>"
