// Pictures of each page, in both themes and on a phone: make screenshots. They are for people to look at; nothing is compared.
//
// Those that the README shows are made as well, smaller; with README=1 they take the place of those in docs/images.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, it } from "vitest";
import { goViral, open, phone, Tallyd } from "./lab";
import { fill, keepBusy, refuse } from "./lively";

const top = join(dirname(fileURLToPath(import.meta.url)), "../..");
const folder = join(top, "build/screenshots");
const readme = process.env.README ? join(top, "docs/images") : join(folder, "readme");
const HISTORY_MS = 75_000; // so that charts have something to show, and what is refused has failed

let tallyd: Tallyd;
let calm: () => Promise<void>;

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  mkdirSync(readme, { recursive: true });
  tallyd = await Tallyd.start("--flush-interval", "500ms");
  await fill(tallyd);
  await tallyd.kill(); // its figures begin anew
  await tallyd.run();
  calm = keepBusy(tallyd);
  await refuse(tallyd);
  await new Promise((done) => setTimeout(done, HISTORY_MS));
  await tallyd.lines([{ op: "add", id: "coupon:autumn", delta: 7 }]); // is being tried again while the pictures are taken
}, 240_000);
afterAll(async () => {
  await calm();
  await tallyd.stop();
});

const desk = { width: 1440, height: 900 };
const sizes: [string, BrowserContextOptions][] = [
  ["light", { viewport: desk, colorScheme: "light" }],
  ["dark", { viewport: desk, colorScheme: "dark" }],
  ["phone-light", { ...phone, colorScheme: "light", deviceScaleFactor: 2 }],
  ["phone-dark", { ...phone, colorScheme: "dark", deviceScaleFactor: 2 }],
];

/** A while ago, so that its shards can be seen. */
async function goViralAWhile(page: Page): Promise<void> {
  await page.getByLabel("Going viral is").selectOption("1000000");
  await goViral(page, "tally-demo:post-sourdough");
  await page.waitForTimeout(3000);
}

async function recount(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Recount" }).click();
  await page.getByText(/The number (is|was) proved/).waitFor();
}

const places: { name: string; place: string; before?: (page: Page) => Promise<void>; inReadme?: boolean }[] = [
  { name: "feed", place: "/", before: goViralAWhile, inReadme: true },
  { name: "counter", place: "/counters/tally-demo%3Apost-sourdough%2Flike", before: recount, inReadme: true }, // while it is still spread
  { name: "overview", place: "/overview", inReadme: true },
  { name: "counters", place: "/counters" },
  { name: "counter-plain", place: "/counters/views%3Aaurora-4k" },
  { name: "pipeline", place: "/pipeline" },
  { name: "dead-letters", place: "/pipeline/dead-letters" },
  { name: "users", place: "/users" },
  { name: "user", place: "/users/tally-demo%3Aann" },
];

/** As high as the page is: what sticks to the window's edges then is where it belongs. */
async function fitHeight(page: Page): Promise<void> {
  const { width, height } = page.viewportSize()!;
  const whole = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width, height: Math.max(height, whole) });
  await page.waitForTimeout(300);
}

async function compressed(page: Page): Promise<Buffer> {
  const session = await page.context().newCDPSession(page);
  const { data } = (await session.send("Page.captureScreenshot", { format: "webp", quality: 82 })) as { data: string };
  return Buffer.from(data, "base64");
}

it.each(sizes)("%s", async (size, options) => {
  for (const { name, place, before, inReadme } of places) {
    const page = await open(`${tallyd.url}/#${place}`, options);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await before?.(page);
    await page.waitForTimeout(1500);
    if (inReadme && size === "light") writeFileSync(join(readme, `${name}.webp`), await compressed(page));
    await fitHeight(page);
    await fitHeight(page); // lists grow with the window
    await page.screenshot({ path: join(folder, `${name}-${size}.png`) });
    await page.context().close();
  }
}, 240_000);
