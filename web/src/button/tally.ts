// <tally-reactions item="video123" user="ann"> for any site: buttons and live counts, no framework.
//
//   item    what is reacted to
//   user    who reacts; without one the buttons only show counts
//   kinds   "like dislike" if not said
//   server  where tallyd is; where this script came from if not said
//
// What a click does, how counts come and what happens when the server does not answer is that of the page: lib/reactions.ts,
// lib/changes.ts. Here is how it looks, see docs/button.md, and what it tells: "tally-change" {item, reaction, counts},
// "tally-error" {item, message}.

import { Server, type Problem, type Reacted } from "../lib/api";
import { Changes } from "../lib/changes";
import { compact, exact, spoken } from "../lib/format";
import { ItemReactions } from "../lib/reactions";

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
  button[aria-pressed=true] { background: var(--tally-held, #25234d); border-color: var(--tally-accent, #7c76f2); color: var(--tally-held-ink, #b3b0fb) }
  button:focus-visible { outline-color: var(--tally-accent, #7c76f2) }
  p { color: var(--tally-bad, #ff9d94) }
}`;

const sheet = new CSSStyleSheet();
sheet.replaceSync(style);

interface Link {
  server: Server;
  changes: Changes;
}

const links = new Map<string, Link>();

/** One for each server, however many elements there are: a browser has six connections to it. */
function linkTo(url: string): Link {
  let link = links.get(url);
  if (!link) {
    const server = new Server(url);
    link = { server, changes: new Changes(server) };
    links.set(url, link);
  }
  return link;
}

class TallyReactions extends HTMLElement {
  static observedAttributes = ["item", "user", "kinds", "server"];
  private reactions: ItemReactions | undefined;
  private ends: (() => void)[] = [];
  private isStarting = false;
  private root = this.attachShadow({ mode: "open" });
  private buttons = new Map<string, HTMLButtonElement>();
  private message = document.createElement("p");

  connectedCallback(): void {
    this.startSoon();
  }

  disconnectedCallback(): void {
    this.stop();
  }

  attributeChangedCallback(): void {
    this.startSoon();
  }

  private get item(): string {
    return this.getAttribute("item") ?? "";
  }

  private get user(): string {
    return this.getAttribute("user") ?? "";
  }

  private get kinds(): string[] {
    return (this.getAttribute("kinds") ?? KINDS).split(/[\s,]+/).filter(Boolean);
  }

  private get link(): Link {
    return linkTo((this.getAttribute("server") || own).replace(/\/$/, ""));
  }

  // ---- life ----

  /** Attributes are set one after the other. */
  private startSoon(): void {
    if (this.isStarting) return;
    this.isStarting = true;
    queueMicrotask(() => {
      this.isStarting = false;
      if (this.isConnected) this.start();
    });
  }

  /** What was clicked for an item before is sent all the same; its answer is no longer shown. */
  private start(): void {
    this.stop();
    this.build();
    if (!this.item) return;
    const { item, user } = this;
    const { server, changes } = this.link;
    const reactions: ItemReactions = new ItemReactions(item, user, (problem) => this.onProblem(reactions, problem), {
      mine: server.mine,
      react: async (...asked) => this.onReacted(reactions, await server.react(...asked)),
    });
    this.reactions = reactions;
    this.ends = this.kinds.map((kind) => changes.subscribe(`${item}/${kind}`, ({ value }) => reactions.live(kind, value ?? "0")));
    this.ends.push(reactions.subscribe(() => this.show()));
    this.show();
    if (user) void reactions.load();
  }

  private stop(): void {
    for (const end of this.ends.splice(0)) end();
    this.reactions = undefined;
  }

  private onReacted(of: ItemReactions, reacted: Reacted): Reacted {
    if (of === this.reactions) this.message.textContent = "";
    const { item, reaction, counts } = reacted;
    this.tell("tally-change", { item, reaction, counts });
    return reacted;
  }

  private onProblem(of: ItemReactions, { message }: Problem): void {
    if (of === this.reactions) this.message.textContent = message;
    this.tell("tally-error", { item: of.item, message });
  }

  private tell(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  // ---- what is seen ----

  private build(): void {
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
      button.addEventListener("click", () => this.user && this.reactions?.click(kind));
      this.buttons.set(kind, button);
      group.append(button);
    }
    this.message.setAttribute("role", "alert");
    this.message.textContent = "";
    this.root.replaceChildren(group, this.message);
    this.show();
  }

  private show(): void {
    const shown = this.reactions?.shown;
    for (const [kind, button] of this.buttons) {
      const count = shown?.counts[kind];
      button.querySelector("span")!.textContent = compact(count ?? "");
      button.title = exact(count ?? "");
      button.setAttribute("aria-pressed", String(shown?.held === kind));
      button.setAttribute("aria-disabled", String(!this.user));
      button.setAttribute("aria-label", `${kind}: ${spoken(count)}`);
    }
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
