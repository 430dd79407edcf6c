"""Results for people: a table with ratios, a chart, and the rows as JSON."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import goals

Row = dict[str, Any]
PEER = "Ganesha MEM"
OTHER_PEERS = ("Ganesha VFS disk", "Ganesha VFS tmpfs")
UNITS = {"ops_per_s": "ops/s", "mb_per_s": "MB/s", "entries_per_s": "entries/s"}
COLOURS = ("#2f6fde", "#5aa469", "#e0a030", "#b04050", "#8064a2", "#4bacc6", "#909090")


def write(path: Path, rows: list[Row], facts: dict[str, Any]) -> None:
    Path(f"{path}.json").write_text(json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n")
    Path(f"{path}.md").write_text(table(rows, facts))
    Path(f"{path}.svg").write_text(chart(rows))


def grouped(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[(row["workload"], row["shape"])].append(row)
    return groups


def peer_of(group: list[Row]) -> Row | None:
    """What a ratio is to: Ganesha over memory, or over a directory where content is read and written."""
    by_name = {row["server"]: row for row in group}
    return next((by_name[name] for name in (PEER, *OTHER_PEERS) if name in by_name), None)


def number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def table(rows: list[Row], facts: dict[str, Any]) -> str:
    lines = ["# Measured beside NFS-Ganesha, in one run", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", *goals.table(rows, facts["raw flushes per second"])]
    lines += [
        "",
        "Medians over the rounds.  The ratio is to Ganesha MEM (for content: VFS); CPU is the server's, per call.",
        "",
        "| workload | load | server | figure | | ratio | p50 µs | p99 µs | CPU µs | errors |",
        "|---|---|---|--:|---|--:|--:|--:|--:|--:|",
    ]
    for (workload, shape), group in grouped(rows).items():
        peer = peer_of(group)
        for row in group:
            ratio = row["figure"] / peer["figure"] if peer and peer["figure"] and row is not peer else None
            cells = (
                workload,
                shape,
                row["server"],
                number(row["figure"]),
                UNITS.get(row["unit"], row["unit"]),
                number(ratio, 2) + "x" if ratio is not None else "",
                number(row["p50_us"]),
                number(row["p99_us"]),
                number(row["srv_cpu_us_per_op"], 1),
                str(row["errors"] or ""),
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def chart(rows: list[Row]) -> str:
    """Bars of the ratio to the peer, one group per workload at the widest load that was measured."""
    groups = [(title, shape, group) for (title, shape), group in grouped(rows).items() if peer_of(group)]
    widest: dict[str, tuple[str, list[Row]]] = {title: (shape, group) for title, shape, group in groups}
    servers = list(dict.fromkeys(row["server"] for row in rows))
    bar, gap, left, scale, limit = 12, 14, 250, 60.0, 10.0
    height = 40 + sum(len(group) * bar + gap for _, group in widest.values())
    width = int(left + scale * limit + 90)
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + 20 * len(servers)}" '
            'font-family="sans-serif" font-size="11">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
        f'<line x1="{left + scale}" y1="8" x2="{left + scale}" y2="{height - 20}" stroke="#333" stroke-dasharray="3"/>',
        f'<text x="{left + scale + 3}" y="12">Ganesha = 1</text>',
    ]
    y = 24
    for title, (shape, group) in widest.items():
        peer = peer_of(group)
        assert peer is not None, "groups without a peer were left out"
        out.append(f'<text x="8" y="{y + 10}">{escape(title)} ({shape})</text>')
        for row in group:
            ratio = row["figure"] / peer["figure"] if peer["figure"] else 0.0
            colour = COLOURS[servers.index(row["server"]) % len(COLOURS)]
            length = max(1.0, min(ratio, limit) * scale)
            out.append(f'<rect x="{left}" y="{y}" width="{length:.0f}" height="{bar - 2}" fill="{colour}"/>')
            out.append(f'<text x="{left + length + 4:.0f}" y="{y + 9}" font-size="9">{ratio:.2f}</text>')
            y += bar
        y += gap
    for index, server in enumerate(servers):
        colour = COLOURS[index % len(COLOURS)]
        out.append(f'<rect x="{left}" y="{y}" width="12" height="12" fill="{colour}"/>')
        out.append(f'<text x="{left + 18}" y="{y + 10}">{escape(server)}</text>')
        y += 20
    return "\n".join([*out, "</svg>"]) + "\n"
