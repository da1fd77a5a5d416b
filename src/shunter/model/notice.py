"""Notices of the controller and the executor to people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth telling a person: `kind` is a stable name, `about` its subject, `text` the sentence."""

    kind: str
    about: str
    text: str
