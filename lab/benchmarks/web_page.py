"""The cost of the web page, with 200 brokers and 100,000 partitions: `python lab/benchmarks/web_page.py`.

The service runs in a process of its own, with the tests' backstage behind the real front and server: 5,000 open moves
(`--moves N`), of which 300 make progress every second. It prints

- the processor time of the service while 20 pages are open that read what their events name, as the page does; a third
  of them each shows the fleet, the cluster, the moves;
- first paint and first rows of each page in a real Chromium, and the time of its main thread for the updates of a
  second, in wall time and in processor time (other load on the machine affects the wall time). This needs an installed
  Chromium, or one that SHUNTER_CHROMIUM names.

`--pictures FOLDER` measures nothing: it makes pictures of these pages in light and dark, as docs/page has them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "unit" / "web"))
from web_lake import keep_lake
from web_sights import sighting
from web_yard import Yard

from lab.testbed.process_figures import cpu_seconds
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.web.server import WebOptions, serving

FLEET = {"prod-eu": (200, 100_000), "staging": (6, 900), "metrics": (9, 2_000)}
PAGES = 20
SECONDS = 20
WATCHED = 8
CLUSTER = "/api/v1/clusters/prod-eu"
ASKED = (
    ("/api/v1/fleet",),
    ("/api/v1/fleet", CLUSTER),
    ("/api/v1/fleet", f"{CLUSTER}/moves?limit=1", f"{CLUSTER}/moves?search=&state=&offset=0&limit=100"),
)
SHOWN = {
    "fleet": ("/", ".card"),
    "cluster": ("/clusters/prod-eu", ".wagon"),
    "moves": ("/clusters/prod-eu/moves", ".long tbody tr td.name"),
    "a move": ("/clusters/prod-eu/moves?move=topic-001-0", ".story .steps tbody tr"),
    "proposals": ("/clusters/prod-eu/proposals", ".proposal canvas"),
    "timeline": ("/clusters/prod-eu/timeline", ".events li"),
}
PICTURED = SHOWN | {
    "dialog": ("/clusters/prod-eu/moves", ".moving button.danger"),
    "topics": ("/clusters/prod-eu/topics?view=partitions&partition=topic-001-0", ".side tbody tr"),
    "plan": ("/clusters/prod-eu/plan", ".plan .choice"),
    "reports": ("/clusters/prod-eu/reports?report=runway", ".long tbody tr"),
}


async def serve(moves: int, kept: Path | None) -> None:
    """Run the service until it is killed: print its address, then the processor time of each second's changes.

    With a folder for what it keeps, it has a lake, and the address signs in a person who may do everything.
    """
    yard = Yard(FLEET, moves, lambda: int(time.time() * 1000))
    options, sign_in = WebOptions(port=0), ""
    if kept is not None:
        yard.seen["prod-eu"] = sighting(200, {f"topic-{each:03d}": 500 for each in range(200)}, yard.now_ms(), racks=6)
        yard.lake = keep_lake(kept / "lake", "id-of-prod-eu")
        options = WebOptions(port=0, tokens=kept / "tokens.json", sessions=kept / "sessions.json")
        sign_in = f"#token={add_token(kept / 'tokens.json', 'anna', AccessRole.ADMINISTER, None)}"
    async with serving(yard.front, options) as address:
        print(address + sign_in, flush=True)
        while True:
            await asyncio.sleep(1)
            began = time.process_time()
            yard.tick()
            print(time.process_time() - began, flush=True)


async def be_a_page(address: str, asked: tuple[str, ...], until: float) -> int:
    """Follow the events, and read what a page shows at most once a second; returns the number of answers."""
    answers = 0
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        tags: dict[str, str] = {}
        async with client.stream("GET", "/api/v1/events") as stream:
            read_at = 0.0
            async for line in stream.aiter_lines():
                if time.monotonic() > until:
                    break
                if not line.startswith("data:") or time.monotonic() < read_at + 0.9:
                    continue
                read_at = time.monotonic()
                for path in asked:
                    answer = await client.get(path, headers={"if-none-match": tags.get(path, "")})
                    tags[path] = answer.headers["etag"]
                    answers += 1
    return answers


async def cost_of_pages(address: str, pid: int, ticks: list[float]) -> None:
    """Print the service's processor time with and without open pages, without the time for the moves themselves."""
    for pages in (0, PAGES):
        ticks.clear()
        before, began = cpu_seconds(pid), time.monotonic()
        readers = [be_a_page(address, ASKED[each % len(ASKED)], began + SECONDS) for each in range(pages)]
        answers = sum(await asyncio.gather(*readers, asyncio.sleep(SECONDS, 0)))
        passed = time.monotonic() - began
        spent = cpu_seconds(pid) - before - sum(ticks)
        print(f"{pages:>3} pages: {spent / passed:.1%} of a core, {answers / passed:.0f} answers a second")


def chromium() -> str | None:
    """The path of the browser; None: there is none."""
    return os.environ.get("SHUNTER_CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")


async def picture(address: str, folder: Path) -> None:
    """Save a picture of each page."""
    from playwright.async_api import async_playwright  # noqa: PLC0415 - not needed without a browser

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("light", "dark"):
            context = await browser.new_context(
                viewport={"width": 1240, "height": 820}, locale="en-US", color_scheme=scheme
            )
            page = await context.new_page()
            await page.goto(address)
            await page.wait_for_selector(SHOWN["fleet"][1])
            for name, (where, rows) in PICTURED.items():
                await page.goto(address.partition("#")[0].rstrip("/") + where)
                await page.wait_for_selector(rows)
                if name == "dialog":
                    await page.click(rows)
                await page.wait_for_timeout(2_000)  # Charts and figures of the first event are drawn.
                await page.screenshot(path=folder / f"{name.replace(' ', '-')}-{scheme}.png")
            await page.set_viewport_size({"width": 390, "height": 844})
            await page.goto(address.partition("#")[0].rstrip("/") + "/clusters/prod-eu")
            await page.wait_for_selector(".turns")
            await page.wait_for_timeout(2_000)
            await page.screenshot(path=folder / f"phone-{scheme}.png")
            await context.close()
        await browser.close()


async def paint(address: str, only: str) -> None:
    """Print first paint, first rows, and the main thread's time for an update."""
    path = chromium()
    if path is None:
        print("no Chromium: paint is not measured")
        return
    from playwright.async_api import async_playwright  # noqa: PLC0415 - not needed without a browser

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for name, (where, rows) in SHOWN.items() if not only else [(only, SHOWN[only])]:
            context = await browser.new_context(viewport={"width": 1360, "height": 900}, locale="en-US")
            page = await context.new_page()
            clocks = {domain: await context.new_cdp_session(page) for domain in ("timeTicks", "threadTicks")}
            await page.goto(address.rstrip("/") + where, wait_until="commit")
            await page.wait_for_selector(rows)
            shown = await page.evaluate("performance.now()")
            first = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            await page.evaluate(
                "window.longest = 0; new PerformanceObserver((list) => { for (const each of list.getEntries())"
                " window.longest = Math.max(window.longest, each.duration); }).observe({ entryTypes: ['longtask'] })"
            )
            spent = [await spent_in_a_second(session, domain) for domain, session in clocks.items()]
            longest = await page.evaluate("window.longest")
            told = f"longest task {longest:.0f} ms" if longest else "no task of 50 ms"
            print(
                f"{name:<10} first paint {first:.0f} ms, rows {shown:.0f} ms, an update {spent[0]:.0f} ms on the wall, "
                f"{spent[1]:.0f} ms of processor time, {told}; load {os.getloadavg()[0]:.1f}"
            )
            await context.close()
        await browser.close()


async def spent_in_a_second(session: Any, domain: str) -> float:
    """Milliseconds of tasks on the page's main thread per second, by a clock of Chromium, over `WATCHED` seconds."""
    await session.send("Performance.enable", {"timeDomain": domain})
    before = await busy(session)
    await asyncio.sleep(WATCHED)
    spent = (await busy(session) - before) / WATCHED * 1000
    await session.send("Performance.disable")
    return spent


async def busy(session: Any) -> float:
    """Seconds of tasks on the page's main thread so far."""
    answer = await session.send("Performance.getMetrics")
    return next(each["value"] for each in answer["metrics"] if each["name"] == "TaskDuration")


async def measure(moves: int, only: str, pictures: Path | None) -> None:
    """Start the service, measure it or make pictures, stop it."""
    arguments = [sys.executable, __file__, "--serve", "--moves", str(moves)]
    kept = tempfile.TemporaryDirectory() if pictures is not None else nullcontext()
    with kept as folder:
        await measure_in(arguments + ([] if folder is None else ["--kept", folder]), only, pictures)


async def measure_in(arguments: list[str], only: str, pictures: Path | None) -> None:
    """As `measure`, with the service's command line."""
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    ticks: list[float] = []
    try:
        address = (await process.stdout.readline()).decode().strip()

        async def listen() -> None:
            assert process.stdout is not None
            while line := await process.stdout.readline():
                ticks.append(float(line))

        listening = asyncio.create_task(listen())
        if pictures is not None:
            await picture(address, pictures)
        elif not only:
            await cost_of_pages(address, process.pid, ticks)
        if pictures is None:
            await paint(address, only)
        listening.cancel()
    finally:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=5_000)
    parser.add_argument("--only", choices=SHOWN, default="", help="Paint this page alone.")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="Make pictures in it instead.")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kept", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    asyncio.run(serve(given.moves, given.kept) if given.serve else measure(given.moves, given.only, given.pictures))
