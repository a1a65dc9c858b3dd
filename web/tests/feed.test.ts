import { afterAll, beforeAll, expect, it } from "vitest";
import { checkAccess, checkFits, checkStill, goTo, goViral, open, phone, reaction, settled, tabTo, Tallyd, wide } from "./lab";

const ITEM = "tally-demo:post-aurora";
let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start();
});
afterAll(() => tallyd.stop());

const count = async (kind: string) =>
  (await tallyd.call<{ value: string }>("GET", `/v1/counters/${ITEM}%2F${kind}`).catch(() => ({ value: "0" }))).value ?? "0";

it("likes, switches and takes back, and remembers over a reload", async () => {
  const page = await open(tallyd.url);
  await reaction(page, ITEM, "like").click();
  await expect.poll(() => count("like")).toBe("1");
  await page.reload();
  await expect.poll(() => reaction(page, ITEM, "like").getAttribute("aria-pressed")).toBe("true");
  await reaction(page, ITEM, "dislike").click();
  await expect.poll(() => count("dislike")).toBe("1");
  expect(await count("like")).toBe("0");
  await reaction(page, ITEM, "dislike").click();
  await expect.poll(() => count("dislike")).toBe("0");
});

it("shows each browser what the other does", async () => {
  const ann = await open(tallyd.url);
  const ben = await open(tallyd.url);
  await ben.getByLabel("You are").fill("ben");
  await ben.keyboard.press("Enter");
  await reaction(ann, ITEM, "like").click();
  await expect.poll(() => reaction(ben, ITEM, "like").innerText()).toContain("1");
  await reaction(ben, ITEM, "like").click();
  await expect.poll(() => reaction(ann, ITEM, "like").innerText()).toContain("2");
  await reaction(ann, ITEM, "like").click();
  await reaction(ben, ITEM, "like").click();
  await expect.poll(() => reaction(ann, ITEM, "like").innerText()).toContain("0");
});

it("shows who somebody says he is his own reactions", async () => {
  await tallyd.lines([{ op: "like", item: "tally-demo:post-sourdough", user: "tally-demo:cho" }, { op: "dislike", item: "tally-demo:post-sourdough", user: "tally-demo:dana" }]);
  const page = await open(tallyd.url);
  const pressed = () => Promise.all(["like", "dislike"].map((kind) => reaction(page, "tally-demo:post-sourdough", kind).getAttribute("aria-pressed")));
  for (const [user, held] of [["cho", ["true", "false"]], ["dana", ["false", "true"]], ["nobody", ["false", "false"]], ["cho", ["true", "false"]]] as const) {
    await page.getByLabel("You are").fill(user);
    await page.keyboard.press("Enter");
    await expect.poll(pressed).toEqual(held);
  }
  await tallyd.lines(["cho", "dana"].map((user) => ({ op: "unreact", item: "tally-demo:post-sourdough", user: `tally-demo:${user}` })));
});

it("is safe under double clicks and answers that are lost", async () => {
  const page = await open(tallyd.url, {}, /ERR_FAILED|Failed to load/);
  let lost = 0;
  await page.route(/\/v1\/items\//, async (route) => {
    if (lost++ < 2) {
      await route.fetch(); // it is done, and the answer does not come
      await route.abort("failed");
    } else await route.continue();
  });
  await reaction(page, "tally-demo:post-cat", "like").dblclick();
  await reaction(page, "tally-demo:post-cat", "like").click();
  await expect.poll(async () => (await tallyd.call<{ value: string }>("GET", "/v1/counters/tally-demo:post-cat%2Flike")).value).toBe("1");
  await expect.poll(() => reaction(page, "tally-demo:post-cat", "like").getAttribute("aria-pressed")).toBe("true");
  await expect.poll(() => reaction(page, "tally-demo:post-cat", "like").innerText()).toContain("1");
});

it("takes back what the server refuses, and says so", async () => {
  const page = await open(tallyd.url, {}, /status of 422/);
  await page.route(/\/v1\/items\//, (route) =>
    route.fulfill({ status: 422, contentType: "application/problem+json", body: JSON.stringify({ title: "Refused today" }) }));
  await reaction(page, "tally-demo:post-tabs", "like").click();
  await expect.poll(() => page.getByRole("status").allInnerTexts()).toEqual(expect.arrayContaining([expect.stringContaining("Refused today")]));
  await expect.poll(() => reaction(page, "tally-demo:post-tabs", "like").getAttribute("aria-pressed")).toBe("false");
  await expect.poll(() => reaction(page, "tally-demo:post-tabs", "like").innerText()).toContain("0");
});

it("shows feedback at once while an answer is slow", async () => {
  const page = await open(tallyd.url);
  let goOn = () => {};
  const held = new Promise<void>((done) => (goOn = done));
  await page.route(/\/v1\/items\//, async (route) => {
    await held;
    await route.continue();
  });
  await reaction(page, "tally-demo:post-tabs", "dislike").click();
  await expect.poll(() => reaction(page, "tally-demo:post-tabs", "dislike").getAttribute("aria-pressed")).toBe("true");
  await expect.poll(() => reaction(page, "tally-demo:post-tabs", "dislike").innerText()).toContain("1");
  goOn();
  await expect.poll(async () => (await tallyd.call<{ value: string }>("GET", "/v1/counters/tally-demo:post-tabs%2Fdislike")).value).toBe("1");
});

it("goes viral, by as many users as likes", async () => {
  const page = await open(tallyd.url);
  await page.getByLabel("Going viral is").selectOption("1000");
  await page.locator('[data-item="tally-demo:post-marathon"]').getByRole("button", { name: "Go viral" }).click();
  const dialog = page.getByRole("dialog", { name: "Send 1,000 invented likes?" });
  await expect.poll(() => dialog.innerText()).toMatch(/tally-demo:post-marathon on the server 127\.0\.0\.1:\d+/);
  await checkAccess(page);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await expect.poll(() => dialog.count()).toBe(0);
  expect(await tallyd.call("GET", "/v1/items/tally-demo:post-marathon")).toMatchObject({ counts: { like: "0" } }); // nothing was sent
  await goViral(page, "tally-demo:post-marathon");
  await expect.poll(() => page.getByText("1,000 of 1,000 likes").count()).toBe(1);
  await expect.poll(() => reaction(page, "tally-demo:post-marathon", "like").innerText()).toContain("1K");
  expect(await reaction(page, "tally-demo:post-marathon", "like").getAttribute("title")).toBe("1,000");
  const proof = await tallyd.call("POST", "/v1/counters/tally-demo:post-marathon%2Flike/recount");
  expect(proof).toMatchObject({ value: "1000", recount: "1000", agrees: true });
});

it("survives a server that is killed, and goes on by itself", async () => {
  const page = await open(tallyd.url, {}, /ERR_|Failed to load/);
  await expect.poll(() => page.getByText("Connected").count()).toBe(1);
  await expect.poll(() => reaction(page, "tally-demo:post-marathon", "like").getAttribute("title")).toBe("1,000");
  await tallyd.kill();
  await expect.poll(() => page.getByText("The server cannot be reached", { exact: false }).count()).toBeGreaterThan(0);
  await tallyd.run();
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  expect(await reaction(page, "tally-demo:post-marathon", "like").getAttribute("title")).toBe("1,000");
  await tallyd.call("PUT", "/v1/items/tally-demo:post-marathon/reactions/zoe");
  await expect.poll(() => reaction(page, "tally-demo:post-marathon", "like").getAttribute("title")).toBe("1,001");
});

it("works with the keyboard alone", async () => {
  const page = await open(tallyd.url);
  await expect.poll(() => reaction(page, "tally-demo:post-sourdough", "like").isEnabled()).toBe(true);
  await tabTo(page, reaction(page, "tally-demo:post-sourdough", "like"));
  await page.keyboard.press("Space");
  await expect.poll(async () => (await tallyd.call<{ value: string }>("GET", "/v1/counters/tally-demo:post-sourdough%2Flike")).value).toBe("1");
});

it("writes under its own prefix only, which is removed with one click", async () => {
  const one = await Tallyd.start();
  try {
    await one.lines([{ op: "add", id: "views", delta: 5 }, { op: "like", item: "video1", user: "ann" }, { op: "add", id: "tally-demo", delta: 1 }]);
    const ids = async () => (await one.call<{ counters: { id: string }[] }>("GET", "/v1/counters?match=*")).counters.map(({ id }) => id).sort();
    const page = await open(one.url, {}, /status of 404/); // its shards may be asked for while it is removed
    await page.getByLabel("Going viral is").selectOption("1000");
    await goViral(page, "tally-demo:post-cat");
    await expect.poll(() => page.getByText("1,000 of 1,000 likes").count()).toBe(1);
    await reaction(page, "tally-demo:post-tabs", "like").click();
    await expect.poll(ids).toEqual(["tally-demo", "tally-demo:post-cat", "tally-demo:post-tabs", "video1", "views"]);
    await expect.poll(() => one.sql("SELECT count(DISTINCT user) FROM who_likes_what WHERE user NOT LIKE 'tally-demo:%'").trim()).toBe("1"); // ann
    await page.getByRole("button", { name: "Remove demo data" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click();
    await expect.poll(() => page.getByText("Demo data is removed: 2 items with all reactions").count()).toBe(1);
    expect(await ids()).toEqual(["tally-demo", "video1", "views"]);
    await expect.poll(() => reaction(page, "tally-demo:post-cat", "like").innerText()).toContain("0");
    await expect.poll(() => reaction(page, "tally-demo:post-tabs", "like").getAttribute("aria-pressed")).toBe("false");
    await page.close(); // before the server goes
  } finally {
    await one.stop();
  }
});

it("is not there where the operator says so: the page begins with the overview, and nothing leads to it", async () => {
  const one = await Tallyd.start("--demo", "off");
  try {
    const page = await open(one.url);
    await expect.poll(() => page.getByRole("heading", { level: 1 }).allInnerTexts()).toEqual(["Overview"]);
    for (const [place, heading] of [["users", "Users"], ["counters", "Counters"], ["pipeline", "Pipeline"], ["", "Overview"]] as const) {
      await goTo(page, `${one.url}/#/${place}`, heading);
      await settled(page);
      expect(await page.getByText(/demo|like a post|Like something/i).count()).toBe(0);
    }
    expect(await page.getByRole("link", { name: "Overview" }).first().getAttribute("aria-current")).toBe("page");
    await checkAccess(page);
    await page.close(); // before the server goes
  } finally {
    await one.stop();
  }
});

it.each([["light", {}], ["dark", { colorScheme: "dark" as const }], ["phone", phone], ["wide", wide]])("is accessible, fits and does not jump: %s", async (_name, options) => {
  const page = await open(tallyd.url, options);
  await expect.poll(() => reaction(page, ITEM, "like").isEnabled()).toBe(true);
  await settled(page);
  await checkStill(page);
  await checkAccess(page);
  await checkFits(page);
});
