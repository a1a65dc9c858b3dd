// The button on pages of another origin, as on somebody's site.

import { readFileSync, writeFileSync } from "node:fs";
import { createServer, request as ask, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { checkAccess, open, Tallyd } from "./lab";

const MANY = 10; // elements; a browser has six connections
const example = readFileSync(new URL("../../docs/examples/button.html", import.meta.url), "utf8");
let tallyd: Tallyd;
let site: Site;

/** Somebody's site. */
class Site {
  private constructor(private readonly server: Server, readonly url: string) {}

  static async start(onRequest: (request: IncomingMessage, response: ServerResponse) => void): Promise<Site> {
    const server = createServer(onRequest);
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return new Site(server, `http://127.0.0.1:${(server.address() as { port: number }).port}`);
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

function answerPage(response: ServerResponse, body: string): void {
  response.setHeader("Content-Type", "text/html; charset=utf-8");
  response.end(`<!doctype html><html lang="en"><title>Somebody's site</title><main><h1>A video</h1>${body}</main></html>`);
}

const script = () => `<script src="${tallyd.url}/tally.js"></script>`;
const element = (item: string, user: string | null, more = "") => `<tally-reactions item="${item}"${user ? ` user="${user}"` : ""} ${more}></tally-reactions>`;

const pages: Record<string, (user: string | null) => string> = {
  "/": (user) => script() + element("video/1", user),
  "/many": (user) => script() + Array.from({ length: MANY }, (_, i) => element(`many/${i}`, user)).join(""),
  "/themed": () => `${script()}<link rel="stylesheet" href="/look.css">${element("video/1", "ann")}`,
  "/globals": () => `<script>window.before = Object.getOwnPropertyNames(window)</script>${script()}`,
};

beforeAll(async () => {
  site = await Site.start((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://site");
    if (pathname === "/look.css") {
      response.setHeader("Content-Type", "text/css");
      response.end("tally-reactions { --tally-ground: rgb(1, 2, 3); --tally-radius: 5px; --tally-held: rgb(4, 5, 6) } tally-reactions::part(dislike) { color: rgb(7, 8, 9) }");
    } else if (pathname === "/example") {
      response.setHeader("Content-Type", "text/html; charset=utf-8");
      response.end(example.replace("https://tally.example", tallyd.url));
    } else answerPage(response, pages[pathname]?.(searchParams.get("user")) ?? "");
  });
  tallyd = await Tallyd.start("--cors-origins", site.url);
});
afterAll(async () => {
  site.stop();
  await tallyd.stop();
});

const at = (page: Page, item: string, kind: string) => page.locator(`tally-reactions[item="${item}"] button[aria-label^="${kind}:"]`);
const button = (page: Page, kind: string) => page.locator(`tally-reactions button[aria-label^="${kind}:"]`);
const message = (page: Page) => page.locator("tally-reactions p");
const isPressed = async (page: Page, kind: string) => (await button(page, kind).getAttribute("aria-pressed")) === "true";
const countOf = async (id: string) => (await tallyd.call<{ value?: string }>("GET", `/v1/counters/${encodeURIComponent(id)}`)).value ?? "0";
const count = (kind: string) => countOf(`video/1/${kind}`);

it("likes, switches, and remembers", async () => {
  const page = await open(`${site.url}/?user=ann`);
  await button(page, "like").click();
  await expect.poll(() => count("like")).toBe("1");
  await button(page, "dislike").click();
  await expect.poll(() => count("dislike")).toBe("1");
  expect(await count("like")).toBe("0");
  await page.reload();
  await expect.poll(() => isPressed(page, "dislike")).toBe(true);
  await button(page, "dislike").press("Enter");
  await expect.poll(() => count("dislike")).toBe("0");
});

it("is live", async () => {
  const page = await open(`${site.url}/?user=ann`);
  await expect.poll(() => button(page, "like").innerText()).toBe("0");
  await tallyd.lines(Array.from({ length: 1234 }, (_, i) => ({ op: "like", item: "video/1", user: `user${i}` })));
  await expect.poll(() => button(page, "like").innerText()).toBe("1.2K");
  expect(await button(page, "like").getAttribute("title")).toBe("1,234");
});

it("ten on one page are all live over one stream, and all can be clicked", async () => {
  const page = await open(`${site.url}/many?user=ann`);
  for (let i = 0; i < MANY; i++) await expect.poll(() => at(page, `many/${i}`, "like").innerText()).toBe("0");
  await tallyd.lines(Array.from({ length: MANY }, (_, i) => ({ op: "dislike", item: `many/${i}`, user: "zoe" })));
  for (let i = 0; i < MANY; i++) await expect.poll(() => at(page, `many/${i}`, "dislike").innerText()).toBe("1");
  for (let i = 0; i < MANY; i++) await at(page, `many/${i}`, "like").click();
  for (let i = 0; i < MANY; i++) await expect.poll(() => countOf(`many/${i}/like`)).toBe("1");
  await expect.poll(async () => (await tallyd.call<{ http: { listeners: number } }>("GET", "/v1/status")).http.listeners).toBe(1); // those before have gone
});

it("takes hostile names for text", async () => {
  const hostile = `<img src=x onerror=alert(1)>"'/..%2f`;
  const page = await open(site.url);
  await page.locator("tally-reactions").evaluate((one, name) => {
    one.setAttribute("item", name);
    one.setAttribute("user", name);
    one.setAttribute("kinds", "like <img/src=x>");
  }, hostile);
  await expect.poll(() => button(page, "<img/src=x>").innerText()).toContain("<img/src=x>");
  await button(page, "like").click();
  await expect.poll(() => countOf(`${hostile}/like`)).toBe("1");
  await expect.poll(() => button(page, "like").innerText()).toBe("1");
  expect(await page.locator("img").count()).toBe(0);
});

it("shows where the focus is in the dark as well", async () => {
  const page = await open(`${site.url}/?user=ann`, { colorScheme: "dark" });
  await page.keyboard.press("Tab");
  await expect.poll(() => button(page, "like").evaluate((one) => getComputedStyle(one).outlineColor)).toBe("rgb(124, 118, 242)"); // 4:1 or more
});

it("keeps working when live updates are blocked", async () => {
  const page = await open("about:blank", {}, /ERR_|Failed to load/);
  await page.route("**/v1/changes**", (route) => route.abort());
  await page.goto(`${site.url}/?user=ben`);
  await expect.poll(() => button(page, "like").innerText()).toBe("1.2K");
  await tallyd.lines([{ op: "dislike", item: "video/1", user: "zoe" }]);
  await expect.poll(() => button(page, "dislike").innerText()).toBe("1");
  await button(page, "like").click();
  await expect.poll(() => count("like")).toBe("1235");
});

it("takes back what is refused, and says so", async () => {
  const page = await open(`${site.url}/?user=cho`, {}, /status of 422/);
  await page.route(/\/v1\/items\//, (route) => (route.request().method() === "OPTIONS" ? route.continue() : route.fulfill({
    status: 422, contentType: "application/problem+json", headers: { "Access-Control-Allow-Origin": "*" }, body: JSON.stringify({ title: "Refused today" }) })));
  await button(page, "like").click();
  await expect.poll(() => message(page).innerText()).toBe("Refused today");
  expect(await isPressed(page, "like")).toBe(false);
});

it("without a user only shows counts, and is accessible", async () => {
  const page = await open(site.url);
  await expect.poll(() => button(page, "like").innerText()).not.toBe("");
  const before = await count("like");
  const written: string[] = [];
  page.on("request", (request) => request.method() !== "GET" && written.push(`${request.method()} ${request.url()}`));
  await button(page, "like").click({ force: true }); // it says that it is disabled
  await tallyd.lines([{ op: "dislike", item: "video/1", user: "yan" }]); // when this is seen, the click was dealt with
  await expect.poll(async () => button(page, "dislike").innerText()).toBe(await count("dislike"));
  expect(written).toEqual([]);
  expect(await count("like")).toBe(before);
  await checkAccess(page);
});

it("may become the button of another item while a write is under way, and nothing is lost", async () => {
  const page = await open(`${site.url}/?user=dana`);
  let goOn = () => {};
  const held = new Promise<void>((done) => (goOn = done));
  await page.route(/\/v1\/items\/video%2F1\//, async (route) => {
    await held;
    await route.continue();
  });
  const likes = Number(await count("like"));
  await button(page, "like").click();
  await page.locator("tally-reactions").evaluate((one) => one.setAttribute("item", "video/2"));
  await expect.poll(() => button(page, "like").innerText()).toBe("0");
  expect(await isPressed(page, "like")).toBe(false);
  await tallyd.lines([{ op: "dislike", item: "video/2", user: "zoe" }]);
  await expect.poll(() => button(page, "dislike").innerText()).toBe("1");
  await button(page, "like").click();
  await expect.poll(() => countOf("video/2/like")).toBe("1");
  goOn();
  await expect.poll(() => count("like")).toBe(String(likes + 1));
  expect([await isPressed(page, "like"), await button(page, "like").innerText()]).toEqual([true, "1"]);
});

it("finds out what the user holds when the first answer was lost", async () => {
  await tallyd.lines([{ op: "like", item: "video/1", user: "emil" }]);
  const page = await open("about:blank", {}, /ERR_|Failed to load/);
  let isLost = true;
  await page.route("**/v1/reactions/mine", (route) => (isLost ? route.abort() : route.continue()));
  await page.goto(`${site.url}/?user=emil`);
  await expect.poll(() => button(page, "like").innerText()).not.toBe("");
  expect(await isPressed(page, "like")).toBe(false);
  isLost = false;
  await expect.poll(async () => {
    await tallyd.lines([{ op: "toggle", item: "video/1", user: "somebody" }]); // something moves, as it does
    return isPressed(page, "like");
  }, { interval: 500 }).toBe(true);
});

it("looks as the site's variables and parts say", async () => {
  const page = await open(`${site.url}/themed`);
  const look = (kind: string, of: string) => button(page, kind).evaluate((one, name) => getComputedStyle(one).getPropertyValue(name), of);
  await expect.poll(() => look("like", "background-color")).toBe("rgb(1, 2, 3)");
  expect([await look("like", "border-radius"), await look("dislike", "color")]).toEqual(["5px", "rgb(7, 8, 9)"]);
  await button(page, "like").click();
  await page.mouse.move(0, 0);
  await expect.poll(() => look("like", "background-color")).toBe("rgb(4, 5, 6)");
  await button(page, "like").click();
});

it("leaves no names behind on the site", async () => {
  const page = await open(`${site.url}/globals`);
  const left = await page.evaluate(() => {
    const before = new Set((window as unknown as { before: string[] }).before);
    return Object.getOwnPropertyNames(window).filter((name) => !before.has(name) && name !== "before");
  });
  expect(left).toEqual([]);
});

it("on a site that is not let in shows nothing, changes nothing, and says so", async () => {
  const stranger = await Site.start((_request, response) => answerPage(response, script() + element("video/1", "eve")));
  try {
    const before = await count("like");
    const page = await open(stranger.url, {}, /CORS|ERR_FAILED|Failed to load|status of 403/);
    await button(page, "like").click();
    await expect.poll(() => message(page).innerText()).toBe("The server cannot be reached");
    expect([await isPressed(page, "like"), await count("like")]).toEqual([false, before]);
  } finally {
    stranger.stop();
  }
});

it("works with a password when the site's own server stands between", async () => {
  const secret = join(tallyd.folder, "password");
  writeFileSync(secret, "sesame\n", { mode: 0o600 });
  const locked = await Tallyd.start("--password-file", secret);
  const between = await Site.start((request, response) => {
    if (!request.url!.startsWith("/tally/")) {
      answerPage(response, script() + element("video/1", "ann", 'server="/tally/"'));
      return;
    }
    const { origin: _, ...headers } = request.headers;
    const onward = ask(locked.url + request.url!.slice("/tally".length), {
      method: request.method, headers: { ...headers, host: `127.0.0.1:${locked.port}`, authorization: "Bearer sesame" },
    }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    response.on("close", () => onward.destroy());
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  try {
    const page = await open(between.url);
    await expect.poll(() => button(page, "like").innerText()).toBe("0");
    const written = page.waitForResponse((answer) => answer.request().method() === "PUT");
    await button(page, "like").click();
    await written;
    await page.reload();
    await expect.poll(async () => [await isPressed(page, "like"), await button(page, "like").innerText()]).toEqual([true, "1"]);
    await page.goto("about:blank"); // before the server between goes away
  } finally {
    between.stop();
    await locked.stop();
  }
});

it("does on the example page of the documents what they say", async () => {
  const manual = readFileSync(new URL("../../docs/button.md", import.meta.url), "utf8");
  expect(manual).toContain(example.trimEnd());
  const page = await open(`${site.url}/example`);
  await expect.poll(() => at(page, "article/dog", "like").innerText()).toBe("0");
  await at(page, "article/cat", "like").click();
  await expect.poll(() => page.locator("#said").innerText()).toBe("You gave article/cat a like.");
  await at(page, "article/cat", "like").click();
  await expect.poll(() => page.locator("#said").innerText()).toBe("You took it back from article/cat.");
  await checkAccess(page);
});
