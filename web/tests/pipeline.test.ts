// The pipeline's page: what became of each change, what is tried again, and the dead letters.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkAccess, checkFits, failing, fieldTime, open, phone, tabTo, Tallyd } from "./lab";
import { refuse } from "./lively";

const FAILS_WITHIN_MS = 60_000; // five retries take half a minute
let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start("--flush-interval", "100ms");
  await tallyd.lines([{ op: "add", id: "views", delta: 41 }, { op: "like", item: "video1", user: "ann" }]);
  await refuse(tallyd);
});
afterAll(() => tallyd.stop());

const letters = async () => (await tallyd.call<{ letters: { counter: string; event_id: string }[] }>("GET", "/v1/dlq")).letters;
const at = (place: string) => `${tallyd.url}/#/pipeline${place}`;
const events = (page: Page) => page.getByRole("table", { name: "Events" });
const rows = (page: Page) => events(page).locator('[role="row"]');

describe("events", () => {
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

  it("that the store refuses are tried again, and it is told when and why", async () => {
    const page = await open(at("/RETRYING"));
    await expect.poll(() => events(page).innerText()).toMatch(/coupon:spring[^]*retry \d (in \d|just now|\d)[^]*no more than 1,000 coupons/);
    await checkAccess(page);
  });
});

describe("dead letters", () => {
  const letter = (page: Page, name: string) => page.getByRole("row").filter({ hasText: name });
  const list = (page: Page) => page.getByRole("table", { name: "Dead letters" });
  const confirm = (page: Page, name: string) => page.getByRole("dialog").getByRole("button", { name }).click();

  it("come after five retries", async () => {
    await expect.poll(async () => (await letters()).length, { timeout: FAILS_WITHIN_MS }).toBe(3);
  }, FAILS_WITHIN_MS + 5000);

  it("are counted where the list is, and can be looked into", async () => {
    const page = await open(at(""));
    await page.getByRole("link", { name: "Dead letters 3" }).click();
    await letter(page, "coupon:spring").getByRole("button", { name: "Inspect" }).press("Enter");
    const dialog = page.getByRole("dialog", { name: "Dead letter" });
    await expect.poll(() => dialog.innerText()).toMatch(/coupon:spring[^]*\+40[^]*no more than 1,000 coupons[^]*[0-9a-f]{20}/);
    await checkAccess(page);
    await dialog.getByRole("button", { name: "Close" }).click();
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Inspect");
  });

  it.each([["light", {}], ["dark", { colorScheme: "dark" as const }], ["phone", phone]])("are accessible and fit: %s", async (_name, options) => {
    const page = await open(at("/dead-letters"), options);
    await expect.poll(() => list(page).getByRole("row").count()).toBe(4);
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
    await expect.poll(() => list(page).getByRole("row").count()).toBe(2);
    await expect.poll(async () => (await letters()).map((one) => one.counter)).toEqual(["coupon:winter"]);
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

  it("are counted after all when the store takes them", async () => {
    const page = await open(at("/dead-letters"));
    tallyd.sql("DROP TRIGGER refuse");
    await page.getByRole("button", { name: "Try all again" }).click();
    await confirm(page, "Try again");
    await expect.poll(() => page.getByText("No dead letters").count()).toBe(1);
    await expect.poll(() => tallyd.sql("SELECT value FROM counters WHERE id = 'coupon:winter'").trim()).toBe("42");
  });
});
