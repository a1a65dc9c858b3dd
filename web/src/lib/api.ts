// The HTTP API, as docs/http.md describes it. Everything that the page and the button do goes through here.
//
// Every question has a limit in time: a server that hangs is one that does not answer.

import { recall, remember } from "./kept";

const PASSWORD = "password";
const NO_ANSWER = 0;
const OUR_FAULT = -1;

const ANSWER_MS = 30_000;
const SOON_MS = 6000; // somebody waits for it, and it is sent again
export const LONG_MS = 600_000; // for what reads a whole log

/** What the server answers when something is wrong (RFC 9457), or what kept us from asking. */
export class Problem extends Error {
  constructor(
    readonly status: number, // or NO_ANSWER, OUR_FAULT
    readonly type: string,
    title: string,
    readonly detail: string,
    readonly advice: string,
  ) {
    super(title);
  }

  /** Nobody knows whether it was done, or it may work later: send it again with the same key. */
  get mayTryAgain(): boolean {
    return this.isUnknown || this.status === 429;
  }

  /** Nobody knows whether it was done. */
  get isUnknown(): boolean {
    return this.status === NO_ANSWER || this.status === 503;
  }

  get text(): string {
    return [this.message, this.detail, this.advice].filter(Boolean).join(". ").replaceAll(".. ", ". ");
  }
}

/** What is no answer of the server, nor the want of one, is a mistake in here, and must not pass for an outage. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem(OUR_FAULT, "", "Something is wrong with this page", String(error), "Load it again");
}

function noAnswer(error: unknown): Problem {
  const isLate = error instanceof DOMException && error.name === "TimeoutError";
  return new Problem(NO_ANSWER, "", isLate ? "The server does not answer" : "The server cannot be reached", "", "");
}

/** As somebody tells it who asks again by himself. */
export function asPassing(error: unknown): Problem {
  const problem = asProblem(error);
  if (problem.status !== NO_ANSWER) return problem;
  return new Problem(NO_ANSWER, problem.type, problem.message, problem.detail, "The page tries again by itself");
}

// ---- the password, of the server that the page is from ----

let typed: string | null = null; // since the page was loaded: the browser may not remember anything

function passwordNow(): string | null {
  return typed ?? recall(PASSWORD, "session");
}

export function hasPassword(): boolean {
  return passwordNow() !== null;
}

/** Whether it is still known when the page is loaded again. */
export function setPassword(password: string): boolean {
  typed = password;
  return remember(PASSWORD, password, "session");
}

function authorization(): Record<string, string> {
  const password = passwordNow();
  return password ? { Authorization: `Bearer ${password}` } : {};
}

// ---- asking ----

interface Asked {
  method?: string;
  json?: unknown;
  lines?: string;
  key?: string;
  signal?: AbortSignal;
  timeoutMs?: number;
}

/** A key of its own for each thing that somebody does: however often it is sent, it counts once. */
export function newKey(): string {
  const random = crypto.getRandomValues(new Uint32Array(4));
  return `page-${[...random].map((word) => word.toString(36)).join("")}`;
}

/** The path of something: ids may hold slashes, blanks, anything. But "." and ".." are steps to every browser, however they
 * are written: it would ask for something else. */
export function path(...parts: string[]): string {
  return parts.map((part, i) => {
    if (i % 2 === 0) return part;
    if (part === "." || part === "..")
      throw new Problem(400, "", `A browser cannot ask for what is called “${part}”`, "It takes the name for a step in the path", "Use the tally command");
    return encodeURIComponent(part);
  }).join("");
}

export function query(fields: Record<string, string | number | boolean | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  const text = search.toString();
  return text ? `?${text}` : "";
}

// ---- what is answered ----

export type Counts = Record<string, string>;

export interface Reacted {
  item: string;
  user: string;
  reaction: string | null;
  changed: boolean;
  repeated: boolean;
  counts: Counts;
  ack: string;
  as_of: string;
}

/** Of when an answer is. */
export interface Age {
  as_of: string;
  stale?: boolean; // it is the store's, which may be behind
  shards_missing?: number;
}

/** It is not of now: a part of what holds it does not answer. */
export function isOld(age: Partial<Age>): boolean {
  return age.stale === true || (age.shards_missing ?? 0) > 0;
}

export interface Page extends Age {
  cursor: string | null;
}

// ---- a server ----

interface Counted extends Partial<Age> {
  id: string;
  value: string | null; // null: it is not there, or nobody knows
  problem?: string;
}

/** Nobody can say whether it is there. */
function isUnknown({ value, problem, ...age }: Counted): boolean {
  return value === null && (problem !== undefined || isOld(age));
}

const QUERY_MAX = 6000; // of the 8 KiB that a request's head may have
const IDS_MAX = 1000; // of one call

/** Ids for the query of one request each. */
export function idsInQueries(ids: Iterable<string>): string[] {
  const queries: string[] = [];
  let text = "";
  let count = 0;
  for (const id of ids) {
    const next = encodeURIComponent(id);
    if (count > 0 && (count === IDS_MAX || text.length + next.length >= QUERY_MAX)) {
      queries.push(text);
      text = "";
      count = 0;
    }
    text += count++ ? `,${next}` : next;
  }
  return count ? [...queries, text] : queries;
}

/** What is asked of the server at `url`; "" is the one that the page is from. */
export class Server {
  constructor(readonly url = "") {}

  /** As it comes, if it is well. */
  ask = async (where: string, asked: Asked = {}): Promise<Response> => {
    const headers = this.headers();
    if (asked.json !== undefined) headers["Content-Type"] = "application/json";
    if (asked.lines !== undefined) headers["Content-Type"] = "application/x-ndjson";
    if (asked.key) headers["Idempotency-Key"] = asked.key;
    const limit = AbortSignal.timeout(asked.timeoutMs ?? ANSWER_MS);
    const response = await this.answered(asked, () => fetch(this.url + where, {
      method: asked.method ?? (asked.json !== undefined || asked.lines !== undefined ? "POST" : "GET"),
      headers,
      body: asked.lines ?? (asked.json !== undefined ? JSON.stringify(asked.json) : undefined),
      signal: asked.signal ? AbortSignal.any([asked.signal, limit]) : limit,
      cache: "no-store",
    }));
    if (response.ok) return response;
    if (response.status === 401 && this.isOurs) window.dispatchEvent(new Event("tally:unauthorized"));
    const said = (await response.json().catch(() => ({}))) as Record<string, string>;
    throw new Problem(response.status, said.type ?? "", said.title ?? `The server answered ${response.status}`,
      said.detail ?? "", said.advice ?? "");
  };

  text = async (where: string, asked: Asked = {}): Promise<string> => {
    const response = await this.ask(where, asked);
    return this.answered(asked, () => response.text());
  };

  call = async <T>(where: string, asked: Asked = {}): Promise<T> => {
    const text = await this.text(where, asked);
    try {
      return JSON.parse(text) as T;
    } catch {
      throw new Problem(502, "", "The answer is not the server’s", "Something between here and there has answered instead", "");
    }
  };

  /** A stream of server-sent events, until the signal is given. Its beginning has a limit in time that the caller sets. */
  listen(search: string, signal: AbortSignal): Promise<Response> {
    return fetch(`${this.url}/v1/changes?${search}`, {
      headers: { ...this.headers(), Accept: "text/event-stream" }, signal, cache: "no-store",
    });
  }

  react = (item: string, user: string, kind: string | null, key: string): Promise<Reacted> =>
    this.call<Reacted>(path("/v1/items/", item, "/reactions/", user),
      { key, timeoutMs: SOON_MS, ...(kind === null ? { method: "DELETE" } : { method: "PUT", json: { kind } }) });

  /** Of many counters at once, but for those of which nothing is known now. */
  values = async (ids: string[]): Promise<Counted[]> => {
    const all: Counted[] = [];
    for (const some of idsInQueries(ids)) all.push(...(await this.call<{ counters: Counted[] }>(`/v1/counters?ids=${some}`)).counters);
    return all.filter((counted) => !isUnknown(counted));
  };

  mine = (user: string, items: string[]) =>
    this.call<{ reactions: { item: string; reaction: string | null }[] }>("/v1/reactions/mine", { json: { user, items }, timeoutMs: SOON_MS });

  private get isOurs(): boolean {
    return this.url === "";
  }

  /** No other server is told the password. */
  private headers(): Record<string, string> {
    return this.isOurs ? authorization() : {};
  }

  private async answered<T>(asked: Asked, get: () => Promise<T>): Promise<T> {
    try {
      return await get();
    } catch (error) {
      if (asked.signal?.aborted) throw error;
      throw noAnswer(error);
    }
  }
}

/** The server that the page is from. */
export const api = new Server();
export const { ask, call } = api;
