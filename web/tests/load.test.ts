// What it takes until the first page is there.

import { afterAll, beforeAll, expect, it } from "vitest";
import { blockStorage, failing, open, Tallyd } from "./lab";

const FIRST_LOAD_MAX = 150 * 1024;
let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start();
});
afterAll(() => tallyd.stop());

it("is less than 150 KB, with all that a wide screen shows at once", async () => {
  const page = await open(tallyd.url, { viewport: { width: 1600, height: 900 } });
  await page.locator("canvas").waitFor();
  const files = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .map((entry) => entry as PerformanceResourceTiming)
    .filter(({ name }) => !new URL(name).pathname.startsWith("/v1/"))
    .map(({ name, encodedBodySize }) => ({ name: new URL(name).pathname, size: encodedBodySize })));
  const size = files.reduce((sum, file) => sum + file.size, 0);
  console.log(`the first page takes ${(size / 1024).toFixed(1)} KB: ${files.map(({ name }) => name).join(" ")}`);
  expect(files.map(({ name }) => name)).toContainEqual(expect.stringMatching(/chart-.*\.js$/));
  expect(size).toBeLessThan(FIRST_LOAD_MAX);
});

it("shows the first counter by itself to who has just read how to make one", async () => {
  const page = await open(`${tallyd.url}/#/counters`);
  await expect.poll(() => page.getByText("Nothing is counted yet").count()).toBe(1);
  await tallyd.call("POST", "/v1/counters/views/add");
  await expect.poll(() => page.getByRole("link", { name: "views" }).count()).toBe(1);
});

it("is a feed that works though its chart cannot be loaded", async () => {
  const page = await open("about:blank", { viewport: { width: 1600, height: 900 } }, /./);
  await failing(page, /\/page\/chart-.*js$/, 404);
  await page.goto(tallyd.url);
  await expect.poll(() => page.getByText("The chart could not be loaded").count()).toBe(1);
  await expect.poll(() => page.locator('[data-item="tally-demo:post-cat"] [data-kind="like"]').isEnabled()).toBe(true);
});

it("works in a browser that may not remember anything", async () => {
  const page = await open("about:blank");
  await blockStorage(page);
  await page.goto(tallyd.url);
  await page.getByLabel("You are").fill("ben");
  await page.keyboard.press("Enter");
  const like = page.locator('[data-item="tally-demo:post-aurora"] [data-kind="like"]');
  await expect.poll(() => like.isEnabled()).toBe(true);
  await like.click();
  await expect.poll(() => tallyd.call("GET", "/v1/items/tally-demo:post-aurora/reactions/tally-demo:ben")).toMatchObject({ reaction: "like" });
  await page.getByRole("button", { name: /Theme/ }).click();
  await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe("light");
});

it.each([".", ".."])("shows why there is no page of a counter that is called “%s”", async (id) => {
  await tallyd.lines([{ op: "add", id, delta: 7 }]);
  const page = await open(`${tallyd.url}/#/counters/${id}`);
  await expect.poll(() => page.getByRole("alert").first().innerText()).toContain(`A browser cannot ask for what is called “${id}”`);
  await expect.poll(() => page.getByText("7", { exact: true }).count()).toBeGreaterThan(0); // what can be asked for is there
});
