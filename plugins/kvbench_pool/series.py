"""Time series of bounded length that keep every peak exact."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a step."""

    step: int
    value: float


@dataclass(slots=True)
class BoundedSeries:
    """Keeps the largest value of each stretch of steps, and where it was.

    When ``limit`` stretches are full, neighbours merge and a stretch becomes twice as long: the
    memory is bounded, the global peak and its place stay exact, and so does each kept point.

    Attributes:
        limit: Most points, an even number.
    """

    limit: int = 512
    _width: int = 1
    _points: dict[int, Point] = field(default_factory=dict)

    def add(self, step: int, value: float) -> None:
        """Note ``value`` at ``step``; steps never decrease."""
        self._note(Point(step, value))
        while len(self._points) > self.limit:
            self._width *= 2
            points, self._points = self._points, {}
            for point in points.values():
                self._note(point)

    def _note(self, point: Point) -> None:
        stretch = point.step // self._width
        known = self._points.get(stretch)
        if known is None or point.value > known.value:
            self._points[stretch] = point

    def points(self) -> tuple[Point, ...]:
        """Return the kept points in order of their steps."""
        return tuple(self._points.values())
