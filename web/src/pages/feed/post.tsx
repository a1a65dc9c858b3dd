// A post that people like and dislike, and that may go viral.

import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Counts, Problem } from "../../lib/api";
import { burst, endOf, useBurst, type BurstState } from "../../lib/burst";
import { changes } from "../../lib/changes";
import { demoId } from "../../lib/demo";
import { exact, figure, spoken } from "../../lib/format";
import { ItemReactions } from "../../lib/reactions";
import { Link } from "../../lib/router";
import { Button, Card, Count, Trouble } from "../../parts/basics";
import { Confirm } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { notify } from "../../parts/notices";

export interface Post {
  item: string;
  author: string;
  text: string;
}

const labels: Record<string, [give: string, take: string]> = {
  like: ["Like", "Take your like back"],
  dislike: ["Dislike", "Take your dislike back"],
};

function labelOf(kind: string, isHeld: boolean): string {
  return labels[kind]?.[isHeld ? 1 : 0] ?? (isHeld ? `Take ${kind} back` : kind);
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
  return (
    <div className="flex flex-col gap-2 border-t border-line px-4 py-3 text-xs text-soft sm:px-5">
      <progress className="bar" max={state.wanted} value={state.sent} aria-label="Likes sent" />
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1">
        <p className="tabular-nums">
          {exact(String(state.sent))} of {exact(String(state.wanted))} likes, each by another user
          {state.sent > 0 && <>; {figure(state.perSecond)} per second</>}
          {state.failed > 0 && <>; {exact(String(state.failed))} refused</>}.{" "}
          <span role="status">{endOf(state)}</span>
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

/** A burst is for a server that is there to be tried: the log keeps every like of it. */
function ConfirmBurst({ item, count, onConfirm, onClose }: { item: string; count: number; onConfirm: () => Promise<void>; onClose: () => void }) {
  const likes = exact(String(count));
  return (
    <Confirm title={`Send ${likes} invented likes?`} action={`Send ${likes} likes`} look="main" onConfirm={onConfirm} onClose={onClose}>
      <p className="mb-2">
        {likes} invented users, <code className="font-mono wrap-anywhere">{demoId("crowd-…")}</code>, like <code className="font-mono wrap-anywhere">{item}</code> on
        the server {window.location.host}. Each like is an event in its log and a row in its store.
      </p>
      <p>“Remove demo data” deletes the post and its likes. The events stay in the log until its retention removes them.</p>
    </Confirm>
  );
}

/** How a post stands, as the server says. */
export interface Known {
  held: string | null;
  counts: Counts;
}

export function PostCard({ post, user, kinds, known, burstSize, onTouch }: {
  post: Post;
  user: string;
  kinds: string[];
  known: Known | undefined;
  burstSize: number;
  onTouch: (item: string) => void;
}) {
  const anyBurst = useBurst();
  const ours = anyBurst?.item === post.item ? anyBurst : undefined;
  const [isAsked, setAsked] = useState(false);
  const goViral = async () => {
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
          {shown.held && <span className="hidden text-xs text-soft sm:inline">{pastOf(shown.held)} by you</span>}
          <span className="grow" />
          {ours && !ours.isOver ? (
            <Button icon="close" onClick={() => burst.stop()}>Stop</Button>
          ) : (
            <Button icon="rocket" onClick={() => setAsked(true)}>Go viral</Button>
          )}
        </div>
      </article>
      {ours && <BurstReport item={post.item} state={ours} onAgain={() => setAsked(true)} />}
      {isAsked && <ConfirmBurst item={post.item} count={burstSize} onConfirm={goViral} onClose={() => setAsked(false)} />}
    </Card>
  );
}
