"""An invented archive, the same at every run: documents, their chunks, people, organisations and who mentions whom."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# ruff: noqa: SIM905 - words are easier to read as a text
FIRST = "Ada Bo Cleo Dag Eva Finn Gro Hal Ida Jon Kai Liv Max Nia Odd Pia Rolf Siri Tor Una".split()
LAST = "Berg Dahl Eide Foss Grov Haug Iversen Juul Krog Lund Moe Ness Olsen Pihl Ruud Strand Tveit Ulv Vik Ween".split()
PLACES = "Harbour River Mountain Forest Island Valley Northern Coastal Upland Fjord".split()
KINDS = {"company": "Works", "university": "University", "agency": "Agency"}
TOPICS = {
    "tides": "tide gauge harbour current level storm surge mooring buoy depth chart salt".split(),
    "forests": "timber spruce clearing seedling fire ranger moss beetle canopy thinning soil root".split(),
    "railways": "track signal carriage timetable tunnel freight sleeper bridge gauge platform siding engine".split(),
    "telescopes": "mirror lens orbit spectrum star survey exposure dome detector comet calibration sky".split(),
}
FILLER = "the report says that the work on this went on while others waited for results and more was asked for".split()
DAY = dt.date(2015, 1, 1)

Row = dict[str, Any]


class Archive:
    """Rows as a load takes them, in files of one kind each."""

    def __init__(self, documents: int = 400, seed: int = 7) -> None:
        self._draw = random.Random(seed)
        self.documents = documents
        self.people = self._some_names(max(20, min(documents, 350)))
        self.organisations = [(f"{place} {word}", kind) for place in PLACES for kind, word in KINDS.items()]

    def write(self, folder: Path) -> list[Path]:
        """NDJSON files of nodes and edges, mixed as they come."""
        folder.mkdir(parents=True, exist_ok=True)
        made = []
        for name, rows in {"who.jsonl": self._who(), "texts.jsonl": self._texts()}.items():
            made.append(folder / name)
            with made[-1].open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return made

    def _some_names(self, count: int) -> list[str]:
        known = [f"{first} {last}" for first in FIRST for last in LAST]
        self._draw.shuffle(known)
        return known[:count]

    def _who(self) -> Iterator[Row]:
        for name, kind in self.organisations:
            yield _node("Organisation", name=name, kind=kind)
        for number, name in enumerate(self.people):
            email = f"{name.lower().replace(' ', '.')}@example.org" if number % 3 else None
            yield _node("Person", name=name, email=email, born=_day(-self._draw.randrange(9_000, 25_000)))
            if number % 5:
                where, _ = self._draw.choice(self.organisations)
                yield _edge("WorksAt", name, where, since=_day(self._draw.randrange(3_000)))
            for other in self._draw.sample(self.people, 3):
                if other != name:
                    yield _edge("Knows", name, other)

    def _texts(self) -> Iterator[Row]:
        for number in range(1, self.documents + 1):
            topic = self._draw.choice(list(TOPICS))
            slug = f"{topic}-{number}"
            kind = self._draw.choice(("report", "letter", "minutes"))
            published = _day(self._draw.randrange(4_000))
            yield _node("Document", slug=slug, title=f"On {topic}, {number}", kind=kind, published=published)
            for author in self._draw.sample(self.people[: len(self.people) // 2], self._draw.randrange(1, 4)):
                yield _edge("Wrote", author, slug)
            for place in range(1, self._draw.randrange(5, 15)):
                yield from self._chunk(slug, place, topic)

    def _chunk(self, document: str, number: int, topic: str) -> Iterator[Row]:
        people = self._draw.sample(self.people, self._draw.randrange(4))
        where = self._draw.choice(self.organisations)[0] if self._draw.random() < 0.5 else None
        words = self._draw.choices(TOPICS[topic], k=25) + self._draw.choices(FILLER, k=25)
        self._draw.shuffle(words)
        text = f"{' '.join(words).capitalize()}. {', '.join([*people, *([where] if where else [])])}".strip()
        yield _node("Chunk", document=document, number=number, text=text)
        chunk = [document, number]
        yield _edge("PartOf", chunk, document)
        for name in people:
            yield _edge("Mentions", chunk, name, times=self._draw.randrange(1, 6))
        if where:
            yield _edge("Names", chunk, where)


def _node(kind: str, /, **data: Any) -> Row:
    return {"type": kind, "data": {name: value for name, value in data.items() if value is not None}}


def _edge(kind: str, source: Any, target: Any, /, **data: Any) -> Row:
    return {"edge": kind, "from": source, "to": target, "data": data}


def _day(after: int) -> str:
    return (DAY + dt.timedelta(days=after)).isoformat()
