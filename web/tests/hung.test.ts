// A server that takes connections and never answers, which is worse than one that is gone.

import { afterAll, beforeAll, expect, it } from "vitest";
import { open, reaction, Tallyd } from "./lab";

const ITEM = "tally-demo:post-aurora";
let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start();
});
afterAll(() => tallyd.stop());

const likes = async () => (await tallyd.call<{ value: string | null }>("GET", `/v1/counters/${ITEM}%2Flike`)).value;

it("is noticed; what was clicked meanwhile counts once when it goes on", async () => {
  const page = await open(tallyd.url, {}, /ERR_|Failed to load/);
  const mark = page.getByText("Connected", { exact: true });
  await expect.poll(() => mark.count()).toBe(1);
  await expect.poll(() => reaction(page, ITEM, "like").isEnabled()).toBe(true);
  await tallyd.hang();
  try {
    await reaction(page, ITEM, "like").click();
    expect(await reaction(page, ITEM, "like").getAttribute("aria-pressed")).toBe("true");
    await expect.poll(() => page.getByText("Not connected").count(), { timeout: 30_000 }).toBe(1);
    await expect.poll(() => page.getByRole("alert").count()).toBeGreaterThan(0);
  } finally {
    tallyd.goOn();
  }
  await expect.poll(likes).toBe("1");
  await expect.poll(() => mark.count(), { timeout: 30_000 }).toBe(1);
  await expect.poll(() => reaction(page, ITEM, "like").getAttribute("aria-pressed")).toBe("true");
  await tallyd.call("PUT", `/v1/items/${ITEM}/reactions/zoe`);
  await expect.poll(() => reaction(page, ITEM, "like").getAttribute("title"), { timeout: 30_000 }).toBe("2");
});

it("does not keep what was clicked busy for ever", async () => {
  const page = await open(tallyd.url, {}, /ERR_|Failed to load/);
  await expect.poll(() => reaction(page, "tally-demo:post-cat", "like").isEnabled()).toBe(true);
  await tallyd.hang();
  try {
    await reaction(page, "tally-demo:post-cat", "like").click();
    expect(await reaction(page, "tally-demo:post-cat", "like").getAttribute("aria-pressed")).toBe("true");
    await expect.poll(() => page.getByRole("status").allInnerTexts(), { timeout: 50_000, interval: 200 })
      .toEqual(expect.arrayContaining([expect.stringContaining("post may be lost")]));
    expect(await reaction(page, "tally-demo:post-cat", "like").getAttribute("aria-pressed")).toBe("false");
  } finally {
    tallyd.goOn();
  }
  // The server has taken it at last: the page finds out by itself.
  await expect.poll(() => reaction(page, "tally-demo:post-cat", "like").getAttribute("aria-pressed"), { timeout: 30_000 }).toBe("true");
  expect((await tallyd.call<{ value: string }>("GET", "/v1/counters/tally-demo:post-cat%2Flike")).value).toBe("1");
}, 120_000);
