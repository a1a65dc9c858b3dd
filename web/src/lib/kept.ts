// Something small that this browser remembers, for good or until the tab is closed. Where it may not remember
// anything, the page works all the same, and forgets.

type Area = "local" | "session";

function storage(area: Area): Storage {
  return area === "local" ? window.localStorage : window.sessionStorage;
}

export function recall(name: string, area: Area = "local"): string | null {
  try {
    return storage(area).getItem(`tally.${name}`);
  } catch {
    return null;
  }
}

/** Whether it is remembered: storage may be blocked, or full. */
export function remember(name: string, value: string, area: Area = "local"): boolean {
  try {
    storage(area).setItem(`tally.${name}`, value);
    return true;
  } catch {
    return false;
  }
}
