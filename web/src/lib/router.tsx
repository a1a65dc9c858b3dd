// Where one is: behind the "#", so that the server has one page only. "#/counters/video1%2Flike" is ["counters", "video1/like"].

import { useSyncExternalStore, type AnchorHTMLAttributes } from "react";

type Place = string[];

/** The hash of a place, each part of it encoded: ids may hold anything. */
export function hashOf(...place: Place): string {
  return `#/${place.map(encodeURIComponent).join("/")}`;
}

export function placeOf(hash: string): Place {
  return hash.replace(/^#?\/?/, "").split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // somebody has typed a "%"
    }
  });
}

export function go(...place: Place): void {
  window.location.hash = hashOf(...place);
}

export function usePlace(): Place {
  const hash = useSyncExternalStore(
    (listener) => {
      window.addEventListener("hashchange", listener);
      return () => window.removeEventListener("hashchange", listener);
    },
    () => window.location.hash,
  );
  return placeOf(hash);
}

export function Link({ to, ...rest }: { to: Place } & AnchorHTMLAttributes<HTMLAnchorElement>) {
  return <a {...rest} href={hashOf(...to)} />;
}
