# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads what PyTorch says about a graph break: its kind, its explanation, its hints, and its code."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

_ANOTHER = re.compile(r"\n*\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n*")
_LINK = re.compile(r"https?://\S*/gb(\d+)\.html")
_SECTION = re.compile(r"^  (Explanation|Hint|Developer debug context): ?", re.MULTILINE)


@dataclass
class Message:
    """What one message of a break says."""

    kind: str = ""
    code: str = ""
    reason: str = ""
    context: str = ""
    link: str = ""
    hints: list[str] = field(default_factory=list)


def _one(text: str) -> Message:
    made = Message()
    link = _LINK.search(text)
    if link is not None:
        made.link, made.code = link[0], f"GB{link[1]}"
    text = re.sub(r"\n*\s*For more details about this graph break, please visit:.*", "", text)
    text = re.split(r"\n\nfrom user code:", text)[0]
    sections = list(_SECTION.finditer(text))
    head = text[:sections[0].start()] if sections else text
    made.kind = head.strip().splitlines()[0].strip() if head.strip() else ""
    for i, section in enumerate(sections):
        end = sections[i + 1].start() if i + 1 < len(sections) else len(text)
        words = " ".join(text[section.end():end].split())
        if section[1] == "Explanation":
            made.reason = words
        elif section[1] == "Hint":
            made.hints.append(words)
        else:
            made.context = words
    if not sections:
        made.reason = " ".join(text.split())
    return made


def guard(text: str) -> str:
    """The guard of a reason for a recompilation, which PyTorch gives as "0/0: GUARD   # source  # place" with a stack below."""
    first = text.strip().split("\n", 1)[0]
    first = re.sub(r"^\d+/\d+(_\d+)?: ", "", first)
    return re.split(r"\s{2,}# ", first)[0].strip()


def read(text: str) -> tuple[Message, list[str]]:
    """The message of the first break in a text, and the kinds of those that it led to."""
    first, *others = [_one(part) for part in _ANOTHER.split(text)]
    return first, [other.kind for other in others]
