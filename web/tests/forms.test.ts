// Every page, in every form: it can be used by everybody, fits, and does not jump.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkAccess, checkFits, checkStill, open, phone, settled, Tallyd, wide } from "./lab";

let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start("--flush-interval", "100ms");
  await tallyd.lines([
    ...Array.from({ length: 300 }, (_, i) => ({ op: "like", item: "video1", user: `user${i}` })),
    { op: "add", id: "views", delta: "1234567" },
    { op: "add", id: "big", delta: "123456789012345678901234567890" },
    { op: "add", id: `<img src=x onerror=alert(1)>"'/..%2f`, delta: 5 },
  ]);
});
afterAll(() => tallyd.stop());

const pages = ["/overview", "/counters", "/counters/video1%2Flike", "/counters/views", "/pipeline", "/users", "/users/user1"];
const forms: [string, Parameters<typeof open>[1]][] = [["light", {}], ["dark", { colorScheme: "dark" }], ["phone", phone], ["wide", wide]];

describe.each(forms)("%s", (name, options) => {
  it.each(pages)("%s is accessible, fits and does not jump", async (place) => {
    const page = await open("about:blank", options);
    await page.route(/\/v1\/(?!changes)/, async (route) => { // late, so that the page is there before
      await new Promise((done) => setTimeout(done, 300));
      await route.continue().catch(() => undefined);
    });
    await page.goto(`${tallyd.url}/#${place}`);
    await expect.poll(() => page.getByRole("heading", { level: 1 }).count()).toBe(1);
    await settled(page); // live values, and what is asked for every second, have come
    await checkStill(page);
    await checkFits(page);
    if (name !== "wide") await checkAccess(page);
  });
});
