// The demo: posts that people like and dislike, as on a social site.

import { useEffect, useMemo, useState } from "react";
import { api, Problem } from "../../lib/api";
import { burst } from "../../lib/burst";
import { demoId, demoUsers, PREFIX, removeDemo } from "../../lib/demo";
import { recent, useFigures } from "../../lib/figures";
import { exact } from "../../lib/format";
import { useLoaded, useMedia, useStored } from "../../lib/hooks";
import { useStatus } from "../../lib/status";
import { Button, Field, fieldLook, Trouble } from "../../parts/basics";
import { Confirm } from "../../parts/dialog";
import { notify, useTrouble } from "../../parts/notices";
import { PageTitle } from "../../parts/title";
import { Behind, BehindInShort } from "./behind";
import { PostCard, type Known, type Post } from "./post";

const posts: Post[] = [
  { item: demoId("post-aurora"), author: "Mira Okafor", text: "Northern lights over the fjord last night. Stood there for two hours, forgot my gloves, regret nothing." },
  { item: demoId("post-sourdough"), author: "Jonas Weber", text: "Day 12 of keeping a sourdough starter alive. It has a name now. It is called Clint Yeastwood." },
  { item: demoId("post-marathon"), author: "Aisha Rahman", text: "First marathon done: 4:12:37. The last five kilometres were run entirely on spite and orange slices." },
  { item: demoId("post-tabs"), author: "Lena Petrov", text: "Tabs or spaces? Choose wisely, we are all watching the counter." },
  { item: demoId("post-cat"), author: "Diego Alvarez", text: "The cat learned to open the fridge. We have learned to negotiate." },
];

const usualKinds = ["like", "dislike"];
const KINDS_SHOWN = 6;
const bursts = [1_000, 100_000, 1_000_000];

function UserPicker({ user, onChange }: { user: string; onChange: (user: string) => void }) {
  const [typed, setTyped] = useState(user);
  useEffect(() => setTyped(user), [user]);
  const take = () => typed.trim() && onChange(typed.trim());
  return (
    <form className="w-32" onSubmit={(event) => { event.preventDefault(); take(); }}>
      <Field label="You are">
        <input className={fieldLook} value={typed} list="users" maxLength={200} autoComplete="off" spellCheck={false}
          onChange={(event) => setTyped(event.target.value)} onBlur={take} />
      </Field>
      <datalist id="users">{demoUsers.map((name) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

/** What the user holds on all posts, and their counts. */
async function loadKnown(user: string, kinds: string[]): Promise<Map<string, Known>> {
  if (kinds.length === 0) return new Map();
  const items = posts.map((post) => post.item);
  const ids = items.flatMap((item) => kinds.map((kind) => `${item}/${kind}`));
  const [mine, values] = await Promise.all([api.mine(user, items), api.values(ids)]);
  if (values.length < ids.length) throw new Problem(503, "", "Not all counts are known now", "", "The page tries again by itself");
  const counts = new Map(values.map((counter) => [counter.id, counter.value ?? "0"]));
  return new Map(mine.reactions.map(({ item, reaction }) => [
    item,
    { held: reaction, counts: Object.fromEntries(kinds.map((kind) => [kind, counts.get(`${item}/${kind}`) ?? "0"])) },
  ]));
}

/** What the demo writes, and how to get rid of it. */
function DemoNote({ onRemoved }: { onRemoved: () => void }) {
  const [isAsked, setAsked] = useState(false);
  const [removed, setRemoved] = useState<number>();
  const remove = async () => {
    setRemoved(0);
    try {
      await burst.end();
      const count = await removeDemo(setRemoved);
      notify("good", count === 0 ? "There was no demo data." : `Demo data is removed: ${count} ${count === 1 ? "item" : "items"} with all reactions.`);
    } finally {
      setRemoved(undefined);
      onRemoved();
    }
  };
  return (
    <section aria-label="About the demo" className="mb-4 flex flex-wrap items-center justify-between gap-3 rounded-xl border border-line bg-panel px-4 py-3">
      <p className="min-w-60 flex-1 text-sm text-soft">
        This demo writes to the server {window.location.host}, into its log, and only under ids that begin with <code className="font-mono text-ink">{PREFIX}</code>
      </p>
      <Button look="danger" onClick={() => setAsked(true)}>Remove demo data</Button>
      {isAsked && (
        <Confirm title="Remove demo data?" action="Remove" onConfirm={remove} onClose={() => setAsked(false)}>
          <p>
            Deletes all counters and items whose ids begin with <code className="font-mono">{PREFIX}</code>, with all their reactions. Their events stay in the log until its
            retention removes them.
          </p>
          <p role="status" className="mt-2 min-h-5 tabular-nums">{removed !== undefined && `${exact(String(removed))} deleted so far…`}</p>
        </Confirm>
      )}
    </section>
  );
}

export function Feed() {
  const [name, setName] = useStored("user", demoUsers[0]!);
  const user = demoId(name);
  const [burstSize, setBurstSize] = useStored("burst", String(bursts[1]));
  const [touched, setTouched] = useState(burst.state?.item ?? posts[0]!.item);
  const isWide = useMedia("(width >= 80rem)"); // as the classes xl:
  const { samples } = useFigures(60);
  const minute = useMemo(() => recent(samples, 60), [samples]);
  const status = useStatus();
  const kinds = useMemo(() => status.data?.kinds.slice(0, KINDS_SHOWN) ?? [], [status.data]);
  const known = useLoaded(() => loadKnown(user, kinds), `${user} ${kinds.join(" ")}`);
  const trouble = status.problem ?? known.problem;
  const isKnown = (known.data?.size ?? 0) > 0;
  useTrouble(isKnown ? trouble : undefined);
  return (
    <div className="mx-auto max-w-2xl xl:max-w-7xl">
      <PageTitle title="Demo" aside={
        <div className="flex gap-3">
          <Field label="Going viral is">
            <select className={fieldLook} value={burstSize} onChange={(event) => setBurstSize(event.target.value)}>
              {bursts.map((count) => <option key={count} value={count}>{exact(String(count))} likes</option>)}
            </select>
          </Field>
          <UserPicker user={name} onChange={setName} />
        </div>
      }>
        Like a post, or let one go viral, and watch what the server does. Open this page twice: both see the same numbers move.
      </PageTitle>
      <DemoNote onRemoved={known.reload} />
      {!isWide && <BehindInShort samples={minute} status={status.data} />}
      <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,1fr)_22rem] xl:gap-6">
        <div className="flex min-w-0 flex-col gap-4">
          {!isKnown && trouble && <Trouble problem={trouble} onAgain={status.problem ? status.reload : known.reload} />}
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
