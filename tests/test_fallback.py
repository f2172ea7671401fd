"""Guesses of the fallback: what it says, when it abstains, and why."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from learned import FAILURES, NOBODY, small_model, spec

from classifiers.exit_spec import Behaviour
from classifiers.fallback import (
    COST_OF_WRONG,
    MAX_LINES,
    NOTHING,
    Fallback,
    cost_threshold,
    facts_text,
    learn_scores,
    summarise,
    texts_of,
    weighted,
)
from classifiers.ngrams import BITS, grams
from classifiers.records import AttemptFacts


def eager() -> Fallback:
    """The small model without thresholds: it always says its best label."""
    learned, _ = small_model()
    return Fallback(replace(learned, thresholds=dict.fromkeys(learned.thresholds, 0.0)))


def test_a_reworded_failure_gets_the_label_of_its_like() -> None:
    """A sentence that no row holds is labelled by what it shares with those that do."""
    guess = eager().guess(["fatal: connection to peer 10.0.0.7 was reset, connection refused"], NOBODY)
    assert guess is not None
    assert "network_error" == guess.label


def test_a_guess_names_the_words_that_spoke_for_it() -> None:
    """The reasons are words of the deciding line, not of its company, and no masks."""
    guess = eager().guess(["epoch 3 finished, loss 0.4", "CUDA out of memory, tried to allocate 9 GiB"], NOBODY)
    assert guess is not None
    assert guess.why
    assert set(guess.why) <= {"cuda", "out", "of", "memory", "tried", "to", "allocate", "gib"}


def test_the_failure_decides_wherever_its_line_stands() -> None:
    """Lines that say nothing before and after the failure do not change the label."""
    noise = [sentence.format(n=7) for sentence in FAILURES[NOTHING]]
    line = "device memory exhausted: cannot allocate 12 MiB of GPU memory"
    for lines in ([line, *noise], [*noise, line], [*noise[:2], line, *noise[2:]]):
        guess = eager().guess(lines, NOBODY)
        assert guess is not None
        assert "gpu_oom" == guess.label


def test_no_lines_and_no_facts_give_no_guess() -> None:
    """Where there is nothing to read the model abstains."""
    assert eager().guess([], NOBODY) is None
    assert eager().guess(["", "   "], NOBODY) is None


def test_below_its_threshold_a_guess_is_kept_back() -> None:
    """The same reading is given or withheld by its label's threshold alone."""
    learned, _ = small_model()
    lines = ["connection refused by peer at port 80"]
    strict = Fallback(replace(learned, thresholds=dict.fromkeys(learned.thresholds, 1.0)))
    assert eager().guess(lines, NOBODY) is not None
    assert strict.guess(lines, NOBODY) is None


def test_nonsense_is_less_certain_than_a_known_failure() -> None:
    """Words that training never saw give less confidence than words that it did."""
    model = eager()
    known = model.read(["connection refused by peer at port 80"])
    nonsense = model.read(["zorb quux frobnicated wibble glorp"])
    assert known is not None
    assert nonsense is not None
    assert model.confidence(known) > model.confidence(nonsense)
    assert nonsense.features[4] < known.features[4]


def test_threads_may_share_a_fallback() -> None:
    """Eight threads get the guesses that one gets."""
    model = eager()
    attempts = [[s.format(n=n)] for n in range(40) for rows in FAILURES.values() for s in rows]
    alone = [model.guess(lines, NOBODY) for lines in attempts]
    with ThreadPoolExecutor(8) as pool:
        assert alone == list(pool.map(lambda lines: model.guess(lines, NOBODY), attempts))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"state": "FAILED", "exit_code": 1}, ""),
        ({"exit_code": 137, "signal": 9}, "exit facts: exit code 137, signal 9"),
        ({"state": "NODE_FAIL"}, "exit facts: state NODE_FAIL"),
        ({"reason": "OOMKilled", "signal": 0}, "exit facts: reason OOMKilled"),
    ],
)
def test_exit_facts_are_one_more_line_where_they_say_something(facts: dict[str, str | int], expected: str) -> None:
    """A plain failure says nothing; a signal, a state or a reason does."""
    assert expected == facts_text(AttemptFacts(cluster="c", job_id="j", **facts))  # type: ignore[arg-type]


def test_many_lines_are_cut_to_the_first_and_the_last() -> None:
    """However long the context, at most MAX_LINES texts are scored, from both ends."""
    lines = [f"word{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}{'uvwxyz'[n // 100]}" for n in range(300)]
    texts = texts_of(lines)
    assert MAX_LINES == len(texts)
    assert (lines[0], lines[-1]) == (texts[0], texts[-1])


def test_a_label_that_costs_more_when_wrong_needs_more_confidence() -> None:
    """Thresholds come from the cost table by the label's retry behaviour."""
    rows = {label.retry.behaviour: cost_threshold(label.name, spec()) for label in spec().labels.values()}
    assert COST_OF_WRONG.keys() == set(Behaviour)
    assert rows[Behaviour.NEVER] == pytest.approx(1 - 1 / COST_OF_WRONG[Behaviour.NEVER])
    assert rows[Behaviour.NEVER] > rows[Behaviour.YES]


def test_the_weights_of_a_text_have_norm_one() -> None:
    """Long and short texts weigh the same; an empty one weighs nothing."""
    found = grams(["a short text", "", "a text " * 30])
    row, _, value = weighted(found, np.ones(1 << BITS, dtype=np.float32))
    norms = np.sqrt(np.bincount(row, weights=value.astype(float) ** 2, minlength=3))
    assert norms == pytest.approx([1, 1, 1], abs=1e-5) or norms == pytest.approx([1, 0, 1], abs=1e-5)


def test_no_gram_crosses_from_one_text_into_the_next() -> None:
    """A text alone and the same text among others have the same n-grams."""
    alone = grams(["connection refused"])
    among = grams(["first text", "connection refused", "CamelCaseName"])
    assert sorted(alone.hashes) == sorted(among.hashes[among.row == 1])


def test_nothing_is_never_a_label() -> None:
    """Where a line most likely says nothing, the best real label is read, with little certainty."""
    reading = summarise(np.asarray([[5.0, -1.0, -3.0]], dtype=np.float32), np.ones(1, np.float32), (NOTHING, "a", "b"))
    assert "a" == reading.label


def test_learning_twice_gives_the_same_weights() -> None:
    """The same rows give the same classifier, bit for bit."""
    from scipy.sparse import csr_matrix

    texts = [s.format(n=1) for rows in FAILURES.values() for s in rows]
    labels = [label for label, rows in FAILURES.items() for _ in rows]
    row, column, value = weighted(grams(texts), np.ones(1 << BITS, dtype=np.float32))
    rows = csr_matrix((value, (row, column)), shape=(len(texts), 1 << BITS))
    weights = np.ones(len(texts), dtype=np.float32)
    first, second = (learn_scores(rows, labels, weights).coef_ for _ in range(2))
    assert np.array_equal(first, second)
