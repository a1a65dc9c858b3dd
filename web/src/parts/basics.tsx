// The small parts that all pages are made of.

import type { ButtonHTMLAttributes, ReactNode } from "react";
import type { Problem } from "../lib/api";
import { compact, exact } from "../lib/format";
import { Icon, type IconName } from "./icons";

export function Card({ children, title, aside }: {
  children: ReactNode;
  title?: string;
  aside?: ReactNode;
}) {
  return (
    <section className="rounded-xl border border-line bg-panel" aria-label={title}>
      {title && (
        <header className="flex min-h-11 flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2">
          <h2 className="text-sm font-semibold">{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

export type Look = "main" | "plain" | "danger";

const looks: Record<Look, string> = {
  main: "bg-accent text-accent-ink hover:brightness-110",
  plain: "border border-line bg-panel hover:bg-raised",
  danger: "border border-bad text-bad hover:bg-bad-soft",
};

export function Button({ look = "plain", icon, children, className = "", ...rest }: {
  look?: Look;
  icon?: IconName;
} & ButtonHTMLAttributes<HTMLButtonElement>) {
  return (
    <button type="button" {...rest}
      className={`inline-flex h-9 items-center justify-center gap-2 rounded-lg px-3 text-sm font-medium whitespace-nowrap transition
        disabled:cursor-not-allowed disabled:opacity-55 ${looks[look]} ${className}`}>
      {icon && <Icon name={icon} className="size-4" />}
      {children}
    </button>
  );
}

export const fieldLook =
  "h-9 w-full rounded-lg border border-strong-line bg-panel px-3 text-sm text-ink placeholder:text-soft focus-visible:outline-offset-0";

/** A label above what is to be filled in. */
export function Field({ label, children }: { label: string; children: ReactNode }) {
  return (
    <label className="flex min-w-0 flex-col gap-1 text-xs font-medium text-soft">
      {label}
      {children}
    </label>
  );
}

export type Tone = "good" | "warn" | "bad" | "plain" | "accent";

const tones: Record<Tone, string> = {
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
  plain: "bg-raised text-soft",
  accent: "bg-accent-soft text-accent-text",
};

export function Badge({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span className={`inline-flex items-center gap-1 rounded-md px-2 py-0.5 text-xs font-medium ${tones[tone]}`}>{children}</span>
  );
}

/** A count: short, and exact for who points at it, or listens. */
export function Count({ value, className = "" }: { value: string | null | undefined; className?: string }) {
  if (value === undefined || value === null) return <span className={className}>–</span>;
  const short = compact(value);
  const long = exact(value);
  return (
    <span className={`tabular-nums ${className}`} title={long}>
      {short === long ? short : <><span aria-hidden="true">{short}</span><span className="sr-only">{long}</span></>}
    </span>
  );
}

/** Nothing is here, and what to do about it. */
export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="flex flex-col items-center gap-2 px-6 py-12 text-center">
      <span className="rounded-full bg-raised p-3 text-soft"><Icon name={icon} className="size-6" /></span>
      <p className="font-medium">{title}</p>
      {children && <div className="max-w-prose text-sm text-soft">{children}</div>}
    </div>
  );
}

export function Trouble({ problem, onAgain }: { problem: Problem; onAgain?: () => void }) {
  return (
    <div role="alert" className="flex flex-wrap items-center gap-3 rounded-lg bg-bad-soft px-4 py-3 text-sm text-bad">
      <Icon name="warning" />
      <p className="min-w-0 flex-1 break-words">{problem.text}</p>
      {onAgain && <Button look="danger" onClick={onAgain}>Try again</Button>}
    </div>
  );
}

/** Where something will be, so that nothing jumps when it comes. */
export function Waiting({ className = "h-5 w-24" }: { className?: string }) {
  return <span className={`inline-block animate-pulse rounded bg-raised ${className}`} aria-hidden="true" />;
}
