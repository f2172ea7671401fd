"""Text and records in, decisions out: no Kafka, SQL, files, clock, randomness or logging in this package.

The map, in the order in which a failure walks through it:

    records      the vocabulary: LogLine JobEvent NodeEvent Tick Evidence Context Verdict Advice Outcome
    lines        one raw line -> clean text
    joining      parts of a line -> the line
    redaction    secrets out of text before it leaves the scanner
    signature    one Signature from one mapping
    exit_spec    the closed list of labels
    catalog      all signatures at one digest: checks, lock, diff
    matching     catalog + lines -> Evidence
    attempt      the state machine of one job: step(state, record) -> state
    attribution  evidence + exit facts -> one Verdict and the ranking that explains it
    advice       Verdict + history -> Advice
    fallback     a model's guess for attempts without evidence
    unknowns     unlabelled lines -> templates -> drafted signatures
"""
