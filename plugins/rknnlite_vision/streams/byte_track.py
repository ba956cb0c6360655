"""ByteTrack (Zhang et al., ECCV 2022): each thing keeps its number from picture to picture; unsure detections keep tracks alive."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid

from ..heads import suppression
from ..results import Detections
from . import motion
from .assignment import assign

__all__ = ["ByteTrack", "Track"]

Array = NDArray[Any]
_LOW, _NEW = 0.5, 0.7  # most cost of a pair: of an unsure detection, and of a track that was seen once
_SAME = 0.15  # two tracks whose boxes cost less are one


@dataclass(eq=False)
class Track:
    """One thing: its number, its state of ``motion``, the pictures in which it was seen first and last, and whether it counts.

    ``sure``: it was seen twice, or in the first picture. ``lost``: not in the last picture.

    Examples:
        >>> tracker = ByteTrack()
        >>> _ = tracker(Detections(np.array([[0, 0, 20, 40]]), np.array([0.9]), np.array([0])))
        >>> tracker.tracks[0].number, tracker.tracks[0].box
        (1, array([ 0.,  0., 20., 40.]))
    """

    number: int
    state: Array
    first: int
    last: int
    sure: bool
    lost: bool = False

    @property
    def box(self) -> Array:
        """Where the filter has it, x1, y1, x2, y2."""
        box: Array = motion.boxes(self.state[None])[0]
        return box


class ByteTrack:
    """Gives detections of picture after picture the numbers of tracks.

    First the sure detections find their tracks by overlap times score, then the unsure ones those that are left, by overlap. A
    sure one without a track begins one, which counts once it is seen again. Classes play no part.

    Args:
        high: least score of sure detections; of others those above ``low`` keep tracks alive. Detect with ``low`` as the limit.
        new: least score with which a track begins.
        match: most cost, 1 - overlap * score, of a sure detection and its track.
        patience: pictures for which a thing that is not seen keeps its number.
        fuse: False: the cost is 1 - overlap, whatever the score.

    Examples:
        >>> track = ByteTrack()
        >>> for x in (0, 4, 8):
        ...     found = track(Detections(np.array([[x, 0, x + 20, 40]]), np.array([0.9]), np.array([0])))
        >>> found.tracks
        array([1])
    """

    def __init__(
        self,
        high: float = 0.25,
        low: float = 0.1,
        new: float = 0.25,
        match: float = 0.8,
        patience: int = 30,
        fuse: bool = True,
    ) -> None:
        if not 0 <= low <= high <= 1 or not 0 < match <= 1 or not patience >= 0:
            raise ParamInvalid(
                f"low {low}, high {high}, match {match}, patience {patience}: give 0 <= low <= high <= 1, "
                "0 < match <= 1 and patience of at least 0"
            )
        self._high, self._low, self._new, self._match = high, low, new, match
        self._patience, self._fuse = patience, fuse
        self.tracks: list[Track] = []
        """Those that are remembered, lost ones too."""
        self._picture = self._count = 0

    def __call__(self, found: Detections) -> Detections:
        """The detections of the next picture that belong to tracks, in their order, with numbers in ``tracks``."""
        self._picture += 1
        numbers = np.zeros(len(found), np.int64)  # 0: none
        sizes = found.boxes[:, 2:] - found.boxes[:, :2]
        valid = (sizes > 0).all(axis=1) & np.isfinite(found.boxes).all(axis=1)
        sure = np.flatnonzero(valid & (found.scores >= self._high))
        unsure = np.flatnonzero(valid & (found.scores > self._low) & (found.scores < self._high))
        once = [track for track in self.tracks if not track.sure]
        pool = self._in_order()
        self._move(pool)
        rest, sure = self._match_up(pool, found, sure, self._match, numbers, self._fuse)
        seen_before = [track for track in rest if not track.lost]
        missed, _ = self._match_up(seen_before, found, unsure, _LOW, numbers, False)
        for track in missed:
            track.lost = True
        given_up, sure = self._match_up(once, found, sure, _NEW, numbers, self._fuse)
        gone = {*map(id, given_up), *map(id, self._stale())}
        self.tracks = [track for track in self.tracks if id(track) not in gone]
        self._begin(found, sure, numbers)
        self._drop_doubles(numbers)
        rows = numbers > 0
        return dataclasses.replace(found[rows], tracks=numbers[rows])

    def _in_order(self) -> list[Track]:
        """Tracks that count, those of the last picture before lost ones."""
        counting = [track for track in self.tracks if track.sure]
        return sorted(counting, key=lambda track: track.lost)

    def _move(self, tracks: list[Track]) -> None:
        """To where they should be now; what is lost keeps its height."""
        if not tracks:
            return
        states = np.stack([track.state for track in tracks])
        states[[track.lost for track in tracks], 1, 3] = 0
        for track, state in zip(tracks, motion.predicted(states)):
            track.state = state

    def _match_up(
        self, tracks: list[Track], found: Detections, rows: Array, limit: float, numbers: Array, fuse: bool
    ) -> tuple[list[Track], Array]:
        """Pair tracks with some detections; tracks and detections that are left."""
        if not tracks or not len(rows):
            return tracks, rows
        overlap = overlaps(motion.boxes(np.stack([track.state for track in tracks])), found.boxes[rows])
        pairs = assign(1 - (overlap * found.scores[rows] if fuse else overlap), limit)
        if not pairs:
            return tracks, rows
        which, where = (np.array(side) for side in zip(*pairs))
        states = np.stack([tracks[n].state for n in which])
        for n, row, state in zip(
            which, rows[where], motion.updated(states, motion.measured(found.boxes[rows[where]]))
        ):
            track = tracks[n]
            track.state, track.last, track.sure, track.lost = state, self._picture, True, False
            numbers[row] = track.number
        taken = set(which.tolist())
        return [track for n, track in enumerate(tracks) if n not in taken], np.delete(rows, where)

    def _begin(self, found: Detections, rows: Array, numbers: Array) -> None:
        """Tracks of sure detections that have none; those of the first picture count at once."""
        rows = rows[found.scores[rows] >= self._new]
        for row, state in zip(rows, motion.begun(motion.measured(found.boxes[rows]))):
            self._count += 1
            first = self._picture == 1
            self.tracks.append(Track(self._count, state, self._picture, self._picture, sure=first))
            if first:
                numbers[row] = self._count

    def _stale(self) -> list[Track]:
        """Those that were lost for too long; the published program has them take part once more before they go."""
        return [t for t in self.tracks if t.lost and self._picture - t.last > self._patience + 1]

    def _drop_doubles(self, numbers: Array) -> None:
        """Of a seen and a lost track at one place the one that is known for longer stays."""
        seen = [track for track in self.tracks if not track.lost]
        lost = [track for track in self.tracks if track.lost]
        if not seen or not lost:
            return
        states = [np.stack([track.state for track in side]) for side in (seen, lost)]
        gone = set()
        for a, b in np.argwhere(1 - overlaps(*map(motion.boxes, states)) < _SAME):
            one, other = seen[a], lost[b]
            gone.add(id(other if one.last - one.first > other.last - other.first else one))
        for track in seen:
            if id(track) in gone:
                numbers[numbers == track.number] = 0
        self.tracks = [track for track in self.tracks if id(track) not in gone]


def overlaps(boxes: Array, others: Array) -> Array:
    """Intersection over union [n, m] of boxes [n, 4] and others [m, 4].

    Examples:
        >>> overlaps(np.array([[0, 0, 2, 2]]), np.array([[1, 0, 3, 2]])).round(3)
        array([[0.333]])
    """
    a, b = (np.asarray(some, np.float64) for some in (boxes, others))
    return np.nan_to_num(suppression.overlaps(a, b))
