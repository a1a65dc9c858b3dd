// Numbers, sizes and times as people read them. Counts are decimal strings of any length.

const LETTERS = ["", "K", "M", "B", "T"];

/** "1234567" -> "1.2M"; what is below 1,000 stays as it is, what is beyond a quadrillion gets a power of ten. */
export function compact(value: string): string {
  const minus = value.startsWith("-") ? "−" : "";
  const digits = value.replace(/^-/, "");
  if (digits.length <= 3) return minus + digits;
  const group = Math.floor((digits.length - 1) / 3);
  const lead = digits.length - group * 3;
  if (group >= LETTERS.length) return `${minus}${digits[0]}.${digits[1]}×10${superscript(digits.length - 1)}`;
  // Cut and not rounded: 999,999 likes are not a million.
  const tenth = lead < 3 && digits[lead] !== "0" ? `.${digits[lead]}` : "";
  return minus + digits.slice(0, lead) + tenth + LETTERS[group];
}

function superscript(number: number): string {
  return [...String(number)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");
}

/** "1234567" -> "1,234,567" */
export function exact(value: string): string {
  return value.replace(/^-/, "−").replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** As it is seen, and exactly: for who listens. */
export function spoken(value: string | undefined): string {
  if (value === undefined) return "…";
  const [short, long] = [compact(value), exact(value)];
  return short === long ? long : `${short}, exactly ${long}`;
}

/** A number that was measured: three digits of it. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return compact(String(Math.round(value)));
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value.toFixed(size >= 10 ? 1 : 2);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** Milliseconds -> "350 µs", "12 ms", "3.4 s", "5 min", "2 h", "3 d" */
export function duration(ms: number): string {
  if (ms < 0.001) return "0 ms";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** "just now", "5 min ago"; what lies ahead is "in 8 s". */
export function ago(time: string | number, now = Date.now()): string {
  const past = now - (typeof time === "number" ? time : Date.parse(time));
  if (past < -1000) return `in ${duration(-past)}`;
  return past < 2000 ? "just now" : `${duration(past)} ago`;
}

/** The moment, in the reader's own time zone. */
export function moment(time: string | number): string {
  return new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** The time of day, to the second or to the minute. */
export function clock(time: string | number, hasSeconds = true): string {
  return new Date(time).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: hasSeconds ? "2-digit" : undefined, hourCycle: "h23" });
}

/** What changed, of a counter or of the reactions of an item: "5" -> "+5", {"like":2,"dislike":-1} -> "+2 like, −1 dislike" */
export function changeText(delta: string): string {
  const signed = (value: string) => (value.startsWith("-") ? `−${exact(value.slice(1))}` : `+${exact(value)}`);
  if (!delta.startsWith("{")) return /^-?\d+$/.test(delta) ? signed(delta) : delta;
  try {
    return Object.entries(JSON.parse(delta) as Record<string, number>).map(([kind, count]) => `${signed(String(count))} ${kind}`).join(", ");
  } catch {
    return delta;
  }
}

/** Sums of counts, which may be beyond what a double can hold. */
export function plus(value: string, amount: number): string {
  return (BigInt(value) + BigInt(amount)).toString();
}
