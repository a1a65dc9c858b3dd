// The feed: posts that people like and dislike, as on a social site.

import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Link } from "wouter";
import { api, call, type Problem } from "../lib/api";
import { runBurst, type BurstState } from "../lib/burst";
import { changes } from "../lib/changes";
import { exact, figure } from "../lib/format";
import { useLoaded, useStored } from "../lib/hooks";
import { ItemReactions } from "../lib/reactions";
import { Button, Card, Count, Field, fieldLook, PageTitle, Trouble } from "../parts/basics";
import { Icon } from "../parts/icons";
import { notify } from "../parts/notices";

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

const users = ["ann", "ben", "cho", "dana"];
const bursts = [1_000, 10_000, 100_000];

const labels: Record<string, [give: string, take: string]> = {
  like: ["Like", "Take your like back"],
  dislike: ["Dislike", "Take your dislike back"],
};

function labelOf(kind: string, isHeld: boolean): string {
  return labels[kind]?.[isHeld ? 1 : 0] ?? (isHeld ? `Take ${kind} back` : kind);
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
      aria-label={`${labelOf(kind, isHeld)}: ${count === undefined ? "…" : exact(count)}`} title={count && exact(count)}
      className={`inline-flex h-10 min-w-22 items-center justify-center gap-2 rounded-full border px-4 text-sm font-medium transition active:scale-95
        disabled:opacity-60 ${isHeld ? "border-accent bg-accent-soft text-accent-text" : "border-line text-soft hover:bg-raised hover:text-ink"}`}>
      {isThumb ? <Icon name={kind} filled={isHeld} /> : kind}
      <Count value={count} />
    </button>
  );
}

/** Goes viral: watch the number, then look at the pipeline and the shards. */
function Viral({ item }: { item: string }) {
  const [state, setState] = useState<BurstState>();
  const [size, setSize] = useState(String(bursts[1]));
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const start = () => {
    stop.current = new AbortController();
    setState({ wanted: Number(size), sent: 0, failed: 0, perSecond: 0, isOver: false });
    void runBurst(item, Number(size), stop.current.signal, setState);
  };
  const isRunning = state !== undefined && !state.isOver;
  return (
    <div className="flex flex-col gap-3 border-t border-line px-4 py-3 sm:px-5">
      <div className="flex flex-wrap items-center gap-2">
        {isRunning ? (
          <Button icon="close" onClick={() => stop.current?.abort()}>Stop</Button>
        ) : (
          <Button icon="rocket" onClick={start}>Go viral</Button>
        )}
        <select aria-label="How many likes" className={`${fieldLook} w-auto!`} value={size} disabled={isRunning}
          onChange={(event) => setSize(event.target.value)}>
          {bursts.map((count) => <option key={count} value={count}>{exact(String(count))} likes</option>)}
        </select>
        <span className="grow" />
        <Link href={`/counters/${encodeURIComponent(`${item}/like`)}`} className="text-sm font-medium text-accent-text hover:underline">
          See its shards
        </Link>
        <Link href="/overview" className="text-sm font-medium text-accent-text hover:underline">Watch the server</Link>
      </div>
      {state && (
        <div className="flex flex-col gap-1.5 text-xs text-soft">
          <progress className="h-2 w-full overflow-hidden rounded-full accent-accent" max={state.wanted} value={state.sent}
            aria-label="Likes sent" />
          <p role="status" className="tabular-nums">
            {exact(String(state.sent))} of {exact(String(state.wanted))} likes by as many users
            {state.sent > 0 && <>, {figure(state.perSecond)} per second</>}
            {state.failed > 0 && <>, {exact(String(state.failed))} refused</>}
            {state.isOver && !state.problem && (state.sent === state.wanted ? ". Done." : ". Stopped.")}
          </p>
          {state.problem && <Trouble problem={state.problem} onAgain={start} />}
        </div>
      )}
    </div>
  );
}

function PostCard({ post, user, kinds, held }: { post: Post; user: string; kinds: string[]; held: string | null | undefined }) {
  const onProblem = useCallback(
    (problem: Problem, wanted: string | null) =>
      notify("bad", `${wanted ? `Your ${wanted}` : "Your change"} on ${post.author}’s post was not taken: ${problem.text}`),
    [post.author],
  );
  const reactions = useMemo(() => new ItemReactions(post.item, user, onProblem), [post.item, user, onProblem]);
  const shown = useSyncExternalStore(reactions.subscribe, reactions.getShown);
  const counts = useLoaded(() => api.item(post.item), post.item);
  useEffect(() => {
    if (counts.data && held !== undefined) reactions.known(held, counts.data.counts, counts.data.as_of);
  }, [reactions, counts.data, held]);
  useEffect(() => {
    const ends = kinds.map((kind) =>
      changes.subscribe(`${post.item}/${kind}`, (change) => reactions.live(kind, change.value ?? "0", change.as_of)));
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
            <ReactionButton key={kind} kind={kind} count={shown.counts[kind]} isHeld={shown.held === kind} isKnown={shown.isKnown}
              onClick={() => reactions.click(kind)} />
          ))}
          {shown.held && <span className="text-xs text-soft">{shown.held === "like" ? "Liked" : `“${shown.held}”`} by you</span>}
        </div>
      </article>
      <Viral item={post.item} />
    </Card>
  );
}

function UserPicker({ user, onChange }: { user: string; onChange: (user: string) => void }) {
  const [typed, setTyped] = useState(user);
  useEffect(() => setTyped(user), [user]);
  const take = () => typed.trim() && onChange(typed.trim());
  return (
    <form className="w-44" onSubmit={(event) => { event.preventDefault(); take(); }}>
      <Field label="You are">
        <input className={fieldLook} value={typed} list="users" maxLength={256} autoComplete="off" spellCheck={false}
          onChange={(event) => setTyped(event.target.value)} onBlur={take} />
      </Field>
      <datalist id="users">{users.map((name) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

export function Feed() {
  const [user, setUser] = useStored("user", users[0]!);
  const status = useLoaded(() => call<{ kinds: string[] }>("/v1/status"), "kinds");
  const mine = useLoaded(() => api.mine(user, posts.map((post) => post.item)), user);
  const kinds = useMemo(() => status.data?.kinds.slice(0, 6) ?? ["like", "dislike"], [status.data]);
  const held = (item: string) => mine.data?.reactions.find((reaction) => reaction.item === item)?.reaction;
  return (
    <div className="mx-auto max-w-2xl">
      <PageTitle title="Feed" aside={<UserPicker user={user} onChange={setUser} />}>
        Each click is one event on its way through Tally. Open this page twice: both see the same numbers move.
      </PageTitle>
      <div className="flex flex-col gap-4">
        {mine.problem && <Trouble problem={mine.problem} onAgain={mine.reload} />}
        {posts.map((post) => (
          <PostCard key={post.item} post={post} user={user} kinds={kinds} held={mine.data ? held(post.item) ?? null : undefined} />
        ))}
      </div>
    </div>
  );
}
