"""What a trained model is worth, for people: Markdown with tables, and four pictures as PNG and SVG.

Rule: every figure comes from held-out readings; the page says of how many.
Rule: matplotlib is needed for the pictures alone; without it the page says so and stands without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from classifiers.exit_spec import ExitSpec
from classifiers.fallback import COST_OF_WRONG
from services.training import Judged

BINS = 10
INK, FAINT, STRONG = "#22303c", "#9fb3c8", "#b5473c"


def figures_of(judged: Sequence[Judged], spec: ExitSpec) -> dict[str, float]:
    """The figures of held-out readings, each trial by its weight; `cost` counts 1 for an abstention."""
    seen = [j for j in judged if not j.held.unseen]
    unseen = [j for j in judged if j.held.unseen]
    given = [j for j in seen if j.given]
    logs = [j for j in seen if j.held.trial.source != "example"]
    return {
        "trials": len(seen),
        "accuracy": _share(seen, lambda j: j.held.right),
        "accuracy_on_logs": _share(logs, lambda j: j.held.right),
        "coverage": _share(seen, lambda j: j.given),
        "precision": _share(given, lambda j: j.held.right),
        "coverage_at_0.9": best_coverage(seen, 0.9),
        "unseen_abstains": _share(unseen, lambda j: not j.given),
        "cost": _mean(judged, lambda j: _cost(j, spec)),
    }


def best_coverage(judged: Sequence[Judged], precision: float) -> float:
    """The largest share of trials that can be labelled at that precision, most confident first."""
    covered, precise = _curve(judged)
    good = covered[precise >= precision]
    return float(good.max()) if len(good) else 0.0


def write_report(folder: Path, judged: Sequence[Judged], spec: ExitSpec, head: Mapping[str, str]) -> Path:
    """report.md and its pictures in the folder; gives the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = [j for j in judged if not j.held.unseen]
    pictures: dict[str, Callable[[Any, Sequence[Judged]], None]] = {
        "coverage": _draw_coverage,
        "reliability": _draw_reliability,
        "confusion": _draw_confusion,
        "labels": _draw_labels,
    }
    drawn = find_spec("matplotlib") is not None
    if drawn:
        for name, draw in pictures.items():
            _save(folder, name, draw, judged if name == "reliability" else seen)
    page = "\n".join(_page(judged, seen, spec, head, list(pictures) if drawn else []))
    path = folder / "report.md"
    path.write_text(page + "\n", encoding="utf-8")
    return path


CAPTIONS = {
    "coverage": "Share of attempts labelled against how many of those labels are right; the dot is what the thresholds give.",
    "reliability": "Confidence against how often it was right (labels left out of learning included); bars show how many.",
    "confusion": "True label against the label read, before any threshold; each row adds up to 1.",
    "labels": "Precision and recall of each label before any threshold.",
}
SENTENCES = {
    "trials": "held-out attempts whose label was learned",
    "accuracy": "best label right, abstaining not allowed",
    "accuracy_on_logs": "the same on whole logs (cases, corpus, feedback)",
    "coverage": "labelled above the threshold",
    "precision": "right among those",
    "coverage_at_0.9": "labelled if precision had to be 0.9",
    "unseen_abstains": "abstained where the label had been left out of learning",
    "cost": "mean cost an attempt; 1 is abstaining always",
}


def _page(
    judged: Sequence[Judged], seen: Sequence[Judged], spec: ExitSpec, head: Mapping[str, str], pictures: list[str]
) -> list[str]:
    lines = ["# The fallback model", "", *(f"- {name}: {value}" for name, value in head.items()), ""]
    lines += ["| figure | value | what it says |", "|---|---|---|"]
    for name, value in figures_of(judged, spec).items():
        lines.append(
            f"| {name} | {value:.0f} | {SENTENCES[name]} |"
            if name == "trials"
            else f"| {name} | {value:.3f} | {SENTENCES[name]} |"
        )
    lines += ["", "## By label", "", "Precision and recall before any threshold; `given` counts guesses above it.", ""]
    lines += ["| label | attempts | precision | recall | given | right of those |", "|---|---|---|---|---|---|"]
    for label, (count, precision, recall, given, right) in by_label(seen).items():
        lines.append(f"| {label} | {count} | {precision:.2f} | {recall:.2f} | {given} | {right} |")
    for name in pictures:
        lines += ["", f"![{CAPTIONS[name]}]({name}.png)", "", f"{CAPTIONS[name]} ([{name}.svg]({name}.svg))"]
    if not pictures:
        lines += ["", "No pictures: matplotlib is not installed (`pip install exitsign[plots]`)."]
    return lines


def by_label(judged: Sequence[Judged]) -> dict[str, tuple[int, float, float, int, int]]:
    """{label: (attempts, precision, recall, guesses given, right ones among them)}."""
    true = Counter(_true(j) for j in judged)
    said = Counter(j.held.reading.label for j in judged)
    right = Counter(j.held.reading.label for j in judged if j.held.right)
    given = Counter(j.held.reading.label for j in judged if j.given)
    good = Counter(j.held.reading.label for j in judged if j.given and j.held.right)
    return {
        label: (
            true[label],
            right[label] / max(1, said[label]),
            right[label] / max(1, true[label]),
            given[label],
            good[label],
        )
        for label in sorted({*true, *said})
    }


def _true(j: Judged) -> str:
    return j.held.reading.label if j.held.right else min(j.held.trial.accepted)


def _cost(j: Judged, spec: ExitSpec) -> float:
    if not j.given:
        return 1.0
    return 0.0 if j.held.right else COST_OF_WRONG[spec[j.held.reading.label].retry.behaviour]


def _mean(judged: Sequence[Judged], value: Callable[[Judged], float]) -> float:
    total = sum(j.held.weight for j in judged)
    return sum(j.held.weight * value(j) for j in judged) / total if total else 0.0


def _share(judged: Sequence[Judged], good: Callable[[Judged], bool]) -> float:
    return _mean(judged, lambda j: float(good(j)))


def _curve(judged: Sequence[Judged]) -> tuple[Any, Any]:
    order = sorted(judged, key=lambda j: -j.confidence)
    weight = np.cumsum([j.held.weight for j in order])
    right = np.cumsum([j.held.weight * j.held.right for j in order])
    if not len(order):
        return np.zeros(0), np.zeros(0)
    return weight / weight[-1], right / weight


def _save(folder: Path, name: str, draw: Callable[[Any, Sequence[Judged]], None], judged: Sequence[Judged]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tall = {"confusion": (9.5, 8.5), "labels": (8, 9)}.get(name, (7, 4.5))
    figure = Figure(figsize=tall, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots(), judged)
    figure.savefig(folder / f"{name}.png", dpi=130)
    # NB: neither date nor random ids, so that the same model gives the same file.
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def _draw_coverage(axes: Any, judged: Sequence[Judged]) -> None:
    for name, colour, rows in (
        ("all held-out attempts", INK, judged),
        ("whole logs only", STRONG, [j for j in judged if j.held.trial.source != "example"]),
    ):
        covered, precise = _curve(rows)
        axes.plot(covered[4:], precise[4:], color=colour, label=f"{name} ({len(rows)})")
        given = [j for j in rows if j.given]
        if given:
            share = sum(j.held.weight for j in given) / sum(j.held.weight for j in rows)
            axes.plot([share], [_share(given, lambda j: j.held.right)], "o", color=colour)
    axes.axhline(0.9, color=FAINT, linestyle="--", linewidth=1)
    axes.set(xlabel="share of attempts labelled", ylabel="share of labels right", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("Coverage against accuracy")
    axes.legend(frameon=False, loc="lower left")


def _draw_reliability(axes: Any, judged: Sequence[Judged]) -> None:
    edges = np.linspace(0, 1, BINS + 1)
    axes.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1, label="as confident as right")
    bins = np.clip(np.digitize([j.confidence for j in judged], edges) - 1, 0, BINS - 1)
    total = len(judged) or 1
    for number in range(BINS):
        inside = [j for j, b in zip(judged, bins, strict=True) if b == number]
        middle = (edges[number] + edges[number + 1]) / 2
        axes.bar(middle, len(inside) / total, width=0.09, color=FAINT, alpha=0.5)
        if len(inside) >= 5:
            axes.plot([_mean(inside, lambda j: j.confidence)], [_share(inside, lambda j: j.held.right)], "o", color=INK)
            axes.annotate(
                str(len(inside)), (middle, len(inside) / total), ha="center", va="bottom", fontsize=8, color=INK
            )
    axes.set(xlabel="confidence", ylabel="share right (dots); share of attempts (bars)", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("Reliability")
    axes.legend(frameon=False, loc="upper left")


def _draw_confusion(axes: Any, judged: Sequence[Judged]) -> None:
    labels = sorted({_true(j) for j in judged} | {j.held.reading.label for j in judged})
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)))
    for j in judged:
        counts[place[_true(j)], place[j.held.reading.label]] += 1
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.figure.colorbar(image, ax=axes, fraction=0.04, label="share of the true label")
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set(xlabel="label read", ylabel="true label")
    axes.set_title("Confusion of held-out attempts")


def _draw_labels(axes: Any, judged: Sequence[Judged]) -> None:
    rows = sorted(by_label(judged).items(), key=lambda row: row[1][2])
    height = np.arange(len(rows))
    axes.barh(height + 0.2, [r[1] for _, r in rows], height=0.38, color=INK, label="precision")
    axes.barh(height - 0.2, [r[2] for _, r in rows], height=0.38, color=FAINT, label="recall")
    axes.set_yticks(height, [f"{label} ({r[0]})" for label, r in rows], fontsize=8)
    axes.set(xlim=(0, 1), ylim=(-0.7, len(rows) - 0.3), xlabel="share")
    axes.set_title("Precision and recall by label, before thresholds")
    axes.legend(frameon=False, loc="lower right")
