import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answered, checkAccess, cpuOf, failing, fieldTime, goTo, open, settled, tabTo, Tallyd } from "./lab";

const hostile = `<img src=x onerror=alert(1)>"'/..%2f`;
const hostileItem = `item ${hostile}`; // an id is a counter or an item
const TYPING_MS = 300; // of lib/hooks.ts
let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start("--flush-interval", "100ms");
  await tallyd.lines([
    ...Array.from({ length: 300 }, (_, i) => ({ op: "like", item: "video1", user: `user${i}` })),
    { op: "dislike", item: "video1", user: "grumpy" },
    { op: "add", id: "views", delta: "1234567" },
    { op: "add", id: "big", delta: "123456789012345678901234567890" },
    { op: "add", id: hostile, delta: 5 },
    { op: "like", item: hostileItem, user: hostile },
  ]);
  await tallyd.call("PUT", "/v1/counters/spread", { shards: 8, policy: "round-robin" });
  await tallyd.lines(Array.from({ length: 800 }, () => ({ op: "add", id: "spread", delta: 1 })));
});
afterAll(() => tallyd.stop());

const at = (place: string) => `${tallyd.url}/#${place}`;
const counterAt = (id: string) => at(`/counters/${encodeURIComponent(id)}`);

const FRAMES = 30;

/** What a frame costs while somebody scrolls through all of a list: time of the processor, which others on the machine do not change. */
async function scrollThrough(page: Page, label: string): Promise<{ frameMs: number; rowsMost: number }> {
  let rowsMost = 0;
  const cpuMs = await cpuOf(page, async () => {
    rowsMost = await page.evaluate(async ([name, frames]) => {
      const table = document.querySelector(`[role="table"][aria-label="${name}"]`)!;
      const list = table.querySelector<HTMLElement>('[role="rowgroup"][tabindex]')!;
      let most = 0;
      for (let i = 1; i <= frames; i++) {
        list.scrollTop = (list.scrollHeight / frames) * i;
        await new Promise((done) => requestAnimationFrame(done));
        most = Math.max(most, table.querySelectorAll('[role="row"]').length);
      }
      return most;
    }, [label, FRAMES] as const);
  });
  return { frameMs: cpuMs / FRAMES, rowsMost };
}

describe("counters", () => {
  it("are found by a part of their name or a pattern, and sorted", async () => {
    const page = await open(at("/counters"));
    const names = () => page.locator('[role="row"] a').allInnerTexts();
    await expect.poll(names).toEqual(expect.arrayContaining(["views", "video1/like", "big"]));
    await expect.poll(async () => (await names())[0]).toBe("big");
    await page.getByRole("button", { name: /Name/ }).click();
    await expect.poll(async () => (await names()).includes("views") && (await names()).indexOf("big") < (await names()).indexOf("views")).toBe(true);
    await page.getByRole("searchbox").fill("vi*");
    await expect.poll(names).toEqual(["video1/dislike", "video1/like", "views"]);
    await page.getByRole("searchbox").fill("nothing like it");
    await expect.poll(() => page.getByText("Nothing has such a name").count()).toBe(1);
  });

  it("move while one looks", async () => {
    const page = await open(at("/counters"));
    await page.getByRole("searchbox").fill("views");
    const value = () => page.locator('[role="row"]').nth(1).locator("[title]").first().getAttribute("title");
    await expect.poll(value).toBe("1,234,567");
    await tallyd.call("POST", "/v1/counters/views/add", { delta: 3 });
    await expect.poll(value).toBe("1,234,570");
    await tallyd.call("POST", "/v1/counters/views/add", { delta: -3 });
  });

  it("are recounted together, with a task that ends", async () => {
    const page = await open(at("/counters"));
    const half = { id: 1, kind: "recount", state: "running", done: 40, all: 100, unit: "counters", started: "", ended: null, text: "", found: 0, lines: [] };
    let asked = 0;
    let isHalf = true;
    await page.route(/\/v1\/tasks\//, (route) => {
      asked++;
      return isHalf ? route.fulfill({ json: half }) : route.continue();
    });
    await page.getByRole("button", { name: "Recount these" }).click();
    await expect.poll(() => page.getByText("40 of 100 counters").count()).toBe(1);
    expect(await page.getByRole("progressbar", { name: "Progress" }).getAttribute("value")).toBe("40");
    isHalf = false;
    await expect.poll(() => page.getByText("counted anew", { exact: false }).innerText()).toContain("0 differ");
    const before = asked;
    await answered(page, "/livez", 2); // seconds go by for the page, and nobody asks any more
    expect(asked).toBe(before);
  });

  it("are not recounted when the server refuses, and it says so", async () => {
    const page = await open(at("/counters"), {}, /status of 429/);
    await failing(page, /\/v1\/recounts/, 429, "Too much waits");
    await page.getByRole("button", { name: "Recount these" }).click();
    await expect.poll(() => page.getByText("They are not recounted: Too much waits").count()).toBe(1);
  });

  it("that are deleted are not shown with their old value", async () => {
    await tallyd.call("POST", "/v1/counters/short-lived/add", { delta: 77 });
    const page = await open(at("/counters"));
    await page.getByRole("searchbox").fill("short-lived");
    await expect.poll(() => page.getByRole("row").nth(1).innerText()).toContain("77");
    await tallyd.call("DELETE", "/v1/counters/short-lived");
    await expect.poll(() => page.getByRole("row").nth(1).innerText()).not.toContain("77");
  });

  it("are searched when somebody has typed, and not at each key", async () => {
    const page = await open(at("/counters"));
    const asked = new Set<string>();
    page.on("request", (request) => asked.add(new URL(request.url()).searchParams.get("match") ?? ""));
    await tabTo(page, page.getByRole("searchbox"));
    const keys = "video1/like";
    const began = performance.now();
    await page.keyboard.type(keys, { delay: 30 });
    const stillAtMost = (performance.now() - began) / TYPING_MS; // times: keys may be slow on a busy machine
    await expect.poll(() => page.locator('[role="row"] a').allInnerTexts()).toEqual([keys]);
    expect([...asked].filter((match) => match.startsWith("*v")).length).toBeLessThanOrEqual(1 + stillAtMost);
  });

  it("of a hundred thousand scroll as smoothly as a few", async () => {
    const many = Array.from({ length: 100_000 }, (_, i) => ({ op: "add", id: `many:${i}`, delta: i }));
    for (let i = 0; i < many.length; i += 20_000) await tallyd.lines(many.slice(i, i + 20_000));
    const page = await open(at("/counters"));
    const search = async (pattern: string, count: string) => {
      await page.getByRole("searchbox").fill(pattern);
      await expect.poll(() => page.getByText(`${count} counters`).count(), { timeout: 100_000 }).toBe(1);
      return scrollThrough(page, "Counters");
    };
    const few = await search("many:99??", "100");
    const all = await search("many:*", "100,000");
    expect(all.rowsMost).toBeLessThan(80); // only what can be seen is there
    expect(all.frameMs).toBeLessThan(4 * few.frameMs + 30);
    await expect.poll(() => page.locator('[role="row"] a').last().innerText()).toBe("many:0");
  }, 300_000);

  it("of a hundred thousand have events, which come page by page", async () => {
    await expect.poll(async () => (await tallyd.call<{ pipeline: { succeeded: number } }>("GET", "/v1/status")).pipeline.succeeded, { timeout: 100_000 }).toBeGreaterThan(100_000);
    const page = await open(at("/pipeline"));
    const foot = page.getByText(/units, and more/);
    await expect.poll(() => foot.innerText()).toMatch(/^200 units/);
    const list = page.getByRole("table", { name: "Events" }).locator('[role="rowgroup"][tabindex]');
    for (const count of ["400", "600", "800", "1,000"]) {
      await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
      await expect.poll(() => foot.innerText()).toContain(`${count} units`);
    }
    expect((await scrollThrough(page, "Events")).rowsMost).toBeLessThan(80);
  }, 300_000);
});

describe("a counter", () => {
  it("shows its value, its proof and its events", async () => {
    const page = await open(counterAt("views"));
    await expect.poll(() => page.getByText("1,234,567").count()).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Recount" }).click();
    await expect.poll(() => page.getByText("The number is proved").count()).toBe(1);
    await expect.poll(() => page.getByRole("table", { name: "Newest events" }).getByText("+1,234,567").count()).toBe(1);
  });

  it("that has changed since it was proved is not shown as proved", async () => {
    await tallyd.call("POST", "/v1/counters/proved/add", { delta: 41 });
    const page = await open(counterAt("proved"));
    const proof = page.getByRole("region", { name: "Proof" });
    await page.getByRole("button", { name: "Recount" }).click();
    await expect.poll(() => proof.getByText(/^The number is proved, as of \d/).count()).toBe(1);
    await tallyd.call("POST", "/v1/counters/proved/reset", { value: 7 });
    await expect.poll(() => proof.getByText(/^The number was proved at .* The counter has changed since: recount it\.$/).count()).toBe(1);
    expect(await proof.locator(".bg-good-soft").count()).toBe(0);
    await page.getByRole("button", { name: "Recount" }).click();
    await expect.poll(() => proof.getByText(/^The number is proved, as of \d/).count()).toBe(1);
    await checkAccess(page);
  });

  it("that is not there is not shown as 0, is asked for once, and comes when it is there", async () => {
    const page = await open(counterAt("not/there"), {}, /status of 404/);
    const failures: string[] = [];
    page.on("response", (response) => response.status() === 404 && failures.push(response.url()));
    const value = page.getByRole("region", { name: "Value" });
    await expect.poll(() => value.innerText()).toMatch(/–\s[^]*There is no such/);
    await expect.poll(() => page.getByText("There are no values to draw").count()).toBe(1);
    expect(await value.locator("p").first().innerText()).toBe("–");
    await answered(page, "/livez", 2); // seconds go by
    expect(failures.length).toBeLessThanOrEqual(2);
    await tallyd.call("POST", "/v1/counters/not%2Fthere/add", { delta: 6 });
    await expect.poll(() => value.innerText()).toMatch(/6\s[^]*round-robin|6\s[^]*local/);
    await tallyd.call("DELETE", "/v1/counters/not%2Fthere");
  });

  it("is proved though that takes a while, or fails at first", async () => {
    const page = await open(counterAt("views"), {}, /status of 503/);
    const mend = await failing(page, /\/recount$/, 503, "The log is busy");
    await tabTo(page, page.getByRole("button", { name: "Recount" }));
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByRole("alert").innerText()).toContain("The log is busy");
    await mend();
    let goOn = () => {};
    const held = new Promise<void>((done) => (goOn = done));
    await page.route(/\/recount$/, async (route) => {
      await held;
      await route.continue();
    });
    await page.getByRole("button", { name: "Try again" }).click();
    await expect.poll(() => page.getByText(/Reading the log, event by event: [1-9]\d* s/).count()).toBe(1);
    goOn();
    await expect.poll(() => page.getByText("The number is proved").count()).toBe(1);
    for (const [name, value] of [["The counter says", "1,234,567"], ["Counted from its events", "1,234,567"], ["Before the log begins", "0"]])
      expect(await page.locator("dt", { hasText: name }).locator("+ dd").innerText()).toBe(value);
  });

  it("that is younger than the time one looks at has a history, and a beginning", async () => {
    await tallyd.call("POST", "/v1/counters/young/add", { delta: 9 });
    const page = await open(counterAt("young"));
    const asked: string[] = [];
    page.on("request", (request) => /\/(at|values)\b/.test(request.url()) && asked.push(request.url()));
    await page.getByLabel("History shows").selectOption("hour");
    await expect.poll(() => page.getByText("Where there is no line, it did not exist").count()).toBe(1);
    await expect.poll(() => page.getByRole("region", { name: "History" }).getByRole("listitem").innerText()).toContain("9");
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(asked.length).toBe(1);
    const moment = page.getByLabel("Its value at a moment");
    await moment.fill(await fieldTime(page, Date.now() + 60_000));
    await moment.press("Enter");
    await expect.poll(() => page.getByText(/^9 at /).count()).toBe(1);
    await moment.fill(await fieldTime(page, Date.now() - 86_400_000));
    await moment.press("Enter");
    await expect.poll(() => page.getByText(/^It did not exist at /).count()).toBe(1);
  });

  it("of many nodes says that its past is elsewhere", async () => {
    const page = await open("about:blank");
    await page.route(/\/v1\/status/, async (route) => {
      const status = (await (await route.fetch()).json()) as object;
      await route.fulfill({ json: { ...status, forms: { hot: "redis", log: "kafka", store: "postgres" } } });
    });
    await page.goto(counterAt("views"));
    await expect.poll(() => page.getByText("This server is one of many nodes", { exact: false }).count()).toBe(1);
    expect(await page.getByLabel("Its value at a moment").count()).toBe(0);
  });

  it("of a reaction shows its members, all of them, and their users", async () => {
    const page = await open(counterAt("video1/like"));
    await expect.poll(() => page.getByText("200 members, and more").count()).toBe(1);
    await page.getByRole("table", { name: "Members" }).locator('[role="rowgroup"][tabindex]').evaluate((list) => list.scrollTo(0, list.scrollHeight));
    await expect.poll(() => page.getByText("300 members").count()).toBe(1);
    await page.getByRole("table", { name: "Members" }).locator('[role="rowgroup"][tabindex]').evaluate((list) => list.scrollTo(0, 0));
    await expect.poll(() => page.getByRole("link", { name: "user7", exact: true }).count()).toBe(1);
    await page.getByRole("link", { name: "user7", exact: true }).click();
    await expect.poll(() => page.getByRole("link", { name: "video1" }).count()).toBe(1);
  });

  it("shows how it spreads over its shards", async () => {
    const page = await open(counterAt("spread"));
    await expect.poll(() => page.getByText("Spread over 8 shards", { exact: false }).count()).toBe(1);
    expect(await page.getByLabel("What each shard holds").locator("li").count()).toBe(8);
    expect(await page.locator("div", { has: page.getByText("Last change of shards") }).last().innerText()).toContain("asked for at creation");
  });

  it("is reset only when somebody is sure", async () => {
    await tallyd.call("POST", "/v1/counters/old/add", { delta: 9 });
    const page = await open(counterAt("old"));
    await page.getByRole("button", { name: "Reset to 0" }).click();
    await page.getByRole("button", { name: "Cancel" }).click();
    expect(await tallyd.call("GET", "/v1/counters/old")).toMatchObject({ value: "9" });
    await page.getByRole("button", { name: "Reset to 0" }).click();
    await page.getByRole("button", { name: "Reset", exact: true }).click();
    await expect.poll(async () => (await tallyd.call<{ value: string }>("GET", "/v1/counters/old")).value).toBe("0");
  });

  it("beyond 64 bits is shown whole", async () => {
    const page = await open(counterAt("big"));
    await expect.poll(() => page.getByText("123,456,789,012,345,678,901,234,567,890").count()).toBeGreaterThan(0);
  });
});

describe("hostile ids", () => {
  it("are text on every page", async () => {
    const page = await open("about:blank");
    const rows = (table: string) => page.getByRole("table", { name: table, exact: true }).getByRole("row").filter({ hasText: hostile });
    const places: { place: string; heading: string; search?: string; found: () => Locator; times: number }[] = [
      { place: counterAt(hostile), heading: hostile, found: () => page.getByRole("heading", { name: hostile, exact: true }), times: 1 },
      { place: counterAt(`${hostileItem}/like`), heading: `${hostileItem}/like`, found: () => rows("Members"), times: 1 },
      { place: at("/counters"), heading: "Counters", search: "Part of a name", found: () => rows("Counters"), times: 3 }, // it, and a reaction of each kind
      { place: at(`/users/${encodeURIComponent(hostile)}`), heading: "Users", found: () => rows(`Reactions of ${hostile}`), times: 1 },
      { place: at("/pipeline"), heading: "Pipeline", search: "Counter or item", found: () => rows("Events"), times: 1 },
    ];
    for (const { place, heading, search, found, times } of places) {
      await goTo(page, place, heading);
      if (search) await page.getByLabel(search).fill(hostile);
      await expect.poll(() => found().count(), { message: `rows on ${heading}` }).toBe(times);
      await settled(page);
      expect(await page.locator("img[src='x']").count()).toBe(0);
    }
  });
});

describe("users", () => {
  it("are erased only when their name was typed", async () => {
    const page = await open(at("/users"));
    await tabTo(page, page.getByLabel("User"));
    await page.keyboard.type("grumpy");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByRole("link", { name: "video1" }).count()).toBe(1);
    await page.getByRole("button", { name: "Erase this user" }).click();
    const erase = page.getByRole("button", { name: "Erase", exact: true });
    expect(await erase.isDisabled()).toBe(true);
    await page.getByLabel("Type grumpy to go on").fill("grumpy");
    await erase.click();
    await expect.poll(() => page.getByText("No reactions").count()).toBe(1);
    expect(await tallyd.call("GET", "/v1/counters/video1%2Fdislike")).toMatchObject({ value: "0" });
  });
});

describe("the overview", () => {
  it("shows what the server does, with history", async () => {
    const page = await open(at("/overview"));
    await expect.poll(() => page.getByText("answers wait for the disk", { exact: false }).count()).toBe(1);
    await expect.poll(() => page.locator("canvas").count()).toBe(9 + 4);
    for (const name of ["Writes per second", "99 % of writes within", "Free disk space", "Memory", "All is well", "Events by state", "How long a flush takes"])
      await expect.poll(() => page.getByText(name).count()).toBeGreaterThan(0);
  });

  it("shows more or less of the past, also of the time before it was opened", async () => {
    await expect.poll(async () => (await tallyd.call<{ columns: { time: number[] } }>("GET", "/v1/figures")).columns.time.length).toBeGreaterThan(3);
    const opened = Date.now();
    const page = await open(at("/overview"));
    const drawn = page.getByRole("img", { name: /^Operations per second/ });
    await expect.poll(() => drawn.getAttribute("aria-label")).toBe("Operations per second, the last 10 minutes");
    await expect.poll(() => page.getByRole("region", { name: "Operations per second" }).innerText()).toMatch(/writes\s\d/);
    const box = (await drawn.boundingBox())!;
    await page.mouse.move(box.x + 62, box.y + 40); // at the left edge of the drawing
    const told = page.getByRole("region", { name: "Operations per second" }).getByText(/^\d\d:\d\d:\d\d$/);
    const secondsOf = (clock: string) => clock.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
    const first = await told.innerText();
    const clock = await page.evaluate((time) => new Date(time).toLocaleTimeString(undefined, { hourCycle: "h23" }), opened - 1000);
    const earlier = (secondsOf(clock) - secondsOf(first) + 86_400) % 86_400; // midnight may be in between
    expect(earlier > 0 && earlier < 43_200, `${first} is before ${clock}`).toBe(true);
    await tabTo(page, page.getByLabel("Charts show"));
    await page.keyboard.press("ArrowUp");
    await expect.poll(() => drawn.getAttribute("aria-label")).toBe("Operations per second, the last minute");
  });

  it("shows a clock that is wrong nothing else", async () => {
    const page = await open("about:blank");
    await page.clock.setSystemTime(Date.now() + 3_600_000);
    await page.goto(at("/pipeline"));
    await expect.poll(() => page.getByRole("list", { name: "The way of an event" }).innerText()).toMatch(/\d reads\/s/);
  });
});

describe("motion", () => {
  it("is left out for who does not want it", async () => {
    const page = await open(at("/pipeline"), { reducedMotion: "reduce" });
    await tallyd.call("POST", "/v1/counters/moving/add", { delta: 1 });
    await expect.poll(() => page.getByRole("table", { name: "Events" }).count()).toBe(1);
    expect(await page.evaluate(() => document.getAnimations().length)).toBe(0);
    await page.goto(at("/counters"));
    await expect.poll(() => page.getByRole("table", { name: "Counters" }).count()).toBe(1);
    expect(await page.evaluate(() => document.getAnimations().length)).toBe(0);
  });
});
