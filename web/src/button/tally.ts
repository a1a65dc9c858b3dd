// <tally-reactions item="video123" user="ann"> for any site: buttons and live counts, no framework.
//
//   item    what is reacted to
//   user    who reacts; without one the buttons only show counts
//   kinds   "like dislike" if not said
//   server  where tallyd is; where this script came from if not said
//
// It keeps working when live updates are blocked: then it asks now and then. The look is set with CSS variables, see
// docs/button.md; what happens is told as events: "tally-change" {item, reaction, counts}, "tally-error" {message}.

type Counts = Record<string, string>;

interface Answer {
  reaction: string | null;
  counts: Counts;
}

const TRIES = 4;
const AGAIN_MS = 400;
const ASK_EVERY_MS = 10_000;
const LIVE_AGAIN_MS = 15_000;
const KINDS = "like dislike";
const own = new URL((document.currentScript as HTMLScriptElement | null)?.src ?? location.href).origin;

const thumb = "M7 21V10l4.500-7a2 2 0 0 1 2.500 2.400L13 9h5.500a2 2 0 0 1 2 2.400l-1.500 8A2 2 0 0 1 17 21H7ZM7 10H3.500v11H7";

const style = `
:host { display: inline-block; font: 500 14px/1.2 system-ui, sans-serif; color: var(--tally-ink, #1c2029) }
:host([hidden]) { display: none }
div { display: flex; flex-wrap: wrap; gap: var(--tally-gap, 8px) }
button { display: inline-flex; align-items: center; gap: 8px; min-height: 40px; padding: 0 14px; font: inherit; color: inherit; cursor: pointer;
  background: var(--tally-ground, #fff); border: 1px solid var(--tally-line, #8a92a2); border-radius: var(--tally-radius, 999px) }
button:hover { background: var(--tally-hover, #f0f1f5) }
button[aria-pressed=true] { background: var(--tally-held, #eeedfd); border-color: var(--tally-accent, #4f46e5); color: var(--tally-held-ink, #4338ca) }
button[aria-disabled=true] { cursor: default }
button:focus-visible { outline: 2px solid var(--tally-accent, #4f46e5); outline-offset: 2px }
svg { width: 20px; height: 20px; fill: none; stroke: currentColor; stroke-width: 1.75; stroke-linejoin: round }
.down svg { transform: rotate(180deg) }
span { font-variant-numeric: tabular-nums }
p { margin: 6px 0 0; font-size: 12px; color: var(--tally-bad, #b3261e) }
p:empty { display: none }
@media (prefers-color-scheme: dark) {
  :host { color: var(--tally-ink, #eceef3) }
  button { background: var(--tally-ground, #171a21); border-color: var(--tally-line, #6b7485) }
  button:hover { background: var(--tally-hover, #20242d) }
  button[aria-pressed=true] { background: var(--tally-held, #25234d); color: var(--tally-held-ink, #b3b0fb) }
  p { color: var(--tally-bad, #ff9d94) }
}`;

/** "1234567" -> "1.2M" */
export function short(value: string): string {
  if (!/^\d{4,15}$/.test(value)) return value;
  const group = Math.floor((value.length - 1) / 3);
  const lead = value.length - group * 3;
  const tenth = lead < 3 && value[lead] !== "0" ? `.${value[lead]}` : "";
  return value.slice(0, lead) + tenth + "KMBT"[group - 1];
}

const grouped = (value: string) => value.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

class TallyReactions extends HTMLElement {
  static observedAttributes = ["item", "user", "kinds", "server"];
  private counts: Counts = {};
  private held: string | null = null;
  private wanted: string | null = null;
  private isBusy = false;
  private life = 0; // what was asked for an earlier item is dropped
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setInterval> | undefined;
  private root = this.attachShadow({ mode: "open" });
  private buttons = new Map<string, HTMLButtonElement>();
  private message = document.createElement("p");

  connectedCallback(): void {
    this.start();
  }

  disconnectedCallback(): void {
    this.stop();
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.start();
  }

  private get item(): string {
    return this.getAttribute("item") ?? "";
  }

  private get kinds(): string[] {
    return (this.getAttribute("kinds") ?? KINDS).split(/[\s,]+/).filter(Boolean);
  }

  private url(path: string): string {
    return (this.getAttribute("server") ?? own).replace(/\/$/, "") + path;
  }

  // ---- life ----

  private start(): void {
    this.stop();
    const life = ++this.life;
    this.counts = {};
    this.held = this.wanted = null;
    this.build();
    if (!this.item) return;
    void this.load(life);
    this.listen(life);
  }

  private stop(): void {
    this.life++;
    this.source?.close();
    this.stopAsking();
  }

  private async load(life: number): Promise<void> {
    try {
      const ids = this.kinds.map((kind) => encodeURIComponent(`${this.item}/${kind}`)).join(",");
      const all = await this.ask<{ counters: { id: string; value: string | null }[] }>(`/v1/counters?ids=${ids}`);
      const user = this.getAttribute("user");
      const mine = user
        ? await this.ask<{ reactions: { reaction: string | null }[] }>("/v1/reactions/mine", "POST", { user, items: [this.item] })
        : undefined;
      if (life !== this.life || this.isBusy) return;
      for (const { id, value } of all.counters) this.counts[id.slice(this.item.length + 1)] = value ?? "0";
      if (mine) this.held = this.wanted = mine.reactions[0]?.reaction ?? null;
      this.show();
    } catch {
      // The next round asks again.
    }
  }

  /** Live, or if that is blocked, now and then. */
  private listen(life: number): void {
    if (typeof EventSource === "undefined") {
      this.askNowAndThen(life);
      return;
    }
    const ids = this.kinds.map((kind) => encodeURIComponent(`${this.item}/${kind}`)).join(",");
    const source = new EventSource(this.url(`/v1/changes?ids=${ids}`));
    this.source = source;
    source.onopen = () => this.stopAsking();
    source.onmessage = (event) => {
      const { id, value } = JSON.parse(event.data as string) as { id: string; value: string | null };
      if (life !== this.life || this.isBusy) return;
      this.counts[id.slice(this.item.length + 1)] = value ?? "0";
      this.show();
    };
    source.onerror = () => {
      if (life !== this.life) return;
      this.askNowAndThen(life);
      if (source.readyState === EventSource.CLOSED) setTimeout(() => life === this.life && this.listen(life), LIVE_AGAIN_MS);
    };
  }

  private askNowAndThen(life: number): void {
    this.timer ??= setInterval(() => void this.load(life), ASK_EVERY_MS);
  }

  private stopAsking(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  // ---- writing ----

  private choose(kind: string): void {
    if (!this.getAttribute("user")) return;
    this.wanted = this.wanted === kind ? null : kind;
    this.show();
    if (!this.isBusy) void this.send();
  }

  /** One write at a time; what is clicked meanwhile follows, the last click wins. */
  private async send(): Promise<void> {
    const life = this.life;
    this.isBusy = true;
    while (life === this.life && this.wanted !== this.held) {
      const wanted = this.wanted;
      try {
        const answer = await this.write(wanted);
        if (life !== this.life) break;
        this.held = answer.reaction;
        this.counts = { ...this.counts, ...answer.counts };
        this.say("");
        this.tell("tally-change", { item: this.item, reaction: this.held, counts: this.counts });
      } catch (error) {
        if (life !== this.life) break;
        this.wanted = this.held;
        this.say((error as Error).message);
        this.tell("tally-error", { message: (error as Error).message });
      }
      this.show();
    }
    this.isBusy = false;
  }

  /** However often it is sent, it counts once. */
  private async write(kind: string | null): Promise<Answer> {
    const path = `/v1/items/${encodeURIComponent(this.item)}/reactions/${encodeURIComponent(this.getAttribute("user")!)}`;
    const key = `button-${[...crypto.getRandomValues(new Uint32Array(4))].map((word) => word.toString(36)).join("")}`;
    for (let tries = 1; ; tries++) {
      try {
        return await this.ask<Answer>(path, kind === null ? "DELETE" : "PUT", kind === null ? undefined : { kind }, key);
      } catch (error) {
        const mayTryAgain = !(error instanceof Refused) || error.status === 503 || error.status === 429;
        if (tries === TRIES || !mayTryAgain) throw error instanceof Refused ? error : new Error("The server cannot be reached.");
      }
      await pause(AGAIN_MS * tries);
    }
  }

  private async ask<T>(path: string, method = "GET", json?: unknown, key?: string): Promise<T> {
    const headers: Record<string, string> = {};
    if (json !== undefined) headers["Content-Type"] = "application/json";
    if (key) headers["Idempotency-Key"] = key;
    const response = await fetch(this.url(path), { method, headers, body: json === undefined ? undefined : JSON.stringify(json) });
    const said = (await response.json()) as T & { title?: string };
    if (!response.ok) throw new Refused(response.status, said.title ?? `The server answered ${response.status}.`);
    return said;
  }

  // ---- what is seen ----

  private build(): void {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    this.root.adoptedStyleSheets = [sheet];
    const group = document.createElement("div");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Reactions");
    this.buttons.clear();
    for (const kind of this.kinds) {
      const button = document.createElement("button");
      button.type = "button";
      button.part.add("button", kind);
      if (kind === "like" || kind === "dislike") button.append(icon());
      else button.append(kind);
      button.append(document.createElement("span"));
      button.className = kind === "dislike" ? "down" : "";
      button.addEventListener("click", () => this.choose(kind));
      this.buttons.set(kind, button);
      group.append(button);
    }
    this.message.setAttribute("role", "alert");
    this.root.replaceChildren(group, this.message);
    this.show();
  }

  private show(): void {
    for (const [kind, button] of this.buttons) {
      const known = this.counts[kind];
      const change = (this.wanted === kind ? 1 : 0) - (this.held === kind ? 1 : 0);
      const count = known === undefined ? "" : (BigInt(known) + BigInt(change)).toString();
      button.querySelector("span")!.textContent = short(count);
      button.title = grouped(count);
      button.setAttribute("aria-pressed", String(this.wanted === kind));
      button.setAttribute("aria-disabled", String(!this.getAttribute("user")));
      button.setAttribute("aria-label", `${kind}: ${short(count) || "…"}${short(count) === grouped(count) ? "" : `, exactly ${grouped(count)}`}`);
    }
  }

  private say(text: string): void {
    this.message.textContent = text;
  }

  private tell(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

function icon(): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", thumb);
  svg.append(path);
  return svg;
}

if (!customElements.get("tally-reactions")) customElements.define("tally-reactions", TallyReactions);
