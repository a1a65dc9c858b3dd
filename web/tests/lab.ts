// What the tests in a browser need: a tallyd of their own, the system's Chromium, and a check that all is well.

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Locator, type Page } from "playwright-core";
import { afterAll, afterEach, expect } from "vitest";

const program = process.env.TALLYD ?? join(dirname(fileURLToPath(import.meta.url)), "../../build/tallyd");
const browserPath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const browserFlags = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

// ---- tallyd ----

const PORTS_FROM = 15_000; // below the ports that the system gives to outgoing connections: one that is free stays free
const PORTS = 15_000;
const READY_MS = 60_000; // the machine may be busy

function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const server = createServer().on("error", () => done(false)).listen(port, "127.0.0.1", () => server.close(() => done(true)));
  });
}

async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = PORTS_FROM + Math.floor(Math.random() * PORTS);
    if (await isFree(port)) return port;
  }
  throw new Error("no port is free");
}

export class Tallyd {
  private process: ChildProcess | undefined;
  private said = "";
  readonly folder = mkdtempSync(join(tmpdir(), "tally-page-"));

  private constructor(readonly port: number, readonly resp: number, readonly flags: string[]) {}

  static async start(...flags: string[]): Promise<Tallyd> {
    if (!existsSync(program)) throw new Error(`there is no ${program}: run make build first`);
    const tallyd = new Tallyd(await freePort(), await freePort(), flags);
    await tallyd.run();
    return tallyd;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async run(): Promise<void> {
    this.process = spawn(program, ["--data", join(this.folder, "data"), "--http", `127.0.0.1:${this.port}`,
      "--resp", `127.0.0.1:${this.resp}`, ...this.flags], { stdio: ["ignore", "ignore", "pipe"] });
    this.process.stderr!.on("data", (text: Buffer) => (this.said += text.toString()));
    for (const began = Date.now(); Date.now() - began < READY_MS;) {
      if (await fetch(`${this.url}/readyz`).then((answer) => answer.ok, () => false)) return;
      if (this.process.exitCode !== null) break;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`tallyd does not start:\n${this.said}`);
  }

  /** As if the power had gone. */
  async kill(): Promise<void> {
    const ended = new Promise((done) => this.process!.once("exit", done));
    this.process!.kill("SIGKILL");
    await ended;
  }

  /** As if it hung: it takes connections, and answers nothing until it goes on. On a busy machine its threads run on for a moment after
   * the signal: returns when all are stopped. */
  async hang(): Promise<void> {
    this.process!.kill("SIGSTOP");
    const tasks = `/proc/${this.process!.pid}/task`;
    const states = () => readdirSync(tasks).map((task) => readFileSync(`${tasks}/${task}/stat`, "utf8").replace(/^.*\) /s, "")[0]);
    await expect.poll(states).toSatisfy((all: string[]) => all.every((state) => state === "T"));
  }

  goOn(): void {
    this.process!.kill("SIGCONT");
  }

  async stop(): Promise<void> {
    if (this.process?.exitCode === null && this.process.signalCode === null) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async call<T = Record<string, unknown>>(method: string, path: string, json?: unknown): Promise<T> {
    const answer = await fetch(this.url + path, {
      method,
      headers: json === undefined ? {} : { "Content-Type": "application/json" },
      body: json === undefined ? undefined : JSON.stringify(json),
    });
    return (await answer.json()) as T;
  }

  /** Behind the server's back: what makes its store refuse something, for example. */
  sql(statement: string): string {
    return execFileSync("sqlite3", ["-cmd", ".timeout 10000", join(this.folder, "data/tally.db"), statement], { encoding: "utf8" });
  }

  async lines(lines: unknown[]): Promise<void> {
    const answer = await fetch(`${this.url}/v1/batch`, {
      method: "POST",
      headers: { "Content-Type": "application/x-ndjson" },
      body: lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
    });
    expect(answer.status).toBe(200);
    const refused = (await answer.text()).split("\n").filter((line) => line && !/"status":20[01]\b/.test(line));
    expect(refused, "lines that were refused").toEqual([]);
  }
}

// ---- the browser ----

let browser: Browser | undefined;
const opened: { page: Page; complaints: string[] }[] = [];

/** What a page has asked its server: of each path how many questions have ended, with an answer or without. */
class Traffic {
  private readonly paths = new Map<string, { ended: number }>();

  constructor(page: Page) {
    page.on("request", (request) => this.count(request.url(), 0));
    page.on("requestfinished", (request) => this.count(request.url(), 1));
    page.on("requestfailed", (request) => this.count(request.url(), 1));
  }

  /** What is not answered yet; or that nothing was asked and answered twice since `before`. */
  missing(before: Map<string, number>): string {
    const paths = [...this.paths];
    const never = paths.filter(([, { ended }]) => ended === 0).map(([path]) => path);
    if (never.length > 0) return `no answer: ${never.join(" ")}`;
    return paths.some(([path, { ended }]) => ended > (before.get(path) ?? 0) + 1) ? "" : "nothing was asked twice";
  }

  now(): Map<string, number> {
    return new Map([...this.paths].map(([path, { ended }]) => [path, ended]));
  }

  ended(path: string): number {
    return this.paths.get(path)?.ended ?? 0;
  }

  private count(url: string, ended: number): void {
    const { pathname } = new URL(url);
    if (pathname === "/v1/changes") return; // never ends
    this.paths.set(pathname, { ended: this.ended(pathname) + ended });
  }
}

const traffic = new WeakMap<Page, Traffic>();

/** Until the page is as it stays: the place is that of its heading, all that it asks for has come, and one of the questions that it
 * repeats was answered twice more. No time is waited for: a busy machine takes longer. */
export async function settled(page: Page): Promise<void> {
  const seen = traffic.get(page)!;
  const before = seen.now();
  await expect.poll(() => seen.missing(before), { timeout: 40_000 }).toBe("");
  await framed(page);
}

/** Until the page has asked for `path` and been answered `times` more. */
export async function answered(page: Page, path: string, times: number): Promise<void> {
  const seen = traffic.get(page)!;
  const before = seen.ended(path);
  await expect.poll(() => seen.ended(path), { timeout: 40_000 }).toBeGreaterThanOrEqual(before + times);
  await framed(page);
}

/** What has come is drawn. */
function framed(page: Page): Promise<void> {
  return page.evaluate(async () => {
    for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(done));
  });
}

/** Goes to another place of the same page, of which the browser says nothing: only the heading shows that it is there. */
export async function goTo(page: Page, url: string, heading: string): Promise<void> {
  await page.goto(url);
  await expect.poll(() => page.getByRole("heading", { level: 1 }).allInnerTexts()).toEqual([heading]);
}

afterEach(async () => {
  const complaints = opened.flatMap((one) => one.complaints);
  for (const { page } of opened.splice(0)) await page.context().close();
  expect(complaints, "what the browser complained about").toEqual([]);
});

afterAll(async () => {
  await browser?.close();
  browser = undefined;
});

/** A page of its own, in a context of its own: another browser, as far as the server knows. `expects`: complaints that are no fault. */
export async function open(url: string, options: BrowserContextOptions = {}, expects: RegExp = /^$/): Promise<Page> {
  browser ??= await chromium.launch({ executablePath: browserPath, args: browserFlags });
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !expects.test(message.text())) complaints.push(`${message.text()} ${message.location().url}`);
  });
  page.on("request", (request) => {
    if (new URL(request.url()).hostname !== "127.0.0.1") complaints.push(`asks ${request.url()}`);
  });
  opened.push({ page, complaints });
  traffic.set(page, new Traffic(page));
  await page.addInitScript(watchShifts);
  await page.goto(url);
  return page;
}

/** The server refuses what matches, until it is told to go on. */
export async function failing(page: Page, url: RegExp, status: number, title = "Not today"): Promise<() => Promise<void>> {
  await page.route(url, (route) => route.fulfill({ status, contentType: "application/problem+json", body: JSON.stringify({ title }) }));
  return () => page.unroute(url);
}

/** As in a browser that may not remember anything: for what is opened from now on. */
export async function blockStorage(page: Page): Promise<void> {
  await page.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"])
      Object.defineProperty(window, name, { get: () => { throw new DOMException("blocked", "SecurityError"); } });
  });
}

export const wide: BrowserContextOptions = { viewport: { width: 2560, height: 1300 } };
export const phone: BrowserContextOptions = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

interface Shifting {
  shifts: { value: number; what: string }[];
  noteShifts: () => void; // those that the browser has not told yet
}

/** In the page, from its beginning: notes what moves though nobody has done anything. */
function watchShifts(): void {
  type Shift = PerformanceEntry & { value: number; hadRecentInput: boolean; sources: { node: Node | null }[] };
  const shifts: Shifting["shifts"] = ((window as unknown as Shifting).shifts = []);
  const note = (entries: PerformanceEntryList) => {
    for (const entry of entries as Shift[]) {
      if (entry.hadRecentInput) continue;
      const what = entry.sources.map(({ node }) => (node instanceof Element ? node.outerHTML : node?.textContent ?? "").slice(0, 120)).join(" | ");
      shifts.push({ value: entry.value, what });
    }
  };
  const observer = new PerformanceObserver((list) => note(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  (window as unknown as Shifting).noteShifts = () => note(observer.takeRecords());
}

/** What has moved so far is forgotten: of interest is what comes now. */
export async function forgetShifts(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { shifts, noteShifts } = window as unknown as Shifting;
    noteShifts();
    shifts.length = 0;
  });
}

/** Nothing has jumped: their sum is far below the 0.1 that is called good. */
export async function checkStill(page: Page): Promise<void> {
  await framed(page);
  const shifts = await page.evaluate(() => {
    const { shifts, noteShifts } = window as unknown as Shifting;
    noteShifts();
    return shifts;
  });
  const sum = shifts.reduce((before, shift) => before + shift.value, 0);
  expect(sum, `what has moved: ${JSON.stringify(shifts.filter((shift) => shift.value > 0.001))}`).toBeLessThan(0.02);
}

/** The time of the processor, in ms, that the page's own thread takes for something. */
export async function cpuOf(page: Page, work: () => Promise<void>): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")!.value * 1000;
  const before = await spent();
  await work();
  const after = await spent();
  await session.detach();
  return after - before;
}

/** With the keyboard alone. */
export async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    if (await target.evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error("the keyboard does not reach it");
}

/** What a field of date and time takes: the time of day where the browser is, without seconds if there are none. */
export function fieldTime(page: Page, time: number): Promise<string> {
  return page.evaluate((ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19).replace(/:00$/, ""), time);
}

/** WCAG 2.1 A and AA, by axe. */
export async function checkAccess(page: Page): Promise<void> {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const axe = (window as unknown as { axe: { run: (what: Document, how: unknown) => Promise<{ violations: unknown[] }> } }).axe;
    const result = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] });
    return (result.violations as { id: string; nodes: { html: string }[] }[]).map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
  });
  expect(found).toEqual([]);
}

/** Nothing sticks out to the side. A phone makes the page smaller until it fits: it is held against the screen. */
export async function checkFits(page: Page): Promise<void> {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(wide).toBeLessThanOrEqual(page.viewportSize()!.width);
}

export function reaction(page: Page, item: string, kind: string) {
  return page.locator(`[data-item="${item}"] [data-kind="${kind}"]`);
}

/** As many likes as are chosen, after the page has asked. */
export async function goViral(page: Page, item: string): Promise<void> {
  await expect.poll(() => reaction(page, item, "like").isEnabled()).toBe(true);
  await page.locator(`[data-item="${item}"]`).getByRole("button", { name: "Go viral" }).click();
  await page.getByRole("dialog").getByRole("button", { name: /^Send [\d,]+ likes$/ }).click();
}
