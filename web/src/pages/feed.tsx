// The feed: posts that people like and dislike, as on a social site.

import { lazy, Suspense, useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { api, type Counts, type Problem } from "../lib/api";
import { burst, useBurst, type BurstState } from "../lib/burst";
import { changes } from "../lib/changes";
import { useDescribed } from "../lib/described";
import { last, recent, useFigures, type Samples } from "../lib/figures";
import { compact, exact, figure } from "../lib/format";
import { useLive, useLoaded, useMedia, useStored } from "../lib/hooks";
import { feedUsers } from "../lib/people";
import { ItemReactions } from "../lib/reactions";
import { Link } from "../lib/router";
import { useStatus, type Status } from "../lib/status";
import { Button, Card, Count, Field, fieldLook, PageTitle, Trouble } from "../parts/basics";
import type { Line } from "../parts/chart";
import { Icon } from "../parts/icons";
import { notify } from "../parts/notices";
import { ShardsPicture } from "../parts/shards";
import { newest, stationsOf, Way } from "../parts/way";

// Counts and clicks come first, the drawing of charts when it is there.
const Chart = lazy(() => import("../parts/chart").then((module) => ({ default: module.Chart })));

interface Post {
  item: string;
  author: string;
  text: string;
}

const posts: Post[] = [
  { item: "post-aurora", author: "Mira Okafor", text: "Northern lights over the fjord last night. Stood there for two hours, forgot my gloves, regret nothing." },
  { item: "post-sourdough", author: "Jonas Weber", text: "Day 12 of keeping a sourdough starter alive. It has a name now. It is called Clint Yeastwood." },
  { item: "post-marathon", author: "Aisha Rahman", text: "First marathon done: 4:12:37. The last five kilometres were run entirely on spite and orange slices." },
  { item: "post-tabs", author: "Lena Petrov", text: "Tabs or spaces? Choose wisely, we are all watching the counter." },
  { item: "post-cat", author: "Diego Alvarez", text: "The cat learned to open the fridge. We have learned to negotiate." },
];

const usualKinds = ["like", "dislike"];
const KINDS_SHOWN = 6;
const bursts = [1_000, 100_000, 1_000_000];

const labels: Record<string, [give: string, take: string]> = {
  like: ["Like", "Take your like back"],
  dislike: ["Dislike", "Take your dislike back"],
};

function labelOf(kind: string, isHeld: boolean): string {
  return labels[kind]?.[isHeld ? 1 : 0] ?? (isHeld ? `Take ${kind} back` : kind);
}

/** As it is seen, and exactly. */
function spoken(count: string | undefined): string {
  if (count === undefined) return "…";
  return compact(count) === exact(count) ? exact(count) : `${compact(count)}, exactly ${exact(count)}`;
}

function pastOf(kind: string): string {
  return kind === "like" ? "Liked" : kind === "dislike" ? "Disliked" : `“${kind}”`;
}

function initials(name: string): string {
  return name.split(" ").map((word) => word[0]).join("");
}

function ReactionButton({ kind, count, isHeld, isKnown, onClick }: {
  kind: string;
  count: string | undefined;
  isHeld: boolean;
  isKnown: boolean;
  onClick: () => void;
}) {
  const isThumb = kind === "like" || kind === "dislike";
  return (
    <button type="button" aria-pressed={isHeld} disabled={!isKnown} onClick={onClick} data-kind={kind}
      aria-label={`${labelOf(kind, isHeld)}: ${spoken(count)}`} title={count && exact(count)}
      className={`inline-flex h-10 min-w-22 items-center justify-center gap-2 rounded-full border px-4 text-sm font-medium transition active:scale-95
        disabled:opacity-60 ${isHeld ? "border-accent bg-accent-soft text-accent-text" : "border-line text-soft hover:bg-raised hover:text-ink"}`}>
      {isThumb ? <Icon name={kind} filled={isHeld} /> : kind}
      <Count value={count} />
    </button>
  );
}

/** A burst that is under way or over, and where to watch what it does. */
function BurstReport({ item, state, onAgain }: { item: string; state: BurstState; onAgain: () => void }) {
  const end = !state.isOver || state.problem ? "" : state.sent === state.wanted ? " Done." : " Stopped.";
  return (
    <div className="flex flex-col gap-2 border-t border-line px-4 py-3 text-xs text-soft sm:px-5">
      <progress className="bar" max={state.wanted} value={state.sent} aria-label="Likes sent" />
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1">
        <p role="status" className="tabular-nums">
          {exact(String(state.sent))} of {exact(String(state.wanted))} likes, each by another user
          {state.sent > 0 && <>; {figure(state.perSecond)} per second</>}
          {state.failed > 0 && <>; {exact(String(state.failed))} refused</>}.{end}
        </p>
        <p className="flex gap-4 font-medium text-accent-text">
          <Link to={["counters", `${item}/like`]} className="hover:underline">See its shards</Link>
          <Link to={["pipeline"]} className="hover:underline">Watch the pipeline</Link>
        </p>
      </div>
      {state.problem && <Trouble problem={state.problem} onAgain={onAgain} />}
    </div>
  );
}

interface Known {
  held: string | null;
  counts: Counts;
}

function PostCard({ post, user, kinds, known, burstSize, onTouch }: {
  post: Post;
  user: string;
  kinds: string[];
  known: Known | undefined;
  burstSize: number;
  onTouch: (item: string) => void;
}) {
  const anyBurst = useBurst();
  const ours = anyBurst?.item === post.item ? anyBurst : undefined;
  const goViral = () => {
    onTouch(post.item);
    burst.start(post.item, burstSize);
  };
  const onProblem = useCallback(
    (problem: Problem, wanted: string | null) =>
      notify("bad", `${wanted ? `Your ${wanted}` : "Your change"} on ${post.author}’s post ${problem.isUnknown ? "may be lost" : "was not taken"}: ${problem.text}`),
    [post.author],
  );
  const reactions = useMemo(() => new ItemReactions(post.item, user, onProblem), [post.item, user, onProblem]);
  const shown = useSyncExternalStore(reactions.subscribe, reactions.getShown);
  useEffect(() => {
    if (known) reactions.known(known.held, known.counts);
  }, [reactions, known]);
  useEffect(() => {
    const ends = kinds.map((kind) =>
      changes.subscribe(`${post.item}/${kind}`, (change) => reactions.live(kind, change.value ?? "0")));
    return () => ends.forEach((end) => end());
  }, [reactions, post.item, kinds]);
  return (
    <Card>
      <article aria-label={`Post by ${post.author}`} data-item={post.item} className="flex flex-col gap-4 p-4 sm:p-5">
        <header className="flex items-center gap-3">
          <span aria-hidden="true" className="grid size-10 place-items-center rounded-full bg-accent-soft text-sm font-semibold text-accent-text">
            {initials(post.author)}
          </span>
          <div className="min-w-0">
            <p className="font-medium">{post.author}</p>
            <p className="truncate font-mono text-xs text-soft">{post.item}</p>
          </div>
        </header>
        <p className="text-[0.95rem] leading-relaxed break-words">{post.text}</p>
        <div className="flex flex-wrap items-center gap-2">
          {kinds.map((kind) => (
            <ReactionButton key={kind} kind={kind} count={shown.isKnown ? shown.counts[kind] ?? "0" : undefined} isHeld={shown.held === kind} isKnown={shown.isKnown}
              onClick={() => { onTouch(post.item); reactions.click(kind); }} />
          ))}
          {shown.held && <span className="text-xs text-soft">{pastOf(shown.held)} by you</span>}
          <span className="grow" />
          {ours && !ours.isOver ? (
            <Button icon="close" onClick={() => burst.stop()}>Stop</Button>
          ) : (
            <Button icon="rocket" onClick={goViral}>Go viral</Button>
          )}
        </div>
      </article>
      {ours && <BurstReport item={post.item} state={ours} onAgain={goViral} />}
    </Card>
  );
}

function UserPicker({ user, onChange }: { user: string; onChange: (user: string) => void }) {
  const [typed, setTyped] = useState(user);
  useEffect(() => setTyped(user), [user]);
  const take = () => typed.trim() && onChange(typed.trim());
  return (
    <form className="w-32" onSubmit={(event) => { event.preventDefault(); take(); }}>
      <Field label="You are">
        <input className={fieldLook} value={typed} list="users" maxLength={256} autoComplete="off" spellCheck={false}
          onChange={(event) => setTyped(event.target.value)} onBlur={take} />
      </Field>
      <datalist id="users">{feedUsers.map((name) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

/** What the user holds on all posts, and their counts. */
async function loadKnown(user: string, kinds: string[]): Promise<Map<string, Known>> {
  if (kinds.length === 0) return new Map();
  const items = posts.map((post) => post.item);
  const [mine, values] = await Promise.all([
    api.mine(user, items),
    api.values(items.flatMap((item) => kinds.map((kind) => `${item}/${kind}`))),
  ]);
  const counts = new Map(values.counters.map((counter) => [counter.id, counter.value ?? "0"]));
  return new Map(mine.reactions.map(({ item, reaction }) => [
    item,
    { held: reaction, counts: Object.fromEntries(kinds.map((kind) => [kind, counts.get(`${item}/${kind}`) ?? "0"])) },
  ]));
}

// ---- what happens behind it ----

function ShardsOf({ id }: { id: string }) {
  const about = useDescribed(id, 1000).data;
  return about && <ShardsPicture shards={about.shards} home={about.home} values={about.shard_values} />;
}

/** Of what was touched last: going viral spreads it. */
function Shards({ item }: { item: string }) {
  const id = `${item}/like`;
  const value = useLive(id);
  return (
    <Card title="Its shards" aside={<Link to={["counters", id]} className="truncate font-mono text-xs text-accent-text hover:underline">{id}</Link>}>
      <div className="flex min-h-32 flex-col gap-3 p-4">
        <p className="text-2xl font-semibold tabular-nums">{exact(value ?? "0")}</p>
        {value && value !== "0" ? <ShardsOf id={id} /> : <p className="text-xs text-soft">{value !== undefined && "Nobody likes it yet."}</p>}
      </div>
    </Card>
  );
}

function Behind({ samples, status, item }: { samples: Samples; status: Status | undefined; item: string }) {
  const times = samples.time as number[];
  const lines = useMemo<Line[]>(() => [{ name: "writes", colour: "accent", values: samples.writes }], [samples]);
  return (
    <div className="sticky top-6 flex flex-col gap-4">
      <Card title="What happens now" aside={<Link to={["pipeline"]} className="text-xs text-accent-text hover:underline">The pipeline</Link>}>
        <div className="flex flex-col gap-4 p-4">
          <div className="h-10">
            <Suspense><Chart label="Writes per second, the last minute" times={times} lines={lines} text={figure} isBare /></Suspense>
          </div>
          <Way stations={stationsOf(samples, status?.forms)} isColumn />
        </div>
      </Card>
      <Shards item={item} />
    </div>
  );
}

/** The same in a line, where there is no room beside the posts. */
function BehindInShort({ samples }: { samples: Samples }) {
  const told: [string, string][] = [
    ["writes per second", newest(samples, "writes", figure)],
    ["on the way to the store", newest(samples, "lag_events", figure)],
    ["the log on disk within", newest(samples, "sync_us", (us) => `${figure(us / 1000)} ms`, "idle")],
  ];
  const isMoving = (last(samples, "writes") ?? 0) > 0;
  return (
    <Link to={["pipeline"]} className="mb-4 grid grid-cols-3 gap-3 rounded-xl border border-line bg-panel p-3 hover:bg-raised">
      {told.map(([name, value]) => (
        <span key={name} className="min-w-0">
          <span className={`block font-semibold tabular-nums ${isMoving ? "text-accent-text" : ""}`}>{value}</span>
          <span className="block text-xs text-soft">{name}</span>
        </span>
      ))}
    </Link>
  );
}

export function Feed() {
  const [user, setUser] = useStored("user", feedUsers[0]!);
  const [burstSize, setBurstSize] = useStored("burst", String(bursts[1]));
  const [touched, setTouched] = useState(burst.state?.item ?? posts[0]!.item);
  const isWide = useMedia("(width >= 80rem)"); // as the classes xl:
  const { samples } = useFigures(60);
  const minute = useMemo(() => recent(samples, 60), [samples]);
  const status = useStatus();
  const kinds = useMemo(() => status.data?.kinds.slice(0, KINDS_SHOWN) ?? [], [status.data]);
  const known = useLoaded(() => loadKnown(user, kinds), `${user} ${kinds.join(" ")}`);
  return (
    <div className="mx-auto max-w-2xl xl:max-w-none">
      <PageTitle title="Feed" aside={
        <div className="flex gap-3">
          <Field label="Going viral is">
            <select className={fieldLook} value={burstSize} onChange={(event) => setBurstSize(event.target.value)}>
              {bursts.map((count) => <option key={count} value={count}>{exact(String(count))} likes</option>)}
            </select>
          </Field>
          <UserPicker user={user} onChange={setUser} />
        </div>
      }>
        Tally counts likes, votes and views: each once, safe on disk before it says so, and provable later. Like a post, or let one go viral, and watch.
        Open this page twice: both see the same numbers move.
      </PageTitle>
      {!isWide && <BehindInShort samples={minute} />}
      <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,1fr)_22rem] xl:gap-6">
        <div className="flex min-w-0 flex-col gap-4">
          {known.problem && <Trouble problem={known.problem} onAgain={known.reload} />}
          {posts.map((post) => (
            <PostCard key={post.item} post={post} user={user} kinds={kinds.length ? kinds : usualKinds} known={known.data?.get(post.item)}
              burstSize={Number(burstSize)} onTouch={setTouched} />
          ))}
        </div>
        {isWide && <aside aria-label="What happens behind it" className="h-full"><Behind samples={minute} status={status.data} item={touched} /></aside>}
      </div>
    </div>
  );
}
