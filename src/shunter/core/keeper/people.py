"""How many people approved a proposal: one person counts once, by whatever token or UNIX account.

A token, or a name by single sign-on, belongs to the person whom it names. A UNIX account may be shared, or be a person's second name, so it is a
person only if the policy file says whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shunter.core.wording import named
from shunter.model.service import TOKEN, Vote


def person_of(vote: Vote, people: Mapping[str, str]) -> str | None:
    """The person who gave a vote; None: it is not known. `people`: person by `token NAME` or `user NAME`.

    Case does not matter: some directories let Anna sign on as ANNA, too, and that must not make two people of her.
    """
    known = {account.casefold(): person for account, person in people.items()}
    found = known.get(account_of(vote).casefold(), vote.who if vote.by == TOKEN else None)
    return None if found is None else found.casefold()


def account_of(vote: Vote) -> str:
    """The account by which a vote was given, as messages and the policy file name it."""
    return f"{vote.by} {vote.who}"


def approvals(votes: Iterable[Vote], people: Mapping[str, str]) -> int:
    """How many different people approved for certain: accounts of unknown people may all be one of the known ones."""
    given = [each for each in votes if each.approves]
    known = {person for each in given if (person := person_of(each, people)) is not None}
    return max(len(known), min(1, len(given)))


def unsure(votes: Iterable[Vote], people: Mapping[str, str]) -> str:
    """Say which approvals count for nobody else, because it is not known whose they are; "": all are known."""
    given = [each for each in votes if each.approves]
    unknown = sorted({account_of(each) for each in given if person_of(each, people) is None})
    if not unknown or len(given) < 2:
        return ""
    others = sorted({account_of(each) for each in given} - {unknown[0]})
    told = f"it is not known whether {unknown[0]} is another person than {named(others)}"
    return f"{told}: say whose it is in [people] of the policy file"


def approved_before(votes: Iterable[Vote], vote: Vote, people: Mapping[str, str]) -> Vote | None:
    """An earlier approval by the same person or account; None: there is none."""
    person = person_of(vote, people)
    for each in votes:
        if each.approves and (
            account_of(each) == account_of(vote) or (person is not None and person_of(each, people) == person)
        ):
            return each
    return None
