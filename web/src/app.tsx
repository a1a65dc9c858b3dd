// The frame around all pages: where one is, where one can go, and whether the server is there.

import { Suspense, useEffect, useState, type ReactNode } from "react";
import { ask, hasPassword, setPassword } from "./lib/api";
import { burst, useBurst } from "./lib/burst";
import { changes } from "./lib/changes";
import { exact } from "./lib/format";
import { DemoContext, useHasDemo } from "./lib/demo";
import { useStored, useStreamState } from "./lib/hooks";
import { Link, usePlace } from "./lib/router";
import { useStatus } from "./lib/status";
import { UpContext } from "./lib/up";
import { Button, Field, fieldLook } from "./parts/basics";
import { Boundary, lazily } from "./parts/chunk";
import { Dialog } from "./parts/dialog";
import { Icon, type IconName } from "./parts/icons";
import { Notices } from "./parts/notices";
import { PageTitle } from "./parts/title";
import { Feed } from "./pages/feed/feed";

const Overview = lazily(() => import("./pages/overview"));
const Counters = lazily(() => import("./pages/counters/counters"));
const Counter = lazily(() => import("./pages/counter/counter"));
const Pipeline = lazily(() => import("./pages/pipeline/pipeline"));
const Users = lazily(() => import("./pages/users"));

const places: { to: string; name: string; icon: IconName }[] = [
  { to: "overview", name: "Overview", icon: "overview" },
  { to: "counters", name: "Counters", icon: "counters" },
  { to: "pipeline", name: "Pipeline", icon: "pipeline" },
  { to: "users", name: "Users", icon: "users" },
  { to: "", name: "Demo", icon: "feed" }, // last: it comes when the server has said that there is one
];

function Places({ look }: { look: "side" | "bottom" }) {
  const hasDemo = useHasDemo();
  const [place = ""] = usePlace();
  const here = place === "" && hasDemo === false ? "overview" : place;
  const isSide = look === "side";
  return (
    <ul className={isSide ? "flex flex-col gap-1" : `grid ${hasDemo === false ? "grid-cols-4" : "grid-cols-5"}`}>
      {places.filter(({ to }) => hasDemo || to !== "").map(({ to, name, icon }) => {
        const isHere = to === here;
        return (
          <li key={to}>
            <Link to={to ? [to] : []} aria-current={isHere ? "page" : undefined}
              className={`flex items-center rounded-lg font-medium ${
                isSide ? "h-9 gap-3 px-3 text-sm" : "h-14 flex-col justify-center gap-1 text-xs"
              } ${isHere ? "bg-accent-soft text-accent-text" : "text-soft hover:bg-raised hover:text-ink"}`}>
              <Icon name={icon} />
              {name}
            </Link>
          </li>
        );
      })}
    </ul>
  );
}

function ThemeButton() {
  const [theme, setTheme] = useStored("theme", "auto");
  const next = theme === "auto" ? "light" : theme === "light" ? "dark" : "auto";
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const icon: IconName = theme === "light" ? "sun" : theme === "dark" ? "moon" : "auto";
  return (
    <button type="button" className="rounded-lg p-2 text-soft hover:bg-raised hover:text-ink"
      title={`Theme: ${theme}. Next: ${next}`} aria-label={`Theme: ${theme}. Change to ${next}`} onClick={() => setTheme(next)}>
      <Icon name={icon} />
    </button>
  );
}

/** Says that the server is gone, and goes away when it is back. */
function useServer(): boolean {
  const [isUp, setUp] = useState(true);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let isEnded = false;
    let before = true;
    const look = async () => {
      const now = await ask("/livez", { timeoutMs: 4000 }).then(() => true, () => false);
      if (isEnded) return;
      if (now && !before) changes.hurry();
      before = now;
      setUp(now);
      timer = setTimeout(look, now ? 3000 : 1000);
    };
    void look();
    return () => {
      isEnded = true;
      clearTimeout(timer);
    };
  }, []);
  return isUp;
}

function LiveMark({ isUp }: { isUp: boolean }) {
  const stream = useStreamState();
  const isLive = isUp && stream !== "down";
  return (
    <span role="status" className="flex items-center gap-2 text-xs font-medium text-soft">
      <span className={`size-2 rounded-full ${isLive ? "bg-good" : "bg-bad"}`} />
      {isLive ? "Connected" : "Not connected"}
    </span>
  );
}

/** `onSignedIn` is told where the page cannot be loaded again: the browser would have forgotten the password by then. */
function SignIn({ onSignedIn }: { onSignedIn: () => void }) {
  const [isAsked, setAsked] = useState(false);
  const [password, setTyped] = useState("");
  useEffect(() => {
    const onRefused = () => setAsked(true);
    window.addEventListener("tally:unauthorized", onRefused);
    return () => window.removeEventListener("tally:unauthorized", onRefused);
  }, []);
  if (!isAsked) return null;
  const signIn = () => {
    if (setPassword(password)) {
      window.location.reload();
      return;
    }
    setAsked(false);
    changes.hurry();
    onSignedIn();
  };
  return (
    <Dialog title="This server asks for a password" onClose={() => setAsked(false)}>
      <form className="flex flex-col gap-4" onSubmit={(event) => { event.preventDefault(); signIn(); }}>
        {hasPassword() && <p className="text-sm text-bad">The password was not right.</p>}
        <Field label="Password">
          <input type="password" className={fieldLook} autoComplete="current-password" value={password}
            onChange={(event) => setTyped(event.target.value)} />
        </Field>
        <div className="flex justify-end"><Button type="submit" look="main">Sign in</Button></div>
      </form>
    </Dialog>
  );
}

function DownNote() {
  return (
    <div role="alert" className="pointer-events-auto flex items-start gap-3 rounded-lg border border-bad bg-bad-soft px-4 py-3 text-sm text-bad shadow-lg">
      <Icon name="warning" />
      <p className="min-w-0 flex-1"><b className="font-medium">The server cannot be reached.</b> What you see may be old; the page goes on by itself when it is back.</p>
    </div>
  );
}

/** A burst goes on while one looks at what it does. */
function BurstNote() {
  const [page] = usePlace();
  const state = useBurst();
  if (!state || page === undefined) return null; // the feed has it beside the post
  return (
    <section aria-label="Going viral" className="pointer-events-auto flex flex-col gap-2 rounded-lg border border-line bg-panel px-4 py-3 text-sm shadow-lg">
      <div className="flex items-center justify-between gap-4">
        <p className="min-w-0 truncate font-medium" title={state.item}>{state.item} goes viral</p>
        <button type="button" className="-my-1 rounded px-2 py-1 font-medium text-accent-text hover:bg-raised" onClick={() => (state.isOver ? burst.forget() : burst.stop())}>
          {state.isOver ? "Close" : "Stop"}
        </button>
      </div>
      <progress className="bar" max={state.wanted} value={state.sent} aria-label="Likes sent" />
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 text-xs">
        <span className="text-soft tabular-nums">{exact(String(state.sent))} of {exact(String(state.wanted))} likes</span>
        <span className="flex gap-4 font-medium text-accent-text">
          <Link to={["counters", `${state.item}/like`]} className="hover:underline">Shards</Link>
          <Link to={["pipeline"]} className="hover:underline">Pipeline</Link>
        </span>
      </div>
      {state.failed > 0 && <p className="text-xs text-soft tabular-nums">{exact(String(state.failed))} refused</p>}
      {state.problem && <p role="alert" className="text-xs break-words text-bad">{state.problem.text}</p>}
    </section>
  );
}

function Here({ waiting }: { waiting: ReactNode }) {
  const hasDemo = useHasDemo();
  const [page = "", id] = usePlace();
  switch (page) {
    case "":
      return hasDemo === undefined ? waiting : hasDemo ? <Feed /> : <Overview />;
    case "overview":
      return <Overview />;
    case "counters":
      return id === undefined ? <Counters /> : <Counter key={id} id={id} />;
    case "pipeline":
      return <Pipeline list={id} />;
    case "users":
      return <Users user={id} />;
    default:
      return <PageTitle title="There is no such page">Somebody may have mistyped it. <Link to={["overview"]} className="text-accent-text underline">To the overview</Link></PageTitle>;
  }
}

/** Whether there is a demo, once that is known: where the server does not say it, there is none. */
function useDemoSetting(signedIn: number): boolean | undefined {
  const { data, problem } = useStatus(0, String(signedIn));
  if (data) return data.demo;
  return problem && !problem.mayTryAgain && problem.status !== 401 ? false : undefined;
}

export function App() {
  const isUp = useServer();
  const place = usePlace();
  const [signedIn, setSignedIn] = useState(0); // each time all is asked for anew
  const hasDemo = useDemoSetting(signedIn);
  const waiting = <p className="text-sm text-soft">{isUp ? "Loading…" : "This page comes as soon as the server is back."}</p>;
  return (
    <DemoContext value={hasDemo}>
    <UpContext value={isUp}>
    <div className="min-h-dvh lg:grid lg:grid-cols-[13rem_minmax(0,1fr)]">
      <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded focus:bg-panel focus:p-2"
        onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the content
      </a>
      <header className="sticky top-0 z-30 flex h-14 items-center justify-between border-b border-line bg-panel px-4 lg:fixed lg:inset-y-0
        lg:h-auto lg:w-52 lg:flex-col lg:items-stretch lg:justify-start lg:gap-6 lg:border-r lg:border-b-0 lg:p-4">
        <Link to={[]} className="flex items-center gap-2 rounded-lg text-lg font-semibold tracking-tight" aria-label="Tally, to the first page">
          <img src="/page/mark.svg" alt="" className="size-7" width={28} height={28} />
          Tally
        </Link>
        <nav aria-label="Pages" className="hidden lg:block"><Places look="side" /></nav>
        <div className="flex items-center gap-3 lg:mt-auto lg:justify-between">
          <LiveMark isUp={isUp} />
          <ThemeButton />
        </div>
      </header>
      <div className="lg:col-start-2">
        <main id="main" tabIndex={-1} className="mx-auto w-full max-w-[96rem] px-4 pt-6 pb-24 outline-none lg:px-8 lg:pb-10">
          <Boundary key={signedIn} place={place.join("/")}>
            <Suspense fallback={waiting}>
              <Here waiting={waiting} />
            </Suspense>
          </Boundary>
        </main>
      </div>
      <nav aria-label="Pages" className="fixed inset-x-0 bottom-0 z-30 border-t border-line bg-panel px-1 lg:hidden"><Places look="bottom" /></nav>
      {/* What comes up by itself lies over the page: nothing that somebody reads is pushed away by it. */}
      <div className="pointer-events-none fixed inset-x-4 bottom-18 z-40 flex flex-col gap-2 sm:left-auto sm:w-96 lg:bottom-4">
        {!isUp && <DownNote />}
        <BurstNote />
        <Notices />
      </div>
      <SignIn onSignedIn={() => setSignedIn((times) => times + 1)} />
    </div>
    </UpContext>
    </DemoContext>
  );
}
