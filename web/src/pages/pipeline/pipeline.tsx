// The way of an event: from the door to the store, what is on its way, what was refused and what to do about it.

import { useFigures } from "../../lib/figures";
import { exact } from "../../lib/format";
import { Link } from "../../lib/router";
import { useStatus } from "../../lib/status";
import { Badge } from "../../parts/basics";
import { useTrouble } from "../../parts/notices";
import { PageTitle } from "../../parts/title";
import { stationsOf, Way } from "../../parts/way";
import { DeadLetters } from "./letters";
import { stateTones, Units } from "./units";

const EVERY_MS = 2000;
const LETTERS = "dead-letters"; // the place of the list of them
const letterPlaces = [LETTERS, "dlq"]; // as the API calls it

/** Two lists, each with a place of its own. */
function Lists({ isLetters, letters }: { isLetters: boolean; letters: number | undefined }) {
  const look = (isHere: boolean) =>
    `inline-flex h-10 items-center gap-2 border-b-2 px-1 text-sm font-medium ${isHere ? "border-accent text-ink" : "border-transparent text-soft hover:text-ink"}`;
  return (
    <nav aria-label="Lists" className="mt-6 mb-3 flex gap-6 border-b border-line">
      <Link to={["pipeline"]} className={look(!isLetters)} aria-current={isLetters ? undefined : "true"}>Events</Link>
      <Link to={["pipeline", LETTERS]} className={look(isLetters)} aria-current={isLetters ? "true" : undefined}>
        Dead letters{letters !== undefined && letters > 0 && <Badge tone="bad">{exact(String(letters))}</Badge>}
      </Link>
    </nav>
  );
}

export default function Pipeline({ list = "" }: { list?: string }) {
  const { samples } = useFigures(60);
  const { data: status, problem } = useStatus(EVERY_MS);
  useTrouble(problem);
  const isLetters = letterPlaces.includes(list);
  if (!isLetters && list !== "" && !(list in stateTones))
    return <PageTitle title="There is no such list">The pipeline has no list “{list}”. <Link to={["pipeline"]} className="text-accent-text underline">To the events</Link></PageTitle>;
  return (
    <>
      <PageTitle title="Pipeline">What was acknowledged is in the log. From there it reaches the store exactly once, whatever is restarted in between.</PageTitle>
      <Way stations={stationsOf(samples, status)} />
      <Lists isLetters={isLetters} letters={status?.pipeline?.dead_letters} />
      {isLetters ? <DeadLetters /> : <Units state={list} totals={status?.pipeline} />}
    </>
  );
}
