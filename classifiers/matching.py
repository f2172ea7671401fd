"""Catalog + lines -> Evidence: prefilter everything, confirm the few hits, under a time limit.

Rule: the prefilter may report too much and never too little; only a confirmed line becomes evidence.
Rule: one line gives at most one deciding evidence, the most specific; a line that is noise gives none.
Rule: work per line is bounded by MAX_CHARS and the time limit; a signature that offends repeatedly is switched off.

The prefilter is one Hyperscan database in PREFILTER mode over all patterns, run over the joined batch (DESIGN.md has
the measurements).  It sees raw text, so anchors and group names are taken out of the patterns that it gets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

import hyperscan
import regex

from classifiers.catalog import Catalog
from classifiers.exit_facts import agrees, of_facts
from classifiers.lines import clean, quoted, segments
from classifiers.patterns import literal_length, loosened
from classifiers.records import AttemptFacts, Evidence, LogLine, Role
from classifiers.redaction import redact
from classifiers.signature import Signature

FAILURE_LIKE = r"(?i)\b(?:error|exception|fail(?:ed|ure)?|fatal|abort(?:ed|ing)?|killed|panic|denied|cannot|can't|unable|refused|timed out|invalid|not found|no such|terminat(?:ed|ing)|core dumped|traceback|unexpected)\b"
MAX_TEXT = 2_000
MAX_CAPTURE = 200
MAX_TIME_APART_S = 600.0
OFFENCES = 3
LOOK_BACK = 8
UNHEARD = frozenset({"DEBUG", "TRACE"})  # What a program tells its own developers about what it handles.

_ESCAPES = regex.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


class Matcher:
    """Matches lines and exit facts against one catalog; not thread-safe (one scratch space)."""

    def __init__(self, catalog: Catalog, *, time_limit_s: float = 0.05, compiled: bytes | None = None) -> None:
        """`compiled` is what `dump` gave for a catalog of the same digest: loading it takes no time.

        Raises hyperscan.error where another version of the engine made it.
        """
        self.catalog = catalog
        self.time_limit_s = time_limit_s
        self.timeouts: Counter[str] = Counter()
        self._signatures = [s for s in catalog.active if s.patterns]
        self._on_facts = [s for s in catalog.active if s.facts]
        self._compiled: dict[str, list[tuple[regex.Pattern[str], int]]] = {}
        self._context_id = len(self._signatures)
        self._database = self._compile() if compiled is None else self._load(compiled)

    def dump(self) -> bytes:
        """The compiled prefilter, for `compiled`."""
        return bytes(hyperscan.dumpb(self._database))

    def _load(self, compiled: bytes) -> hyperscan.Database:
        database = hyperscan.loadb(compiled, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        return database

    def _compile(self) -> hyperscan.Database:
        expressions, ids = [FAILURE_LIKE.encode()], [self._context_id]
        for index, signature in enumerate(self._signatures):
            for pattern in signature.patterns:
                expressions.append(loosened(pattern).encode())
                ids.append(index)
        database = hyperscan.Database()
        flags = [hyperscan.HS_FLAG_PREFILTER | hyperscan.HS_FLAG_MULTILINE] * len(ids)
        database.compile(expressions=expressions, ids=ids, elements=len(ids), flags=flags)
        return database

    def disabled(self) -> frozenset[str]:
        """Ids of signatures that this matcher no longer tries because they ran out of time repeatedly."""
        return frozenset(name for name, count in self.timeouts.items() if count >= OFFENCES)

    def hits(self, texts: Sequence[bytes]) -> dict[tuple[int, int], set[int]]:
        """{(text index, line index within the text): indexes that `confirm` takes} of the lines worth a closer look."""
        block = b"\n".join(texts)
        if b"\x1b" in block or b"\0" in block:
            texts = [_ESCAPES.sub(b"", text).replace(b"\0", b"") for text in texts]
            block = b"\n".join(texts)
        ends: set[tuple[int, int]] = set()
        # NB: the callback returns None, which tells Hyperscan to go on.
        self._database.scan(block, match_event_handler=lambda i, start, end, flags, context: ends.add((end, i)))
        starts = [0, *accumulate(len(text) + 1 for text in texts)]
        found: dict[tuple[int, int], set[int]] = {}
        for end, index in ends:
            text = bisect_right(starts, max(end - 1, 0)) - 1
            line = block.count(b"\n", starts[text], max(end - 1, starts[text]))
            found.setdefault((text, line), set()).add(index)
        return found

    def confirm(self, line: LogLine, candidates: Iterable[int], before: Sequence[str] = ()) -> list[Evidence]:
        """Evidence of one line for the candidate indexes of `hits`: at most one that decides, then shadow ones.

        `before` holds the texts of the lines before it in the same stream, nearest first, as far as they are known.
        """
        chosen = [self._signatures[i] for i in sorted(set(candidates) - {self._context_id})]
        for segment in segments(line.text) if chosen else ():
            text, rank, level, _ = clean(segment)
            level = level or inherited_level(text, before)
            if not text or level in UNHEARD or quoted(text, clean(before[0]).text if before else None):
                continue
            found = [hit for s in chosen if (hit := self._search(s, text)) is not None]
            if any(s.role is Role.NOISE for s, _, _ in found):
                continue
            if found:
                return self._choose(line, text, rank, level, found)
        return []

    def context(self, line: LogLine, candidates: Iterable[int]) -> str | None:
        """The redacted clean text of a line that looks like failure, for attempts that no signature explains."""
        if self._context_id not in set(candidates):
            return None
        text = clean(segments(line.text)[-1] if segments(line.text) else "").text
        noise = any(s.role is Role.NOISE and self._search(s, text) for s in self._named(candidates))
        return None if noise or not text else redact(text)[:MAX_TEXT]

    def scan(self, lines: Sequence[LogLine]) -> list[Evidence]:
        """Evidence of the lines of one stream, in their order: the whole path in one call."""
        evidence: list[Evidence] = []
        hits = self.hits([line.text.encode("utf-8", "replace") for line in lines])
        candidates: dict[int, set[int]] = {}
        for (text, _), indexes in hits.items():
            candidates.setdefault(text, set()).update(indexes)
        for index in sorted(candidates):
            before = [line.text for line in reversed(lines[max(0, index - LOOK_BACK) : index])]
            evidence += self.confirm(lines[index], candidates[index], before)
        return evidence

    def facts(self, facts: AttemptFacts, appended_at: float) -> list[Evidence]:
        """Evidence that the exit facts of an attempt give by themselves."""
        known = {
            "state": facts.state,
            "reason": facts.reason,
            "exit_code": facts.exit_code,
            "signal": facts.signal,
        }
        found = []
        for signature in self._on_facts:
            reasons = (facts.reason, *facts.disruptions) if "reason" in signature.facts else (None,)
            for reason in reasons:
                if agrees(signature, {**known, "reason": reason}):
                    found.append(of_facts(signature, facts, reason, appended_at, self.catalog.digest))
                    break
        return found

    def _named(self, candidates: Iterable[int]) -> list[Signature]:
        return [self._signatures[i] for i in candidates if i != self._context_id]

    def _search(self, signature: Signature, text: str) -> tuple[Signature, regex.Match[str], int] | None:
        if self.timeouts[signature.id] >= OFFENCES:
            return None
        if signature.id not in self._compiled:
            self._compiled[signature.id] = [(regex.compile(p), literal_length(p)) for p in signature.patterns]
        best: tuple[Signature, regex.Match[str], int] | None = None
        try:
            for pattern, specificity in self._compiled[signature.id]:
                hit = pattern.search(text, timeout=self.time_limit_s, concurrent=True)
                if hit and (best is None or specificity > best[2]):
                    best = (signature, hit, specificity)
        except TimeoutError:
            self.timeouts[signature.id] += 1
        return best

    def _choose(
        self,
        line: LogLine,
        text: str,
        rank: int | None,
        level: str | None,
        found: list[tuple[Signature, regex.Match[str], int]],
    ) -> list[Evidence]:
        found.sort(key=lambda hit: (-hit[2], hit[0].id))
        deciding = [hit for hit in found if hit[0].status == "stable"]
        if deciding and deciding[0][0].role is Role.IMPLICIT:  # The same label, said explicitly, is better.
            label = deciding[0][0].label
            deciding.sort(key=lambda hit: hit[0].label != label or hit[0].role is Role.IMPLICIT)
        deciding = deciding[:1]
        shadows = [hit for hit in found if hit[0].status == "shadow"]
        redacted = redact(text)[:MAX_TEXT]
        return [
            Evidence(
                cluster=line.cluster,
                job_id=line.job_id or "",
                signature=signature.id,
                version=signature.version,
                label=signature.label or "",
                role=signature.role,
                text=redacted,
                stream=line.stream,
                position=line.position,
                appended_at=line.appended_at,
                time=best_time(line.time, line.appended_at),
                catalog=self.catalog.digest,
                ref=line.ref,
                rank=line.rank if line.rank is not None else rank,
                node=line.node,
                trusted=not signature.sources or line.stream in signature.sources,
                shadow=signature.status == "shadow",
                specificity=specificity,
                clears=signature.clears,
                captures={k: redact(v)[:MAX_CAPTURE] for k, v in hit.groupdict().items() if v},
                level=level,
            )
            for signature, hit, specificity in deciding + shadows
        ]


def inherited_level(text: str, before: Sequence[str]) -> str | None:
    """The level of the line that an indented line continues: a warning of several lines is a warning to its end."""
    if text[:1] not in " \t":
        return None
    heads = (head for head in map(clean, before) if head.text and head.text[0] not in " \t")
    return next((head.level for head in heads), None)


def best_time(time: float | None, appended_at: float) -> float:
    """The producer's time where it can be right, else the broker's: a clock two hours off decides nothing."""
    return time if time is not None and abs(time - appended_at) <= MAX_TIME_APART_S else appended_at
