import { afterAll, beforeAll, expect, it } from "vitest";
import { checkAccess, checkFits, checkStill, open, phone, reaction, settled, tabTo, Tallyd, wide } from "./lab";

const ITEM = "post-aurora";
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
  await tallyd.lines([{ op: "like", item: "post-sourdough", user: "cho" }, { op: "dislike", item: "post-sourdough", user: "dana" }]);
  const page = await open(tallyd.url);
  const pressed = () => Promise.all(["like", "dislike"].map((kind) => reaction(page, "post-sourdough", kind).getAttribute("aria-pressed")));
  for (const [user, held] of [["cho", ["true", "false"]], ["dana", ["false", "true"]], ["nobody", ["false", "false"]], ["cho", ["true", "false"]]] as const) {
    await page.getByLabel("You are").fill(user);
    await page.keyboard.press("Enter");
    await expect.poll(pressed).toEqual(held);
  }
  await tallyd.lines(["cho", "dana"].map((user) => ({ op: "unreact", item: "post-sourdough", user })));
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
  await reaction(page, "post-cat", "like").dblclick();
  await reaction(page, "post-cat", "like").click();
  await expect.poll(async () => (await tallyd.call<{ value: string }>("GET", "/v1/counters/post-cat%2Flike")).value).toBe("1");
  await expect.poll(() => reaction(page, "post-cat", "like").getAttribute("aria-pressed")).toBe("true");
  await expect.poll(() => reaction(page, "post-cat", "like").innerText()).toContain("1");
});

it("takes back what the server refuses, and says so", async () => {
  const page = await open(tallyd.url, {}, /status of 422/);
  await page.route(/\/v1\/items\//, (route) =>
    route.fulfill({ status: 422, contentType: "application/problem+json", body: JSON.stringify({ title: "Refused today" }) }));
  await reaction(page, "post-tabs", "like").click();
  await expect.poll(() => page.getByRole("status").allInnerTexts()).toEqual(expect.arrayContaining([expect.stringContaining("Refused today")]));
  await expect.poll(() => reaction(page, "post-tabs", "like").getAttribute("aria-pressed")).toBe("false");
  await expect.poll(() => reaction(page, "post-tabs", "like").innerText()).toContain("0");
});

it("shows feedback at once while an answer is slow", async () => {
  const page = await open(tallyd.url);
  let goOn = () => {};
  const held = new Promise<void>((done) => (goOn = done));
  await page.route(/\/v1\/items\//, async (route) => {
    await held;
    await route.continue();
  });
  await reaction(page, "post-tabs", "dislike").click();
  await expect.poll(() => reaction(page, "post-tabs", "dislike").getAttribute("aria-pressed")).toBe("true");
  await expect.poll(() => reaction(page, "post-tabs", "dislike").innerText()).toContain("1");
  goOn();
  await expect.poll(async () => (await tallyd.call<{ value: string }>("GET", "/v1/counters/post-tabs%2Fdislike")).value).toBe("1");
});

it("goes viral, by as many users as likes", async () => {
  const page = await open(tallyd.url);
  await page.getByLabel("Going viral is").selectOption("1000");
  await page.locator('[data-item="post-marathon"]').getByRole("button", { name: "Go viral" }).click();
  await expect.poll(() => page.getByText("1,000 of 1,000 likes").count()).toBe(1);
  await expect.poll(() => reaction(page, "post-marathon", "like").innerText()).toContain("1K");
  expect(await reaction(page, "post-marathon", "like").getAttribute("title")).toBe("1,000");
  const proof = await tallyd.call("POST", "/v1/counters/post-marathon%2Flike/recount");
  expect(proof).toMatchObject({ value: "1000", recount: "1000", agrees: true });
});

it("survives a server that is killed, and goes on by itself", async () => {
  const page = await open(tallyd.url, {}, /ERR_|Failed to load/);
  await expect.poll(() => page.getByText("Connected").count()).toBe(1);
  await expect.poll(() => reaction(page, "post-marathon", "like").getAttribute("title")).toBe("1,000");
  await tallyd.kill();
  await expect.poll(() => page.getByText("The server cannot be reached", { exact: false }).count()).toBeGreaterThan(0);
  await tallyd.run();
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  expect(await reaction(page, "post-marathon", "like").getAttribute("title")).toBe("1,000");
  await tallyd.call("PUT", "/v1/items/post-marathon/reactions/zoe");
  await expect.poll(() => reaction(page, "post-marathon", "like").getAttribute("title")).toBe("1,001");
});

it("works with the keyboard alone", async () => {
  const page = await open(tallyd.url);
  await expect.poll(() => reaction(page, "post-sourdough", "like").isEnabled()).toBe(true);
  await tabTo(page, reaction(page, "post-sourdough", "like"));
  await page.keyboard.press("Space");
  await expect.poll(async () => (await tallyd.call<{ value: string }>("GET", "/v1/counters/post-sourdough%2Flike")).value).toBe("1");
});

it.each([["light", {}], ["dark", { colorScheme: "dark" as const }], ["phone", phone], ["wide", wide]])("is accessible, fits and does not jump: %s", async (_name, options) => {
  const page = await open(tallyd.url, options);
  await expect.poll(() => reaction(page, ITEM, "like").isEnabled()).toBe(true);
  await settled(page);
  await checkStill(page);
  await checkAccess(page);
  await checkFits(page);
});
