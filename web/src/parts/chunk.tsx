// Parts of the page that are loaded when somebody wants to see them, also when the server is away just then.

import { Component, lazy, type ComponentType, type LazyExoticComponent, type ReactNode } from "react";
import { ask } from "../lib/api";
import { recall, remember } from "../lib/kept";
import { Button, Empty } from "./basics";

const RELOADED = "reloaded";
const LOOK_EVERY_MS = 1000;
const SOON_MS = 10_000;

async function serverIsBack(): Promise<void> {
  while (!(await ask("/livez", { timeoutMs: 4000 }).then(() => true, () => false))) await new Promise((done) => setTimeout(done, LOOK_EVERY_MS));
}

/** The browser remembers what it could not load, and a server that was upgraded has other files: both want the whole page anew. One that
 * was loaded a moment ago, and lacks the same again, would not be better the next time; nor is it tried where the browser cannot
 * remember that it was. */
async function beginAnew(error: unknown): Promise<never> {
  await serverIsBack();
  const reloaded = Number(recall(RELOADED, "session") ?? 0);
  if (Date.now() - reloaded < SOON_MS || !remember(RELOADED, String(Date.now()), "session")) throw error;
  window.location.reload();
  return new Promise(() => undefined);
}

/** As React's lazy, but waits for the server instead of failing. */
export function lazily<T extends ComponentType<any>>(load: () => Promise<{ default: T }>): LazyExoticComponent<T> {
  return lazy(() => load().catch(beginAnew));
}

/** What fails in one place leaves the rest of the page as it is. `instead` is shown there, if it is no whole page. */
export class Boundary extends Component<{ place: string; instead?: ReactNode; children: ReactNode }, { place: string; hasFailed: boolean }> {
  override state = { place: this.props.place, hasFailed: false };

  static getDerivedStateFromError(): { hasFailed: boolean } {
    return { hasFailed: true };
  }

  static getDerivedStateFromProps(props: { place: string }, state: { place: string }): { place: string; hasFailed: boolean } | null {
    return props.place === state.place ? null : { place: props.place, hasFailed: false };
  }

  override render(): ReactNode {
    if (!this.state.hasFailed) return this.props.children;
    if (this.props.instead !== undefined) return this.props.instead;
    return (
      <div role="alert">
        <Empty icon="warning" title="This page does not work">
          <p className="mb-4">It could not be loaded, or has failed while it was drawn. Nothing that was counted is lost by that.</p>
          <Button look="main" icon="refresh" onClick={() => window.location.reload()}>Load it anew</Button>
        </Empty>
      </div>
    );
  }
}
