// The HTTP API, as docs/http.md describes it. Everything that the page does goes through here.

const PASSWORD = "tally.password";

/** What the server answers when something is wrong (RFC 9457), or what kept us from asking. */
export class Problem extends Error {
  constructor(
    readonly status: number, // 0 = no answer
    readonly type: string,
    title: string,
    readonly detail: string,
    readonly advice: string,
  ) {
    super(title);
  }

  /** Nobody knows whether it was done, or it may work later: send it again with the same key. */
  get mayTryAgain(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }

  get text(): string {
    return [this.message, this.detail, this.advice].filter(Boolean).join(". ").replace(/\.\./g, ".");
  }
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, "", "The server cannot be reached", "", "");
}

// ---- asking ----

export function hasPassword(): boolean {
  return sessionStorage.getItem(PASSWORD) !== null;
}

export function setPassword(password: string): void {
  sessionStorage.setItem(PASSWORD, password);
  window.dispatchEvent(new Event("tally:password"));
}

export function authorization(): Record<string, string> {
  const password = sessionStorage.getItem(PASSWORD);
  return password ? { Authorization: `Bearer ${password}` } : {};
}

export interface Asked {
  method?: string;
  json?: unknown;
  lines?: string;
  key?: string;
  signal?: AbortSignal;
}

/** As it comes, if it is well. */
export async function ask(path: string, asked: Asked = {}): Promise<Response> {
  const headers: Record<string, string> = authorization();
  if (asked.json !== undefined) headers["Content-Type"] = "application/json";
  if (asked.lines !== undefined) headers["Content-Type"] = "application/x-ndjson";
  if (asked.key) headers["Idempotency-Key"] = asked.key;
  let response: Response;
  try {
    response = await fetch(path, {
      method: asked.method ?? (asked.json !== undefined || asked.lines !== undefined ? "POST" : "GET"),
      headers,
      body: asked.lines ?? (asked.json !== undefined ? JSON.stringify(asked.json) : undefined),
      signal: asked.signal,
      cache: "no-store",
    });
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    throw new Problem(0, "", "The server cannot be reached", "", "The page tries again by itself");
  }
  if (response.ok) return response;
  if (response.status === 401) window.dispatchEvent(new Event("tally:unauthorized"));
  const said = (await response.json().catch(() => ({}))) as Record<string, string>;
  throw new Problem(response.status, said.type ?? "", said.title ?? `The server answered ${response.status}`,
    said.detail ?? "", said.advice ?? "");
}

export async function call<T>(path: string, asked?: Asked): Promise<T> {
  return (await (await ask(path, asked)).json()) as T;
}

/** A key of its own for each thing that somebody does: however often it is sent, it counts once. */
export function newKey(): string {
  const random = crypto.getRandomValues(new Uint32Array(4));
  return `page-${[...random].map((word) => word.toString(36)).join("")}`;
}

/** The path of something: ids may hold slashes, blanks, anything. */
export function path(...parts: string[]): string {
  return parts.map((part, i) => (i % 2 === 0 ? part : encodeURIComponent(part))).join("");
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

export interface Page {
  cursor: string | null;
  as_of: string;
}

export interface Change {
  id: string;
  value: string | null;
  as_of: string;
}

// ---- what is asked on more than one page ----

export const api = {
  react: (item: string, user: string, kind: string | null, key: string) =>
    kind === null
      ? call<Reacted>(path("/v1/items/", item, "/reactions/", user), { method: "DELETE", key })
      : call<Reacted>(path("/v1/items/", item, "/reactions/", user), { method: "PUT", json: { kind }, key }),
  /** Of many counters at once; what is not there counts as null. */
  values: (ids: string[]) =>
    call<{ counters: { id: string; value: string | null }[]; as_of: string }>(
      `/v1/counters?ids=${ids.map(encodeURIComponent).join(",")}`,
    ),
  mine: (user: string, items: string[]) =>
    call<{ reactions: { item: string; reaction: string | null }[] }>("/v1/reactions/mine", { json: { user, items } }),
};
