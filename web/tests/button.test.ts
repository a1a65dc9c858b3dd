// The button on a page of another origin, as on somebody's site.

import { createServer, type Server } from "node:http";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkAccess, open, Tallyd } from "./lab";

let tallyd: Tallyd;
let site: Server;
let siteUrl: string;

beforeAll(async () => {
  site = createServer((request, response) => {
    const user = new URL(request.url!, "http://site").searchParams.get("user");
    response.setHeader("Content-Type", "text/html");
    response.end(`<!doctype html><html lang="en"><title>Somebody's site</title><main><h1>A video</h1>
      <script src="${tallyd.url}/tally.js"></script>
      <tally-reactions item="video/1"${user ? ` user="${user}"` : ""}></tally-reactions></main></html>`);
  });
  await new Promise<void>((done) => site.listen(0, "127.0.0.1", done));
  siteUrl = `http://127.0.0.1:${(site.address() as { port: number }).port}`;
  tallyd = await Tallyd.start("--cors-origins", siteUrl);
});
afterAll(async () => {
  site.close();
  await tallyd.stop();
});

const button = (page: Page, kind: string) => page.locator(`tally-reactions button[aria-label^="${kind}:"]`);
const count = async (kind: string) => (await tallyd.call<{ value: string }>("GET", `/v1/counters/video%2F1%2F${kind}`)).value;

it("likes, switches, and remembers", async () => {
  const page = await open(`${siteUrl}/?user=ann`);
  await button(page, "like").click();
  await expect.poll(() => count("like")).toBe("1");
  await button(page, "dislike").click();
  await expect.poll(() => count("dislike")).toBe("1");
  expect(await count("like")).toBe("0");
  await page.reload();
  await expect.poll(() => button(page, "dislike").getAttribute("aria-pressed")).toBe("true");
  await button(page, "dislike").press("Enter");
  await expect.poll(() => count("dislike")).toBe("0");
});

it("is live", async () => {
  const page = await open(`${siteUrl}/?user=ann`);
  await expect.poll(() => button(page, "like").innerText()).toBe("0");
  await tallyd.lines(Array.from({ length: 1234 }, (_, i) => ({ op: "like", item: "video/1", user: `user${i}` })));
  await expect.poll(() => button(page, "like").innerText(), { timeout: 5000 }).toBe("1.2K");
  expect(await button(page, "like").getAttribute("title")).toBe("1,234");
});

it("keeps working when live updates are blocked", async () => {
  const page = await open("about:blank", {}, /ERR_|Failed to load/);
  await page.route("**/v1/changes**", (route) => route.abort());
  await page.goto(`${siteUrl}/?user=ben`);
  await expect.poll(() => button(page, "like").innerText()).toBe("1.2K");
  await tallyd.lines([{ op: "dislike", item: "video/1", user: "zoe" }]);
  await expect.poll(() => button(page, "dislike").innerText(), { timeout: 20_000 }).toBe("1");
  await button(page, "like").click();
  await expect.poll(() => count("like")).toBe("1235");
});

it("takes back what is refused, and says so", async () => {
  const page = await open(`${siteUrl}/?user=cho`, {}, /status of 422/);
  await page.route(/\/v1\/items\//, (route) => (route.request().method() === "OPTIONS" ? route.continue() : route.fulfill({
    status: 422, contentType: "application/problem+json", headers: { "Access-Control-Allow-Origin": "*" }, body: JSON.stringify({ title: "Refused today" }) })));
  await button(page, "like").click();
  await expect.poll(() => page.locator("tally-reactions p").innerText()).toBe("Refused today");
  expect(await button(page, "like").getAttribute("aria-pressed")).toBe("false");
});

it("without a user only shows counts, and is accessible", async () => {
  const page = await open(siteUrl);
  await expect.poll(() => button(page, "like").innerText()).not.toBe("");
  const before = await count("like");
  await button(page, "like").click({ force: true }); // it says that it is disabled
  await page.waitForTimeout(300);
  expect(await count("like")).toBe(before);
  await checkAccess(page);
});
