"""The type of options and arguments that take a list of broker ids."""

from __future__ import annotations

import re

import click

GREATEST_BROKER_ID = 2**31 - 1


class BrokerIds(click.ParamType[tuple[int, ...]]):
    """Broker ids with commas between; an empty text names none."""

    name = "IDS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read `0,1,2`."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        return tuple(self._broker(part.strip(), text, param, ctx) for part in text.split(",")) if text else ()

    def _broker(self, part: str, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not re.fullmatch(r"-?[0-9]+", part, re.ASCII):
            self.fail(
                f"{part!r} in {text!r} is not a broker id: whole numbers with commas between, as in 0,1,2", param, ctx
            )
        if len(part) > 11 or int(part) > GREATEST_BROKER_ID:
            self.fail(f"broker id {part} is too great: at most {GREATEST_BROKER_ID}", param, ctx)
        return int(part)
