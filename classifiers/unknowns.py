"""Context lines of attempts that stayed unknown -> clusters worth a signature, the dearest first.

Rule: memory is bounded: at most `most` clusters, each with a few lines and attempts; the least recently seen goes, and is counted.
Rule: the same attempts in the same order give the same clusters and ids; an id is made of the template's text alone.
Rule: a snapshot is plain data, checked on reading; Drain's own (jsonpickle, which runs code) is never written or read.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any

import msgspec
import regex
import yaml
from drain3.drain import Drain, LogCluster, Node

from classifiers.checks import examine_alone
from classifiers.drafts import MAX_TEXT, Draft, Undraftable, Wish, draft, near_miss
from classifiers.lines import clean
from classifiers.masking import masked
from classifiers.redaction import MARK, redact
from classifiers.signature import read_signatures

MOST = 1_000
SIMILARITY = 0.6
EXAMPLES = 5
FORMER = 8
SNAPSHOT_VERSION = 1
_VARIES = "<*>"
_WORD = regex.compile(r"(?<!<)\b[^\W\d_]{2}")  # Not the name of a mask.

Count = Annotated[int, msgspec.Meta(ge=0)]
Template = Annotated[str, msgspec.Meta(pattern=r"\S")]


class BadSnapshot(ValueError):
    """A snapshot that can't be used; str() says what is wrong with it."""


class AttemptName(msgspec.Struct, frozen=True):
    """Which attempt."""

    cluster: str
    job_id: str
    attempt: int


class Cluster(msgspec.Struct, kw_only=True):
    """Lines that differ only where the template says `<*>` or a mask.

    `gpu_seconds` is what the attempts cost that have such a line; `first_seen` and `last_seen` are seconds since the
    epoch.  `lines` and `examples` hold a few different ones.  `former` holds ids that it had before its template grew wider.
    """

    template: Template
    count: Count = 0
    attempts: Count = 0
    gpu_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    first_seen: float
    last_seen: float
    lines: Annotated[list[str], msgspec.Meta(max_length=EXAMPLES)] = []
    examples: Annotated[list[AttemptName], msgspec.Meta(max_length=EXAMPLES)] = []
    former: Annotated[list[str], msgspec.Meta(max_length=FORMER)] = []

    @property
    def id(self) -> str:
        """Ten hexadecimal digits."""
        return id_of(self.template)


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    most: Annotated[int, msgspec.Meta(ge=1)]
    dropped: Count
    clusters: list[Cluster]


def id_of(template: str) -> str:
    """The id of a template: the same on every machine."""
    return hashlib.sha256(template.encode("utf-8", "replace")).hexdigest()[:10]


class Unknowns:
    """Clusters over attempts; `dropped` counts the clusters that were forgotten for room."""

    def __init__(self, most: int = MOST) -> None:
        self.most, self.dropped = most, 0
        # NB: no max_clusters: Drain's own bound leaves the ids of what it forgot in its tree.
        self._drain = Drain(sim_th=SIMILARITY, param_str=_VARIES, parametrize_numeric_tokens=False)
        self._clusters: OrderedDict[int, Cluster] = OrderedDict()
        self._stale = 0

    def add(self, name: AttemptName, lines: Sequence[str], at: float, gpu_seconds: float | None = None) -> None:
        """Take in the context lines of one attempt, decided `at` (seconds since the epoch); add each attempt once."""
        for line in dict.fromkeys(lines):
            text = masked(line)
            if _WORD.search(text):
                cluster = self._of(text, at)
                cluster.count += 1
                _keep(cluster.lines, line[:MAX_TEXT])
                if cluster.examples[-1:] != [name]:  # The newest attempt is always the last one kept.
                    _charge(cluster, name, at, gpu_seconds or 0.0)

    def ranked(self) -> list[Cluster]:
        """All clusters: by lost GPU-time, then attempts, then the newest."""
        return sorted(
            self._clusters.values(), key=lambda c: (-c.gpu_seconds, -c.attempts, -c.first_seen, -c.count, c.id)
        )

    def find(self, name: str) -> Cluster | None:
        """The cluster of an id, of the beginning of one, or of an id that it had before; None where none or several fit."""
        ranked = self.ranked()
        found = [c for c in ranked if name and c.id.startswith(name)] or [c for c in ranked if name in c.former]
        return found[0] if len(found) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Everything as what JSON holds, the least recently seen first."""
        snapshot = _Snapshot(SNAPSHOT_VERSION, self.most, self.dropped, list(self._clusters.values()))
        held: dict[str, Any] = msgspec.to_builtins(snapshot)
        return held

    @classmethod
    def from_dict(cls, value: Any) -> Unknowns:
        """What `to_dict` gave.  Raises BadSnapshot."""
        try:
            snapshot = msgspec.convert(value, _Snapshot)
        except msgspec.ValidationError as error:
            raise BadSnapshot(f"not a snapshot of unknowns: {error}") from None
        if snapshot.version != SNAPSHOT_VERSION:
            raise BadSnapshot(f"a snapshot of version {snapshot.version}; this reads {SNAPSHOT_VERSION}")
        made = cls(snapshot.most)
        if len(snapshot.clusters) > made.most or len({c.template for c in snapshot.clusters}) < len(snapshot.clusters):
            raise BadSnapshot("not a snapshot of unknowns: more clusters than its own bound, or one twice")
        for number, cluster in enumerate(snapshot.clusters, 1):
            made._drain.id_to_cluster[number] = LogCluster(cluster.template.split(), number)
            made._clusters[number] = cluster
        made._drain.clusters_counter, made.dropped = len(made._clusters), snapshot.dropped
        made._replant()
        return made

    def _of(self, text: str, at: float) -> Cluster:
        """The cluster of a masked line; a new one where none is like it."""
        found, _ = self._drain.add_log_message(text)
        template = found.get_template()
        cluster = self._clusters.setdefault(found.cluster_id, Cluster(template=template, first_seen=at, last_seen=at))
        if template != cluster.template:
            cluster.former = [*cluster.former, cluster.id][-FORMER:]
            cluster.template = template
        self._clusters.move_to_end(found.cluster_id)
        self._forget()
        return cluster

    def _forget(self) -> None:
        while len(self._clusters) > self.most:
            number, _ = self._clusters.popitem(last=False)
            del self._drain.id_to_cluster[number]
            self.dropped += 1
            self._stale += 1
        if self._stale > self.most:
            self._replant()

    def _replant(self) -> None:
        """Build Drain's tree anew: it never gives up the branches of what is forgotten."""
        self._drain.root_node, self._stale = Node(), 0
        for found in self._drain.id_to_cluster.values():
            self._drain.add_seq_to_prefix_tree(self._drain.root_node, found)


def _charge(cluster: Cluster, name: AttemptName, at: float, gpu_seconds: float) -> None:
    cluster.attempts += 1
    cluster.gpu_seconds += gpu_seconds
    cluster.first_seen, cluster.last_seen = min(cluster.first_seen, at), max(cluster.last_seen, at)
    _keep(cluster.examples, name)


def _keep(kept: list[Any], one: Any) -> None:
    """The first ones, and always the newest."""
    if one not in kept:
        kept[EXAMPLES - 1 :] = [one]


def draft_of(cluster: Cluster, wish: Wish, taken: Collection[str] = ()) -> Draft:
    """A draft that matches as many of the cluster's lines as one pattern can.  Raises Undraftable."""
    best: Draft | None = None
    for line in (*_widened(cluster), *cluster.lines):
        made = _drafted(line, cluster.lines, wish, taken)
        if made and (best is None or len(made.signature.match) > len(best.signature.match)):
            best = made
    if best is None:
        raise Undraftable(f"no line of cluster {cluster.id} is worth a pattern; take another cluster of its attempts")
    return best


def _widened(cluster: Cluster) -> Iterator[str]:
    """Each line with the mark of what varies where the template has `<*>`: a draft makes a class of it."""
    template = cluster.template.split(" ")
    for line in cluster.lines if _VARIES in template else ():
        words = line.split()
        if len(words) == len(template):
            yield " ".join(MARK if t == _VARIES else w for t, w in zip(template, words, strict=True))


def _drafted(line: str, lines: Sequence[str], wish: Wish, taken: Collection[str]) -> Draft | None:
    """The draft of `line` with those of `lines` that it matches as its examples; None where there is no sound one."""
    try:
        made = draft(line, wish, taken)
    except Undraftable:
        return None
    pattern = made.signature.patterns[0]
    shown = [redact(clean(text).text) for text in lines]
    match = [text for text in dict.fromkeys(shown) if regex.search(pattern, text)]
    if not match:
        return None
    head = made.text.partition("  match:\n")[0]
    rows = ["  match:", *_items(match), "  no_match:", *_items([near_miss(match[0], pattern)])]
    text = head + "\n".join(rows) + "\n"
    signature = next(iter(read_signatures(text, "draft")))
    return None if examine_alone(signature) else Draft(signature, text)


def _items(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        quoted = yaml.safe_dump(text, default_style="'", width=1_000_000, allow_unicode=True)
        yield f"  - {quoted.strip()}"
