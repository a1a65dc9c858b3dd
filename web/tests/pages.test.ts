import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkAccess, checkFits, open, phone, Tallyd } from "./lab";

const hostile = `<img src=x onerror=alert(1)>"'/..%2f`;
let tallyd: Tallyd;

beforeAll(async () => {
  tallyd = await Tallyd.start("--flush-interval", "100ms");
  await tallyd.lines([
    ...Array.from({ length: 300 }, (_, i) => ({ op: "like", item: "video1", user: `user${i}` })),
    { op: "dislike", item: "video1", user: "grumpy" },
    { op: "add", id: "views", delta: "1234567" },
    { op: "add", id: "big", delta: "123456789012345678901234567890" },
    { op: "add", id: hostile, delta: 5 },
    { op: "like", item: hostile, user: hostile },
  ]);
  await tallyd.call("PUT", "/v1/counters/spread", { shards: 8, policy: "round-robin" });
  await tallyd.lines(Array.from({ length: 800 }, () => ({ op: "add", id: "spread", delta: 1 })));
});
afterAll(() => tallyd.stop());

const at = (place: string) => `${tallyd.url}/#${place}`;
const counterAt = (id: string) => at(`/counters/${encodeURIComponent(id)}`);

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
    await page.getByRole("button", { name: "Recount these" }).click();
    await expect.poll(() => page.getByText("counted anew", { exact: false }).innerText(), { timeout: 15_000 }).toContain("0 differ");
  });

  it("of a hundred thousand scroll smoothly", async () => {
    const many = Array.from({ length: 100_000 }, (_, i) => ({ op: "add", id: `many:${i}`, delta: i }));
    for (let i = 0; i < many.length; i += 20_000) await tallyd.lines(many.slice(i, i + 20_000));
    const page = await open(at("/counters"));
    await page.getByRole("searchbox").fill("many:*");
    await expect.poll(() => page.getByText("100,000 counters").count(), { timeout: 40_000 }).toBe(1);
    expect(await page.locator('[role="row"]').count()).toBeLessThan(80); // only what can be seen is there
    const slowest = await page.evaluate(async () => {
      const list = document.querySelector<HTMLElement>('[role="rowgroup"][tabindex]')!;
      let longest = 0;
      let before = performance.now();
      for (let i = 1; i <= 30; i++) {
        list.scrollTop = (list.scrollHeight / 30) * i;
        await new Promise((done) => requestAnimationFrame(done));
        longest = Math.max(longest, performance.now() - before);
        before = performance.now();
      }
      return longest;
    });
    console.log(`the slowest of 30 frames took ${slowest.toFixed(0)} ms`);
    await expect.poll(() => page.locator('[role="row"] a').last().innerText()).toBe("many:0");
  });
});

describe("a counter", () => {
  it("shows its value, its proof and its events", async () => {
    const page = await open(counterAt("views"));
    await expect.poll(() => page.getByText("1,234,567").count()).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Recount" }).click();
    await expect.poll(() => page.getByText("The number is proved").count()).toBe(1);
    await expect.poll(() => page.getByRole("table", { name: "Newest events" }).getByText("+1,234,567").count()).toBe(1);
  });

  it("of a reaction shows its members, and their users", async () => {
    const page = await open(counterAt("video1/like"));
    await expect.poll(() => page.getByRole("link", { name: "user7", exact: true }).count()).toBe(1);
    await page.getByRole("link", { name: "user7", exact: true }).click();
    await expect.poll(() => page.getByRole("link", { name: "video1" }).count()).toBe(1);
  });

  it("shows how it spreads over its shards", async () => {
    const page = await open(counterAt("spread"));
    await expect.poll(() => page.getByText("Spread over 8 shards", { exact: false }).count()).toBe(1);
    expect(await page.getByLabel("What each shard holds").locator("li").count()).toBe(8);
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
    const page = await open(counterAt(hostile));
    await expect.poll(() => page.getByRole("heading", { level: 1 }).innerText()).toBe(hostile);
    for (const place of [at("/counters"), at(`/users/${encodeURIComponent(hostile)}`), at("/pipeline")]) {
      await page.goto(place);
      await expect.poll(() => page.getByText(hostile).count()).toBeGreaterThan(0);
      expect(await page.locator("img[src='x']").count()).toBe(0);
    }
  });
});

describe("the pipeline", () => {
  it("shows what became of each change, by state and counter", async () => {
    const page = await open(at("/pipeline"));
    await expect.poll(() => page.getByText("SUCCESS").count(), { timeout: 10_000 }).toBeGreaterThan(0);
    await page.getByLabel("Counter or item").fill("views");
    await expect.poll(() => page.getByRole("table", { name: "Events" }).locator('[role="row"]').count()).toBeGreaterThan(1);
    await page.getByRole("group", { name: "State" }).getByRole("button", { name: "FAILED" }).click();
    await expect.poll(() => page.getByText("No such events").count()).toBe(1);
    await page.getByRole("link", { name: "Dead letters" }).click();
    await expect.poll(() => page.getByText("No dead letters").count()).toBe(1);
  });
});

describe("users", () => {
  it("are erased only when their name was typed", async () => {
    const page = await open(at("/users"));
    await page.getByLabel("User").fill("grumpy");
    await page.getByRole("button", { name: "Show" }).click();
    await expect.poll(() => page.getByRole("link", { name: "video1" }).count()).toBe(1);
    await page.getByRole("button", { name: "Erase this user" }).click();
    const erase = page.getByRole("button", { name: "Erase", exact: true });
    expect(await erase.isDisabled()).toBe(true);
    await page.getByLabel("Type grumpy to go on").fill("grumpy");
    await erase.click();
    await expect.poll(() => page.getByText("No reactions").count(), { timeout: 15_000 }).toBe(1);
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
});

const pages = ["/overview", "/counters", "/pipeline", "/users", "/users/user1"];

describe.each([["light", {}], ["dark", { colorScheme: "dark" as const }], ["phone", phone]])("%s", (_name, options) => {
  it.each([...pages, "/counters/video1%2Flike"])("%s is accessible and fits", async (place) => {
    const page = await open(at(place), options);
    await expect.poll(() => page.getByRole("heading", { level: 1 }).count()).toBe(1);
    await page.waitForTimeout(700);
    await checkAccess(page);
    await checkFits(page);
  });
});
