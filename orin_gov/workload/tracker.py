"""From phase marks to steps: which spans of time belong to a training step, and as which phase."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from orin_gov._phases import BREAK, STEP
from orin_gov.counts import Counts, counts_of, parse_kind
from orin_gov.phases import BACKWARD, CHECKPOINT, DATA, EPOCH_END, EVAL, FORWARD, IDLE, PHASES

MARK = np.dtype([("t_ns", "<i8"), ("kind", "<i8"), ("value", "<f8")])
"""One record of the phase ring."""

MOST_SPANS = 40_000
"""Spans that are kept between two steps: ten thousand micro-batches, some 6 MB."""


@dataclass(frozen=True)
class Span:
    """A stretch of time spent in one phase (a code of orin_gov.phases)."""

    phase: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Step:
    """One optimizer step: its spans in order, evaluation left out, and its work (None: unknown).

    `counts` is what it did, where it was counted; counting took time of its own.
    """

    number: int
    spans: tuple[Span, ...]
    work: float | None
    counts: Counts | None = None

    @property
    def begin_ns(self) -> int:
        """When its first span began."""
        return self.spans[0].begin_ns

    @property
    def end_ns(self) -> int:
        """When its last span ended."""
        return self.spans[-1].end_ns

    @cached_property
    def duration_s(self) -> float:
        """Seconds spent in its spans."""
        return sum(span.end_ns - span.begin_ns for span in self.spans) * 1e-9


class StepTracker:
    """Turns the marks of one training thread into steps. Pure; feed it the marks in order."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._phase = IDLE
        self._since_ns: int | None = None
        self._counts: dict[tuple[int, int], float] = {}
        self._open_ns: int | None = None
        self._outside_ns: int | None = None  # end of the last evaluation or checkpoint
        self._trained = False
        self._broken = False
        self._ending = False
        self.steps = 0
        self.epoch_ended_after = 0
        """How many steps there were at the last end of a training epoch."""

    def break_off(self) -> None:
        """Leave out all from the last mark to the next end of a step: marks are missing there."""
        self._since_ns, self._broken = None, True
        self._begin_step()

    @property
    def open_since_ns(self) -> int | None:
        """When the step under way began, at the earliest; None where none is."""
        return self._since_ns if self._open_ns is None else self._open_ns

    def feed(self, marks: npt.NDArray[np.void]) -> list[Step]:
        """Take marks (dtype MARK) and return the steps they complete.

        A mark of an unknown kind, or one that goes back in time, is skipped: the ring is written by
        the script's process, which may write anything.
        """
        steps = []
        for t_ns, kind, value in marks.tolist():
            if counted := parse_kind(kind):
                if 0 <= value < math.inf:
                    self._counts[counted] = value
                continue
            if kind == EPOCH_END:
                self._ending |= self._trains()
            if kind == BREAK:
                self.break_off()
                continue
            if kind != STEP and not 0 <= kind < len(PHASES):
                continue
            if not self._advance(t_ns):
                continue
            if kind == STEP:
                if step := self._finish(value if 0 < value < math.inf else None):
                    steps.append(step)
                self._end_epoch()
            else:
                self._phase = kind
                # A loader that fetches ahead ends before the forward pass of its last batch.
                if kind in (DATA, EVAL, CHECKPOINT):
                    self._end_epoch()
        return steps

    def _trains(self) -> bool:
        """Whether no evaluation was seen since the last step: its data come to an end as well."""
        return self._phase != EVAL and all(span.phase != EVAL for span in self._spans)

    def _end_epoch(self) -> None:
        if self._ending:
            self._ending, self.epoch_ended_after = False, self.steps

    def _advance(self, t_ns: int) -> bool:
        """Close the running span at `t_ns`; False where time would run backwards."""
        if self._since_ns is not None:
            if t_ns < self._since_ns:
                return False
            if t_ns > self._since_ns:
                self._spans.append(Span(self._phase, self._since_ns, t_ns))
                self._see_begin(self._spans[-1])
                if len(self._spans) > MOST_SPANS:
                    self._forget_older_half()
        self._since_ns = t_ns
        return True

    def _begin_step(self) -> None:
        self._spans, self._counts = [], {}
        self._open_ns, self._outside_ns, self._trained = None, None, False

    def _see_begin(self, span: Span) -> None:
        """Follow what `step_spans` will make of it, at the cost of one span."""
        if self._open_ns is None:
            self._open_ns = span.begin_ns
        self._trained |= span.phase == FORWARD
        if self._trained:
            return
        if span.phase in (EVAL, CHECKPOINT):
            self._outside_ns = span.end_ns
        elif span.phase == DATA and self._outside_ns is not None:
            self._open_ns = self._outside_ns

    def _forget_older_half(self) -> None:
        """Bound what is kept of an evaluation that goes on for days; a step so long is left out."""
        older = self._spans[: MOST_SPANS // 2]
        self._spans = self._spans[MOST_SPANS // 2 :]
        # The first one may be what was left of the step before.
        self._broken |= any(span.phase in (FORWARD, BACKWARD) for span in older[1:])

    def _finish(self, work: float | None) -> Step | None:
        spans = step_spans(self._spans, first=self.steps == 0)
        counts = counts_of(self._counts, work)
        broken, self._broken = self._broken, False
        self._begin_step()
        if broken or not spans:
            return None
        step = Step(self.steps, tuple(spans), work, counts)
        self.steps += 1
        return step


def step_spans(spans: list[Span], first: bool) -> list[Span]:
    """Return which of the spans since the last step belong to this one.

    Evaluation and checkpoints, and what led up to them, stand between steps. A no-grad forward
    after this step's own data load and straight before its forward pass (a teacher's, in
    distillation) is part of the step. What precedes the very first step (imports, loading) is none
    of it.
    """
    spans = _claim_teacher(spans)
    forward = next((i for i, span in enumerate(spans) if span.phase == FORWARD), len(spans))
    around = [i for i, span in enumerate(spans[:forward]) if span.phase in (EVAL, CHECKPOINT)]
    start = around[-1] + 1 if around else 0
    if first:
        named = (i for i in range(start, len(spans)) if spans[i].phase != IDLE)
        start = next(named, len(spans))
    return [span for span in spans[start:] if span.phase not in (EVAL, CHECKPOINT)]


def _claim_teacher(spans: list[Span]) -> list[Span]:
    forward = next((i for i, span in enumerate(spans) if span.phase == FORWARD), None)
    if forward is None:
        return spans
    data = [i for i, span in enumerate(spans[:forward]) if span.phase == DATA]
    evals = [i for i, span in enumerate(spans[:forward]) if span.phase == EVAL]
    if not data or not evals or evals[-1] < data[-1]:
        return spans
    return [
        Span(FORWARD, span.begin_ns, span.end_ns) if i > data[-1] and span.phase == EVAL else span
        for i, span in enumerate(spans)
    ]
