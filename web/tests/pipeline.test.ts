// The pipeline's page: what became of each change, what is tried again, and the dead letters.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkAccess, checkFits, checkStill, failing, fieldTime, goTo, open, phone, settled, tabTo, Tallyd } from "./lab";
import { refuse } from "./lively";

const FAILS_WITHIN_MS = 120_000; // five retries take half a minute
const hostile = `coupon:<img src=x onerror=alert(1)>"'/..%2f`;
let tallyd: Tallyd;
let other: Tallyd; // one on which everything is given up

beforeAll(async () => {
  [tallyd, other] = await Promise.all([Tallyd.start("--flush-interval", "100ms"), Tallyd.start("--flush-interval", "100ms")]);
  await tallyd.lines([{ op: "add", id: "views", delta: 41 }, { op: "like", item: "video1", user: "ann" }]);
  await refuse(tallyd);
  await tallyd.lines([{ op: "add", id: hostile, delta: 5 }]);
  await refuse(other);
});
afterAll(async () => {
  await tallyd.stop();
  await other.stop();
});

const letters = async (of = tallyd) => (await of.call<{ letters: { counter: string; event_id: string }[] }>("GET", "/v1/dlq")).letters;
const at = (place: string) => `${tallyd.url}/#/pipeline${place}`;
const events = (page: Page) => page.getByRole("table", { name: "Events" });
const rows = (page: Page) => events(page).locator('[role="row"]');

describe("events", () => {
  // They are tried again for half a minute only: there are new ones until one was seen.
  it("that the store refuses are tried again, and it is told when and why", async () => {
    const refusing = await Tallyd.start("--flush-interval", "100ms");
    try {
      await refuse(refusing);
      const page = await open(`${refusing.url}/#/pipeline/RETRYING`);
      await expect.poll(async () => {
        await refusing.lines([{ op: "add", id: "coupon:spring", delta: 40 }]);
        return (await events(page).allInnerTexts()).join();
      }, { interval: 500 }).toMatch(/coupon:spring[^]*retry \d (in \d|just now|\d)[^]*no more than 1,000 coupons/);
      await checkAccess(page);
      await page.close(); // before the server goes
    } finally {
      await refusing.stop();
    }
  });

  it("are found by state and counter, with the keyboard alone", async () => {
    const page = await open(at(""));
    await expect.poll(() => events(page).getByText("SUCCESS").count()).toBeGreaterThan(1);
    await tabTo(page, page.getByRole("group", { name: "State" }).getByRole("button", { name: "SUCCESS" }));
    await page.keyboard.press("Enter");
    await tabTo(page, page.getByLabel("Counter or item"));
    await page.keyboard.type("views");
    await expect.poll(() => rows(page).count()).toBe(2);
    await expect.poll(() => events(page).innerText()).toContain("+41");
    await page.getByRole("group", { name: "State" }).getByRole("button", { name: "FAILED" }).click();
    await expect.poll(() => page.getByText("No such events").count()).toBe(1);
  });

  it("have no list of a name that there is not", async () => {
    const page = await open(at("/dlq"));
    await expect.poll(() => page.getByRole("link", { name: "Dead letters" }).getAttribute("aria-current")).toBe("true");
    await goTo(page, at("/nonsense"), "There is no such list");
    expect(await events(page).count()).toBe(0);
    await goTo(page, at("/FAILED"), "Pipeline");
  });

  it("are found by time", async () => {
    const page = await open(at("/SUCCESS"));
    await expect.poll(() => rows(page).count()).toBeGreaterThan(2);
    const [before, after] = await Promise.all([fieldTime(page, Date.now() - 3_600_000), fieldTime(page, Date.now() + 3_600_000)]);
    await page.getByLabel("Not before").fill(after);
    await expect.poll(() => page.getByText("No such events").count()).toBe(1);
    await page.getByLabel("Not before").fill(before);
    await page.getByLabel("Not after").fill(after);
    await expect.poll(() => rows(page).count()).toBeGreaterThan(2);
    await page.getByLabel("Not after").fill(before);
    await expect.poll(() => page.getByText("No such events").count()).toBe(1);
  });
});

describe("dead letters", () => {
  const letter = (page: Page, name: string) => page.getByRole("row").filter({ hasText: name });
  const list = (page: Page) => page.getByRole("table", { name: "Dead letters" });
  const confirm = (page: Page, name: string) => page.getByRole("dialog").getByRole("button", { name }).click();

  it("come after five retries", async () => {
    await expect.poll(async () => (await letters()).length, { timeout: FAILS_WITHIN_MS }).toBe(4);
    await expect.poll(async () => (await letters(other)).length, { timeout: FAILS_WITHIN_MS }).toBe(3);
  }, 2 * FAILS_WITHIN_MS + 5000);

  it("are told on the overview, which is not well then", async () => {
    const page = await open(`${tallyd.url}/#/overview`);
    const health = page.getByRole("region", { name: "Health" });
    await expect.poll(() => health.innerText()).toContain("4 dead letters wait for a decision");
    expect(await health.innerText()).not.toContain("All is well");
    await health.getByRole("link", { name: "4 dead letters wait" }).click();
    await expect.poll(() => list(page).getByRole("row").count()).toBe(5);
  });

  it("are counted where the list is, and can be looked into", async () => {
    const page = await open(at(""));
    await page.getByRole("link", { name: "Dead letters 4" }).click();
    await letter(page, "coupon:spring").getByRole("button", { name: "Inspect" }).press("Enter");
    const dialog = page.getByRole("dialog", { name: "Dead letter" });
    await expect.poll(() => dialog.innerText()).toMatch(/coupon:spring[^]*\+40[^]*no more than 1,000 coupons[^]*[0-9a-f]{20}/);
    await checkAccess(page);
    await dialog.getByRole("button", { name: "Close" }).click();
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Inspect");
  });

  it("with hostile names are text, also when they are looked into", async () => {
    const page = await open(at("/dead-letters"));
    await letter(page, hostile).getByRole("button", { name: "Inspect" }).click();
    await expect.poll(() => page.getByRole("dialog", { name: "Dead letter" }).innerText()).toContain(hostile);
    expect(await page.getByText(hostile).count()).toBe(2);
    expect(await page.locator("img[src='x']").count()).toBe(0);
  });

  it.each([["light", {}], ["dark", { colorScheme: "dark" as const }], ["phone", phone]])("are accessible, fit and do not jump: %s", async (_name, options) => {
    const page = await open("about:blank", options);
    await page.route(/\/v1\/(?!changes)/, async (route) => { // late, so that the page is there before
      await new Promise((done) => setTimeout(done, 300));
      await route.continue().catch(() => undefined);
    });
    await page.goto(at("/dead-letters"));
    await expect.poll(() => list(page).getByRole("row").count()).toBe(5);
    await expect.poll(() => page.getByRole("link", { name: "Dead letters 4" }).count()).toBe(1);
    await settled(page);
    await checkStill(page);
    await page.getByLabel("Choose coupon:summer").check();
    await checkAccess(page);
    await checkFits(page);
  });

  it("that somebody else has dealt with are not in the way", async () => {
    const page = await open(at("/dead-letters"), {}, /status of 404/);
    for (const name of ["coupon:spring", "coupon:summer"]) await page.getByLabel(`Choose ${name}`).check();
    await page.getByRole("button", { name: "Discard 2 chosen" }).click();
    const spring = (await letters()).find((one) => one.counter === "coupon:spring")!;
    await tallyd.call("DELETE", `/v1/dlq/${spring.event_id}`);
    await confirm(page, "Discard");
    await expect.poll(() => page.getByText("2 are discarded").count()).toBe(1);
    await expect.poll(() => list(page).getByRole("row").count()).toBe(3);
    await expect.poll(async () => (await letters()).map((one) => one.counter).sort()).toEqual([hostile, "coupon:winter"]);
    expect(await page.getByRole("button", { name: "Discard all" }).isEnabled()).toBe(true);
  });

  it("that could not be dealt with stay, with what was said about it", async () => {
    const page = await open(at("/dead-letters"), {}, /status of 503/);
    const mend = await failing(page, /\/v1\/dlq\/./, 503);
    await page.getByLabel("Choose coupon:winter").check();
    await page.getByRole("button", { name: "Try 1 chosen again" }).click();
    await confirm(page, "Try again");
    await expect.poll(() => page.getByRole("dialog").getByRole("alert").innerText()).toContain("Not today");
    await mend();
    await confirm(page, "Cancel");
    expect(await page.getByLabel("Choose coupon:winter").isChecked()).toBe(true);
    await page.getByLabel("Choose coupon:winter").uncheck();
    await expect.poll(() => page.getByRole("button", { name: "Try all again" }).count()).toBe(1);
  });

  it("are counted after all when the store takes them, one that is chosen", async () => {
    const page = await open(at("/dead-letters"));
    tallyd.sql("DROP TRIGGER refuse");
    await page.getByLabel("Choose coupon:winter").check();
    await page.getByRole("button", { name: "Try 1 chosen again" }).click();
    expect(await page.getByRole("dialog").getByRole("button", { name: "Try again" }).getAttribute("class")).not.toContain("text-bad"); // nothing is lost by it
    await confirm(page, "Try again");
    await expect.poll(() => page.getByText("1 is tried again").count()).toBe(1);
    await expect.poll(() => tallyd.sql("SELECT value FROM counters WHERE id = 'coupon:winter'").trim()).toBe("42");
    await expect.poll(async () => (await letters()).map((one) => one.counter)).toEqual([hostile]);
  });

  it("are counted after all when the store takes them, or all", async () => {
    const page = await open(at("/dead-letters"));
    await page.getByRole("button", { name: "Try all again" }).click();
    await confirm(page, "Try again");
    await expect.poll(() => page.getByText("No dead letters").count()).toBe(1);
    await expect.poll(() => tallyd.sql("SELECT value FROM counters WHERE id LIKE 'coupon:<%'").trim()).toBe("5");
  });

  it("are all given up, and never counted", async () => {
    const page = await open(`${other.url}/#/pipeline/dead-letters`);
    await page.getByRole("button", { name: "Discard all" }).click();
    expect(await page.getByRole("dialog").innerText()).toContain("Discard all?");
    expect(await page.getByRole("dialog").getByRole("button", { name: "Discard" }).getAttribute("class")).toContain("text-bad");
    await confirm(page, "Discard");
    await expect.poll(() => page.getByText("All are discarded").count()).toBe(1);
    await expect.poll(() => page.getByText("No dead letters").count()).toBe(1);
    await expect.poll(() => letters(other)).toEqual([]);
    expect(other.sql("SELECT count(*) FROM counters WHERE id LIKE 'coupon:%' AND value <> 0").trim()).toBe("0");
  });

  it("that are chosen far down stay so when somebody is back at the top", async () => {
    const page = await open("about:blank");
    const many = Array.from({ length: 250 }, (_, i) => ({
      event_id: `event-${i}`, counter: `c-${i}`, delta: "1", reason: "full", retry_count: 5, created: null, failed: null, size_bytes: 1 }));
    const asked: string[] = [];
    let tops = 0;
    await page.route(/\/v1\/dlq/, (route) => {
      const { pathname, searchParams } = new URL(route.request().url());
      if (route.request().method() !== "GET") {
        asked.push(`${route.request().method()} ${pathname}`);
        return route.fulfill({ json: {} });
      }
      const isFirst = searchParams.get("cursor") === null;
      if (isFirst) tops++;
      return route.fulfill({ json: isFirst ? { letters: many.slice(0, 200), cursor: "200", as_of: "" } : { letters: many.slice(200), cursor: null, as_of: "" } });
    });
    await page.goto(at("/dead-letters"));
    const scroller = list(page).locator('[role="rowgroup"][tabindex]');
    await expect.poll(() => page.getByText("200 dead letters, and more").count()).toBe(1);
    await scroller.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await expect.poll(() => page.getByText("250 dead letters").count()).toBe(1);
    await scroller.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.getByLabel("Choose c-249").check();
    await scroller.evaluate((element) => element.scrollTo(0, 0));
    const before = tops;
    await expect.poll(() => tops).toBeGreaterThan(before + 1);
    await expect.poll(() => page.getByText("200 dead letters, and more").count()).toBe(1);
    await page.getByRole("button", { name: "Discard 1 chosen" }).click();
    await confirm(page, "Discard");
    await expect.poll(() => asked).toEqual(["DELETE /v1/dlq/event-249"]);
  });
});
