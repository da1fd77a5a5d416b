"""Single sign-on in a real browser: the issuer is another site for it, so that cookies are judged as between sites."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect
from web_yard import Yard

from oidc_issuer import CLIENT, SECRET, LocalIssuer
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.model.security.access import IssuerRules, SignOnRules
from shunter.model.security.listeners import Secret
from shunter.web.server import WebOptions, serving

pytestmark = [pytest.mark.browser, pytest.mark.long]


async def test_a_person_signs_in_at_the_issuer_and_out(browser: Browser, tmp_path: Path, free_port: int) -> None:
    tokens = tmp_path / "tokens.json"
    add_token(tokens, "emergency", AccessRole.ADMINISTER, None)
    address = f"http://127.0.0.1:{free_port}"
    with LocalIssuer("localhost") as issuer:
        rules = IssuerRules(issuer.url, CLIENT, address, Secret(SECRET), label="Example ID")
        on = SignOnRules({"ops": AccessRole.OPERATE}, rules)
        options = WebOptions(port=free_port, tokens=tokens)
        async with serving(Yard({"staging": (6, 900)}).front, options, sign_on=on):
            page = await browser.new_page()
            await page.goto(f"{address}/clusters/staging/moves")
            button = page.get_by_role("button", name="Sign in with Example ID")
            await expect(button).to_be_visible()
            assert (await Axe().run(page)).violations_count == 0
            await button.click()
            await expect(page.get_by_role("button", name="Sign out anna")).to_be_visible()
            await expect(page).to_have_url(f"{address}/clusters/staging/moves")
            cookies = {each["name"]: each for each in await page.context.cookies()}
            assert cookies["shunter-session"]["httpOnly"]
            assert cookies["shunter-session"]["sameSite"] == "Strict"
            assert "shunter-sign-in" not in cookies
            await page.reload()
            await page.get_by_role("button", name="Sign out anna").click()
            await expect(button).to_be_visible()
            issuer.claims = {"groups": ["visitors"]}
            await button.click()
            await expect(page.get_by_text(re.compile("anna has no access: the claim groups is"))).to_be_visible()
            await page.get_by_role("link", name="To the page").click()
            await expect(button).to_be_visible()
