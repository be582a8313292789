"""A family of prompts: one kind of text, such as those that RouteBalance's sources fall into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rbx.grid.synth.body import Body
from rbx.grid.synth.template import Filling, Words

N_TOPICS = 12  # of every family


@dataclass(frozen=True)
class Family:
    """Topics with their own words, templates that use them, and sentences that make prompts longer.

    ``published`` is the number of prompts of the matching source in the published data, and the weight
    of the family; ``harmful`` the share of its templates, counted from the end, whose prompts a model
    should refuse. ``details`` are sentences that follow the template, between ``fewest`` and ``most``;
    ``body`` is the text that a long prompt is about; a question closes the prompt, if there are any.
    """

    name: str
    published: int
    topics: dict[str, Words]
    templates: tuple[str, ...]
    details: tuple[str, ...] = ()
    fewest: int = 0
    most: int = 0
    body: Body | None = None
    questions: tuple[str, ...] = ()
    harmful: int = 0
    shared: Words = field(default_factory=dict)

    def topic_words(self) -> list[dict[str, tuple[str, ...]]]:
        """Word lists of each topic, in order, shared lists included."""
        return [{**self.shared, **topic} for topic in self.topics.values()]

    def render(self, lists: Words, uniform: Iterator[float]) -> tuple[str, bool]:
        """One prompt of a topic, and whether it is harmful."""
        which = int(next(uniform) * len(self.templates))
        filling = Filling(lists, uniform)
        parts = [filling.fill(self.templates[which])]
        parts += [filling.fill(detail) for detail in self._chosen_details(uniform)]
        if self.body:
            parts.append(self.body.render(lists, uniform))
        if self.questions:
            parts.append(filling.fill(self.questions[int(next(uniform) * len(self.questions))]))
        return ("\n\n" if self.body else " ").join(parts), which >= len(self.templates) - self.harmful

    def _chosen_details(self, uniform: Iterator[float]) -> list[str]:
        if not self.most:
            return []
        # Squaring makes short prompts common and long ones rare, as in the published lengths.
        count = self.fewest + int(next(uniform) ** 2 * (self.most - self.fewest + 1))
        left = list(self.details)
        return [left.pop(int(next(uniform) * len(left))) for _ in range(min(count, len(left)))]
