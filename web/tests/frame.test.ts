// What is around all pages: getting there, and what happens when the server is away, refuses, or asks for a password.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blockStorage, checkAccess, checkStill, failing, forgetShifts, goViral, open, phone, reaction, settled, tabTo, Tallyd } from "./lab";

const DOWN = /ERR_|Failed to load/;
let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start("--flush-interval", "100ms");
  await tallyd.lines([
    { op: "add", id: "views", delta: 41 },
    ...Array.from({ length: 20 }, (_, i) => ({ op: "like", item: "video1", user: `user${i}` })),
  ]);
});
afterAll(() => tallyd.stop());

const at = (place: string) => `${tallyd.url}/#${place}`;
const goTo = (page: Page, name: string) => page.getByRole("link", { name, exact: true }).first().click();
const heading = (page: Page) => page.getByRole("heading", { level: 1 });
const isFocused = (page: Page, selector: string) => page.evaluate((what) => document.activeElement?.matches(what) ?? false, selector);

/** Each moment from now on in which the dialog is not open, however short it is. */
async function noteWhenLeft(page: Page): Promise<() => Promise<string[]>> {
  await page.evaluate(() => {
    const left: string[] = ((window as unknown as { left: string[] }).left = []);
    const dialog = document.querySelector("dialog")!;
    dialog.addEventListener("close", () => left.push("close"));
    new MutationObserver(() => left.push(`open: ${dialog.open}`)).observe(dialog, { attributeFilter: ["open"] });
  });
  return () => page.evaluate(() => (window as unknown as { left: string[] }).left);
}

describe("a page that cannot be loaded", () => {
  it("comes by itself when the server is back", async () => {
    const page = await open(tallyd.url, {}, DOWN);
    await expect.poll(() => page.getByText("Connected").count()).toBe(1);
    await tallyd.kill();
    await goTo(page, "Overview");
    await expect.poll(() => page.getByText("This page comes as soon as the server is back").count()).toBe(1);
    await tallyd.run();
    await expect.poll(() => heading(page).allInnerTexts()).toEqual(["Overview"]);
    await expect.poll(() => page.getByText("All is well").count()).toBe(1);
  });

  it("comes from a server that was upgraded, which has other files", async () => {
    const page = await open(tallyd.url, {}, DOWN);
    await page.route(/\/page\/overview-/, (route) => route.fulfill({ status: 404, body: "" }), { times: 1 });
    await goTo(page, "Overview");
    await expect.poll(() => heading(page).allInnerTexts()).toEqual(["Overview"]);
  });

  it("says so if nothing helps, and leaves the others alone", async () => {
    const page = await open(tallyd.url, {}, /./);
    const mend = await failing(page, /\/page\/overview-/, 404);
    await goTo(page, "Overview");
    await expect.poll(() => page.getByText("This page does not work").count()).toBe(1);
    await checkAccess(page);
    await goTo(page, "Users");
    await expect.poll(() => heading(page).allInnerTexts()).toEqual(["Users"]);
    await goTo(page, "Overview");
    await mend();
    await page.getByRole("button", { name: "Load it anew" }).click();
    await expect.poll(() => heading(page).allInnerTexts()).toEqual(["Overview"]);
  });
});

describe("a server that is killed", () => {
  it("moves nothing on any page, and is recovered from", async () => {
    const places = ["/overview", "/counters", "/counters/video1%2Flike", "/pipeline", "/users/user1"];
    const shown = (page: Page) => page.getByText(/Events by state|video1|views/).count();
    const pages = await Promise.all(places.map((place) => open(at(place), {}, DOWN)));
    for (const page of pages) await expect.poll(() => shown(page)).toBeGreaterThan(0);
    for (const page of pages) await settled(page);
    const before = await Promise.all(pages.map((page) => heading(page).boundingBox()));
    for (const page of pages) await forgetShifts(page);
    await tallyd.kill();
    for (const page of pages) {
      await expect.poll(() => page.getByRole("alert").allInnerTexts()).toEqual([expect.stringContaining("The server cannot be reached")]);
      expect(await shown(page)).toBeGreaterThan(0);
    }
    const health = pages[0]!.getByRole("region", { name: "Health" });
    await expect.poll(() => health.innerText()).toMatch(/The server does not answer[^]*Store: unknown/);
    expect(await health.innerText()).not.toContain("All is well");
    await expect.poll(() => pages[0]!.getByText("Writes per second", { exact: true }).locator("..").innerText()).toMatch(/^Writes per second\s+–/);
    expect(await Promise.all(pages.map((page) => heading(page).boundingBox()))).toEqual(before);
    await tallyd.run();
    for (const page of pages) {
      await expect.poll(() => page.getByRole("alert").count()).toBe(0);
      await checkStill(page);
    }
    await expect.poll(() => health.innerText()).toContain("All is well");
  });
});

describe("answers that fail", () => {
  const calls: [place: string, call: RegExp][] = [
    ["/overview", /\/v1\/status/], ["/counters", /\/v1\/counters\?/], ["/counters/views", /\/describe/], ["/pipeline", /\/v1\/events/],
    ["/pipeline/dead-letters", /\/v1\/dlq/], ["/users/user1", /\/v1\/users\//],
  ];
  it.each(calls)("are told on %s, and what to do", async (place, call) => {
    const page = await open("about:blank", {}, /status of 500/);
    const mend = await failing(page, call, 500);
    await page.goto(at(place));
    await expect.poll(() => page.getByRole("alert").allInnerTexts()).toEqual([expect.stringContaining("Not today")]);
    await checkAccess(page);
    await mend();
    await page.getByRole("button", { name: "Try again" }).click({ timeout: 2000 }).catch(() => undefined); // some come by themselves
    await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  });

  it("that are slow leave a page that works meanwhile", async () => {
    const page = await open("about:blank");
    await page.route(/\/v1\/(counters|events|status)/, async (route) => {
      await new Promise((done) => setTimeout(done, 1500));
      await route.continue().catch(() => undefined);
    });
    await page.goto(at("/counters"));
    await expect.poll(() => heading(page).allInnerTexts()).toEqual(["Counters"]);
    await goTo(page, "Pipeline");
    await expect.poll(() => heading(page).allInnerTexts()).toEqual(["Pipeline"]);
    await expect.poll(() => page.getByRole("table", { name: "Events" }).getByText("views").count()).toBe(1);
    await checkStill(page);
  });
});

describe("going somewhere", () => {
  it("names the window, begins at the top and puts focus on the heading", async () => {
    const page = await open(tallyd.url, { viewport: { width: 1280, height: 500 } });
    await expect.poll(() => page.title()).toBe("Demo · Tally");
    expect(await isFocused(page, "body")).toBe(true);
    await expect.poll(() => reaction(page, "tally-demo:post-cat", "like").isEnabled()).toBe(true);
    await page.mouse.wheel(0, 600);
    await expect.poll(() => page.evaluate(() => window.scrollY)).toBeGreaterThan(0);
    for (const name of ["Overview", "Counters", "Pipeline", "Users", "Demo"]) {
      await goTo(page, name);
      await expect.poll(() => page.title()).toBe(`${name} · Tally`);
      await expect.poll(() => isFocused(page, "h1")).toBe(true);
      await expect.poll(() => page.evaluate(() => window.scrollY)).toBe(0);
    }
    await page.goto(at("/no/such/page"));
    await expect.poll(() => heading(page).innerText()).toBe("There is no such page");
  });

  it("needs no mouse", async () => {
    const page = await open(tallyd.url);
    await heading(page).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter"); // skip to the content
    await expect.poll(() => isFocused(page, "#main")).toBe(true);
    await page.reload();
    await heading(page).waitFor();
    await tabTo(page, page.getByRole("link", { name: "Counters" }).first());
    await page.keyboard.press("Enter");
    await expect.poll(() => isFocused(page, "h1")).toBe(true);
    await page.keyboard.press("Tab");
    await expect.poll(() => isFocused(page, "input[type=search]")).toBe(true);
  });
});

describe("a phone", () => {
  it("never hides what has the focus under its header or its navigation", async () => {
    const page = await open(at("/counters/video1%2Flike"), phone);
    await expect.poll(() => page.getByRole("link", { name: "user7", exact: true }).count()).toBeGreaterThan(0);
    const hidden: string[] = [];
    for (const key of [...Array<string>(20).fill("Tab"), ...Array<string>(20).fill("Shift+Tab")]) {
      await page.keyboard.press(key);
      const name = await page.evaluate(() => {
        const focused = document.activeElement!;
        const { left, top, width, height } = focused.getBoundingClientRect();
        if (!focused.closest("main") || height > 100) return "";
        const seen = document.elementFromPoint(left + width / 2, top + height / 2);
        return seen && (focused.contains(seen) || seen.contains(focused)) ? "" : focused.outerHTML.slice(0, 100);
      });
      if (name) hidden.push(name);
    }
    expect(hidden).toEqual([]);
  });
});

describe("the theme", () => {
  it("is changed by its button, and kept", async () => {
    const page = await open(tallyd.url, { colorScheme: "light" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByRole("button", { name: "Theme: auto" }).click();
    await page.getByRole("button", { name: "Theme: light" }).click();
    await expect.poll(() => page.getByRole("button", { name: "Theme: dark" }).count()).toBe(1);
    await expect.poll(ground).not.toBe(light);
    const dark = await ground();
    await page.reload();
    expect(await ground()).toBe(dark);
    await page.getByRole("button", { name: "Theme: dark" }).click();
    await expect.poll(ground).toBe(light);
  });
});

describe("dialogs and messages", () => {
  it("give focus back to where it was", async () => {
    const page = await open(at("/counters/views"));
    const reset = page.getByRole("button", { name: "Reset to 0" });
    for (const leave of [() => page.keyboard.press("Escape"), () => page.getByRole("button", { name: "Cancel" }).press("Enter")]) {
      await reset.press("Enter");
      await expect.poll(() => page.getByRole("dialog").count()).toBe(1);
      await leave();
      await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
      await expect.poll(() => reset.evaluate((button) => button === document.activeElement)).toBe(true);
    }
  });

  it("stay while what was confirmed is under way, and tell how it ended", async () => {
    const page = await open(at("/counters/views"), {}, /status of 422/);
    let goOn = () => {};
    const held = new Promise<void>((done) => (goOn = done));
    await page.route(/\/reset$/, async (route) => {
      await held;
      await route.fulfill({ status: 422, contentType: "application/problem+json", body: JSON.stringify({ title: "Below its floor" }) });
    });
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Reset to 0" }).click();
    await dialog.getByRole("button", { name: "Reset", exact: true }).click();
    await expect.poll(() => dialog.getByRole("button", { name: "Cancel" }).isDisabled()).toBe(true);
    const left = await noteWhenLeft(page);
    for (let i = 0; i < 5; i++) await page.keyboard.press("Escape");
    goOn();
    await expect.poll(() => dialog.getByRole("alert").innerText()).toContain("Below its floor");
    expect(await left(), "it was closed for a moment").toEqual([]);
    await page.keyboard.press("Escape");
    await expect.poll(() => dialog.count()).toBe(0);
    await page.getByRole("button", { name: "Reset to 0" }).click();
    await dialog.getByRole("button", { name: "Reset", exact: true }).click();
    await expect.poll(() => dialog.getByRole("alert").innerText()).toContain("Below its floor");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await expect.poll(() => dialog.count()).toBe(0);
  });

  it.each(["light", "dark"] as const)("are accessible: %s", async (colorScheme) => {
    const page = await open(tallyd.url, { colorScheme }, /status of 422/);
    const mend = await failing(page, /\/v1\/items\//, 422, "Refused today");
    await reaction(page, "tally-demo:post-tabs", "like").click();
    await expect.poll(() => page.getByText("Refused today").count()).toBe(1);
    await checkAccess(page);
    await mend();
    const refused = await failing(page, /\/reset$/, 422, "Below its floor");
    await page.goto(at("/counters/views"));
    await page.getByRole("button", { name: "Reset to 0" }).click();
    await page.getByRole("button", { name: "Reset", exact: true }).click();
    await expect.poll(() => page.getByRole("dialog").getByRole("alert").innerText()).toContain("Below its floor");
    await checkAccess(page);
    await refused();
  });
});

describe("a burst", () => {
  it("goes on beside other pages, moves the picture, and can be stopped", async () => {
    const page = await open(tallyd.url);
    await page.route(/\/v1\/batch/, async (route) => { // so that it is not over before it is stopped
      await new Promise((done) => setTimeout(done, 200));
      await route.continue().catch(() => undefined);
    });
    await page.getByLabel("Going viral is").selectOption("1000000");
    await goViral(page, "tally-demo:post-cat");
    await page.getByRole("link", { name: "Watch the pipeline" }).click();
    const note = page.getByRole("region", { name: "Going viral" });
    await expect.poll(() => note.innerText()).toContain("of 1,000,000 likes");
    const way = page.getByRole("list", { name: "The way of an event" });
    await expect.poll(() => way.innerText()).toMatch(/[1-9][\d.]*[KM]? writes\/s/);
    await checkAccess(page);
    await note.getByRole("button", { name: "Stop" }).click();
    await expect.poll(() => note.getByRole("button", { name: "Close" }).count()).toBe(1);
    expect(await note.innerText()).not.toContain("1,000,000 of");
    await note.getByRole("button", { name: "Close" }).click();
    await expect.poll(() => note.count()).toBe(0);
  });

  it("that the server refuses says so on every page", async () => {
    const page = await open(tallyd.url, {}, /status of 422/);
    await failing(page, /\/v1\/batch/, 422, "No more today");
    await goViral(page, "tally-demo:post-cat");
    await expect.poll(() => page.getByRole("alert").innerText()).toContain("No more today");
    await goTo(page, "Users");
    await expect.poll(() => page.getByRole("region", { name: "Going viral" }).getByRole("alert").innerText()).toContain("No more today");
  });
});

describe("a server with a password", () => {
  it.each(["remembers", "may not remember"])("asks a browser that %s for it, and for the right one", async (browser) => {
    const file = join(tallyd.folder, "password");
    writeFileSync(file, "open sesame\n", { mode: 0o600 });
    const guarded = await Tallyd.start("--password-file", file, "--demo", "on");
    try {
      const page = await open("about:blank", {}, /status of 401/);
      if (browser === "may not remember") await blockStorage(page);
      await page.goto(guarded.url);
      const dialog = page.getByRole("dialog", { name: "This server asks for a password" });
      await expect.poll(() => dialog.count()).toBe(1);
      await checkAccess(page);
      await dialog.getByLabel("Password").fill("let me in");
      await page.keyboard.press("Enter");
      await expect.poll(() => dialog.getByText("was not right").count()).toBe(1);
      await dialog.getByLabel("Password").fill("open sesame");
      await dialog.getByRole("button", { name: "Sign in" }).click();
      await expect.poll(() => reaction(page, "tally-demo:post-aurora", "like").isEnabled()).toBe(true);
      await expect.poll(() => dialog.count()).toBe(0);
      await page.close(); // before the server goes
    } finally {
      await guarded.stop();
    }
  });
});
