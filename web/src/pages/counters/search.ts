// What somebody types to find counters, and what the server is asked for.
//
// The server's patterns are about counters and items; an item's count, "video1/like", has a name on the page only. So the server is
// asked for all that may be meant, and the page shows what has such a name.

/** What somebody types is a part of the name, unless it is a pattern already. */
export function patternOf(typed: string): string {
  if (typed === "") return "*";
  return /[*?[\]]/.test(typed) ? typed : `*${typed}*`;
}

/** The pattern for the server: items are asked for without what is behind the last slash. */
export function askedOf(pattern: string): string {
  const slash = pattern.lastIndexOf("/");
  if (slash < 0) return pattern;
  const start = pattern.slice(0, slash);
  return /(?<!\\)(?:\\\\)*\*$/.test(start) ? start : `${start}*`;
}

/** As the server matches: * ? [a-z] [^a] \\x */
function expressionOf(pattern: string): RegExp {
  const parts = pattern.match(/\\.|\[\^?(?:\\.|[^\]])*\]?|[^]/gu) ?? [];
  const source = parts.map((part) => {
    if (part === "*") return "[^]*";
    if (part === "?") return "[^]";
    if (part.startsWith("[") && part.length > 2) return `${part.replace(/\]$/, "")}]`; // one that nobody has closed ends with the pattern
    return part.replace(/^\\(?=.)/, "").replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  });
  return new RegExp(`^${source.join("")}$`, "u");
}

/** Of what the server has found, that which is meant. Without a slash in the pattern it is about items with all their counts. */
export function filterOf(pattern: string): (id: string) => boolean {
  if (!pattern.includes("/")) return () => true;
  try {
    const expression = expressionOf(pattern);
    return (id) => expression.test(id);
  } catch {
    return () => true; // a class that browsers read differently: rather too many
  }
}
