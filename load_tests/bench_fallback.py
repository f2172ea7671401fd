"""What the fallback is worth: `python -m load_tests.bench_fallback [CORPUS] [--parts off,drop,left-out,speed,ablation]`.

Every model here is learned without what it is tested on: projects stand in one fold, dropped signatures take their
examples along, a label left out is in no row.  The figures go to load_tests/results/fallback.json as well.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from classifiers.classification import classify
from classifiers.context import context_of
from classifiers.exit_spec import UNKNOWN
from classifiers.fallback import FEATURES, NOTHING, Fallback, Learned, Reading
from classifiers.matching import Matcher
from classifiers.records import AttemptFacts, Role, Verdict
from load_tests.fallback_bench import Bench, Read, facts_of, figures, read, tell
from services.evaluation import CorpusError, Sample, fold_of, read_corpus
from services.training import LOG_WEIGHT, Held, calibrated, fit, table_of
from services.training_rows import SOURCES, Material, Trial, add_sample

RESULTS = Path(__file__).parent / "results" / "fallback.json"
DEFAULT = Path("../shared/corpus/dev.jsonl")
FOLDS, SEEDS, DROPPED = 5, 5, 0.3
NOBODY = AttemptFacts(cluster="", job_id="")


def signatures_off(bench: Bench, sources: Iterable[str] = SOURCES, project_folds: int = FOLDS) -> dict[str, float]:
    """5-fold grouped by project: no signature is matched; learned from everything but the fold's own projects."""
    grown = Material(list(bench.material.rows), [])
    for sample in bench.samples:
        add_sample(grown, sample, bench.silent, "corpus")
    rows = grown.only(sources).rows
    table = table_of(rows)
    folds = {
        s.project: int(np.random.default_rng(abs(fold_seed(s.project))).integers(project_folds)) for s in bench.samples
    }
    fold_by_row = np.asarray([folds.get(row.group.removeprefix("corpus "), -1) for row in rows])
    plain = {f: fit(table, fold_by_row != f) for f in range(project_folds)}
    lines = {s.log.id: context_of(bench.silent, s.log.lines, s.log.stream) for s in bench.samples}
    held = {f: _held(plain[f], [s for s in bench.samples if folds[s.project] == f], lines) for f in plain}
    reads = []
    for f, learned in plain.items():
        others = [h for g, rest in held.items() if g != f for h in rest]
        model = Fallback(calibrated(learned, [*bench.held, *others], bench.spec))
        reads += [read(model, s, lines[s.log.id]) for s in bench.samples if folds[s.project] == f]
    return figures(reads)


def fold_seed(project: str) -> int:
    return int.from_bytes(project.encode()[:8].ljust(8, b"."), "big") + len(project)


def _held(learned: Learned, samples: Sequence[Sample], lines: dict[str, list[str]]) -> list[Held]:
    model = Fallback(learned)
    found = []
    for s in samples:
        facts = facts_of(s.log)
        reading = model.read(lines[s.log.id], facts)
        if reading is not None:
            trial = Trial(tuple(lines[s.log.id]), facts, s.accepted, s.project, "corpus")
            found.append(Held(trial, reading, False, LOG_WEIGHT))
    return found


def baseline(bench: Bench) -> dict[str, float]:
    """TF-IDF and logistic regression on the corpus alone, the same folds: what a plain attempt gives."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["\n".join(s.log.lines) for s in bench.samples]
    folds = np.asarray([int(np.random.default_rng(abs(fold_seed(s.project))).integers(FOLDS)) for s in bench.samples])
    reads: list[Read] = []
    for f in range(FOLDS):
        inside, outside = np.flatnonzero(folds == f), np.flatnonzero(folds != f)
        if not len(inside):
            continue
        made = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), LogisticRegression(C=10, max_iter=300))
        made.fit([texts[i] for i in outside], [bench.samples[i].label for i in outside])
        chances = made.predict_proba([texts[i] for i in inside])
        for i, row in zip(inside, chances, strict=True):
            label = str(made.classes_[row.argmax()])
            reading = Reading(label, 0, np.zeros(FEATURES, dtype=np.float32))
            reads.append(Read(bench.samples[i], reading, float(row.max()), False))
    found = figures(reads)
    return {name: found[name] for name in ("samples", "top1", "top1_strict", "coverage_at_0.9")}


def dropped(bench: Bench) -> dict[str, Any]:
    """A random 30% of the signatures and their examples are dropped: what the model says of attempts that become unknown."""
    unknown: list[Read] = []
    implicit: list[Read] = []
    alone = hybrid = alone_said = hybrid_said = samples = 0
    for seed in range(SEEDS):
        gone = frozenset(random.Random(seed).sample(bench.ids, int(DROPPED * len(bench.ids))))
        matcher = bench.without(gone)
        groups = {r.group for r, owner in zip(bench.table.rows, bench.owner, strict=True) if owner in gone}
        held = [h for h in bench.held if h.trial.group not in groups]
        model = bench.model(bench.table, ~np.isin(bench.owner, sorted(gone)), held)
        for sample in bench.samples:
            verdict = classify(sample.log, matcher)
            one = None
            if verdict.label == UNKNOWN or is_implicit(verdict):
                one = read(model, sample, lines_of(matcher, sample, verdict))
                (unknown if verdict.label == UNKNOWN else implicit).append(one)
            said = one.reading.label if one and one.given and one.reading else verdict.label
            samples += 1
            alone += verdict.label in sample.accepted
            hybrid += said in sample.accepted
            alone_said += verdict.label != UNKNOWN
            hybrid_said += said != UNKNOWN
        tell(f"seed {seed}: {len(unknown)} unknown so far")
    return {
        "unknown": figures(unknown),
        "implicit": figures(implicit),
        "signatures_alone": {"accuracy": alone / samples, "precision": alone / max(1, alone_said)},
        "hybrid": {"accuracy": hybrid / samples, "precision": hybrid / max(1, hybrid_said)},
    }


def is_implicit(verdict: Verdict) -> bool:
    return verdict.signature is not None and verdict.ranking[0].role is Role.IMPLICIT


def lines_of(matcher: Matcher, sample: Sample, verdict: Verdict) -> list[str]:
    """What the model reads: the context, and the evidence of weak signatures that was seen."""
    evidence = [ranked.text for ranked in verdict.ranking if not ranked.text.startswith("exit facts")]
    return [*evidence, *context_of(matcher, sample.log.lines, sample.log.stream)]


def hybrid(bench: Bench) -> dict[str, Any]:
    """All signatures on: signatures alone against signatures first and the model for the rest and for implicit ones."""
    model = bench.model(bench.table, np.ones(len(bench.table.rows), dtype=bool), bench.held)
    rows = []
    for sample in bench.samples:
        verdict = classify(sample.log, bench.matcher)
        said = verdict.label
        if verdict.label == UNKNOWN or is_implicit(verdict):
            one = read(model, sample, lines_of(bench.matcher, sample, verdict))
            said = one.reading.label if one.given and one.reading else said
        rows.append((sample, verdict.label, said))
    count = len(rows) or 1

    def share(place: int) -> dict[str, float]:
        said = [(row[0], row[place]) for row in rows]
        right = sum(label in s.accepted for s, label in said)
        return {"accuracy": right / count, "precision": right / max(1, sum(label != UNKNOWN for _, label in said))}

    return {"samples": len(rows), "signatures_alone": share(1), "hybrid": share(2)}


def label_left_out(bench: Bench) -> dict[str, Any]:
    """Each label in turn is in no row: its samples, signatures off, should abstain."""
    folds = {label: [s for s in bench.samples if s.accepted == {label}] for label in sorted(bench.spec.labels)}
    abstained, total, by_label = 0, 0, {}
    for label, samples in folds.items():
        if not samples or label not in bench.table.labels:
            continue
        held = [h for h in bench.held if label not in h.trial.accepted]
        model = bench.model(bench.table, bench.table.labels != label, held)
        reads = [read(model, s, context_of(bench.silent, s.log.lines, s.log.stream)) for s in samples]
        quiet = sum(not r.given for r in reads)
        abstained, total = abstained + quiet, total + len(reads)
        by_label[label] = [quiet, len(reads)]
    return {"samples": total, "abstained": abstained / max(1, total), "by_label": by_label}


def ablation(bench: Bench) -> dict[str, Any]:
    """What each source brings to `signatures off`."""
    found = {"all": signatures_off(bench)}
    for source in SOURCES:
        if source != "feedback":
            found[f"without {source}"] = signatures_off(bench, [s for s in SOURCES if s != source])
            tell(f"without {source}")
    found["corpus alone"] = signatures_off(bench, ["corpus"])
    return {name: {k: row[k] for k in ("top1", "coverage_at_0.9")} for name, row in found.items()}


def speed(bench: Bench) -> dict[str, float]:
    """Attempts of eight lines a CPU second, one thread: lines never seen before, and the same again."""
    model = bench.model(bench.table, np.ones(len(bench.table.rows), dtype=bool), bench.held)
    chance = random.Random(0)
    texts = [r.text for r in bench.table.rows if r.label != NOTHING]
    attempts = [[f"{chance.choice(texts)} in unit x{n}x" for _ in range(8)] for n in range(500)]
    took = []
    for _ in range(2):
        start = time.process_time()
        for lines in attempts:
            model.guess(lines, NOBODY)
        took.append(time.process_time() - start)
    new, known = (round(len(attempts) / seconds) for seconds in took)
    return {"lines_an_attempt": 8, "attempts_per_cpu_s_new_lines": new, "attempts_per_cpu_s_known_lines": known}


PARTS = {
    "baseline": baseline,
    "off": signatures_off,
    "drop": dropped,
    "hybrid": hybrid,
    "left-out": label_left_out,
    "speed": speed,
    "ablation": ablation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated: " + ", ".join(PARTS))
    parser.add_argument("--fold", type=int, choices=(0, 1), help="only projects of fold 0 (learning) or 1 (held back)")
    chosen = parser.parse_args()
    if not chosen.corpus.exists():
        print(f"skipped: no corpus at {chosen.corpus}; give the path of a labelled one (JSON lines)")
        return
    try:
        samples = read_corpus(chosen.corpus)
    except CorpusError as error:
        sys.exit(str(error))
    bench = Bench([s for s in samples if chosen.fold is None or fold_of(s.project) == chosen.fold])
    results: dict[str, Any] = {"corpus": {"file": chosen.corpus.name, "fold": chosen.fold, "used": len(bench.samples)}}
    for name in chosen.parts.split(","):
        results[name] = PARTS[name](bench)
        print(name, json.dumps(results[name], indent=1, default=str), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
