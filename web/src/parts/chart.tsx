// A chart of values over time, drawn by uPlot on a canvas: an hour of seconds costs nothing.

import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock } from "../lib/format";
import { broken, counterRange, isolated, wholeSteps, type Values } from "./chart-data";

export type Colour = "accent" | "good" | "warn" | "bad";

export interface Line {
  name: string;
  colour: Colour;
  values: Values;
}

interface Look {
  text: (value: number) => string;
  /** In the legend, where it says more than on the axis. */
  legend?: (value: number) => string;
  /** What differs by powers of ten, such as times. */
  isLog?: boolean;
  /** The line alone. */
  isBare?: boolean;
  /** A counter: whole numbers, of which the lowest may be far above 0, and the changes are of interest. */
  isFree?: boolean;
  /** Steps are powers of two. */
  isBinary?: boolean;
  /** Samples come at least this often, unless there was nobody to take them: then the line is broken. Infinity: what is not known is null in `lines`. */
  everyMs: number;
}

const HEIGHT = 168; // the classes h-42 and h-10 below
const BARE_HEIGHT = 40;
const grounds: Record<Colour, string> = { accent: "bg-accent", good: "bg-good", warn: "bg-warn", bad: "bg-bad" };

function heightOf(look: Look): number {
  return look.isBare ? BARE_HEIGHT : HEIGHT;
}

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function timeText(seconds: number, step: number): string {
  if (step >= 86_400) return new Date(seconds * 1000).toLocaleDateString(undefined, { month: "short", day: "numeric" });
  return clock(seconds * 1000, step < 60);
}

function scaleOf({ isLog, isFree }: Look): uPlot.Scale {
  if (isLog) return { distr: 3, range: (_plot, low, high) => [10 ** Math.floor(Math.log10(low || 1)), 10 ** Math.ceil(Math.log10(Math.max(high, 10)))] };
  if (isFree) return { range: (_plot, low, high) => counterRange(low, high) };
  return { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)] };
}

const MINUTE_S = 60;
const HOUR_S = 3600;
const timeSteps = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE_S), ...[1, 2, 3, 6, 12, 24, 48, 168].map((n) => n * HOUR_S)];
const binarySteps = Array.from({ length: 50 }, (_, i) => 2 ** i);
const tensOnly = (_plot: uPlot, splits: number[]) => splits.map((at) => (Math.log10(at) % 1 === 0 ? at : null));

/** Without any, an axis has nothing to tell. */
function hasValues(plot: uPlot): boolean {
  return plot.data.slice(1).some((values) => values!.some((value) => value !== null));
}

function axesOf({ isBare, isLog, isFree, isBinary, text }: Look, soft: string, line: string): uPlot.Axis[] {
  if (isBare) return [{ show: false }, { show: false }];
  const font = "11px system-ui, sans-serif";
  return [
    { stroke: soft, font, size: 28, space: 70, incrs: timeSteps, grid: { show: false }, ticks: { stroke: line, width: 1, size: 4 },
      values: (_plot, splits, _index, _space, step) => splits.map((at) => timeText(at, step)) },
    { stroke: soft, font, size: isFree ? 84 : 58, space: 32, ...(isBinary && { incrs: binarySteps }), ...(isFree && { incrs: wholeSteps }), ...(isLog && { filter: tensOnly }),
      grid: { stroke: line, width: 1, ...(isLog && { filter: tensOnly }) }, ticks: { show: false },
      values: (plot, values) => values.map((value) => (value === null || !hasValues(plot) ? "" : text(value))) },
  ];
}

function options(lines: Line[], width: number, look: Look, onPoint: (index: number | null) => void): uPlot.Options {
  const soft = colourOf("soft");
  return {
    width,
    height: heightOf(look),
    padding: look.isBare ? [2, 0, 2, 0] : [8, 24, 0, 0], // the last time is written whole
    cursor: { show: !look.isBare, y: false, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false },
    scales: { y: scaleOf(look) },
    axes: axesOf(look, soft, colourOf("line")),
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
    series: [{}, ...lines.map((line, i) => ({
      label: line.name,
      stroke: colourOf(line.colour),
      fill: i === 0 && !look.isLog ? `${colourOf(line.colour)}1f` : undefined,
      width: 1.5,
      points: { show: false, size: 4, fill: colourOf(line.colour), filter: ((plot: uPlot, index: number) => isolated(plot.data[index] as Values)) as uPlot.Series.Points.Filter },
    }))],
  };
}

function dataOf(times: number[], lines: Line[]): uPlot.AlignedData {
  return [times.map((time) => time / 1000), ...lines.map((line) => line.values)] as uPlot.AlignedData;
}

/** The newest that there is, or what lies under the pointer. */
function shownOf(line: Line, at: number | null, text: (value: number) => string): string {
  const value = at === null ? line.values.at(-1) : line.values[at];
  return value === null || value === undefined ? "–" : text(value);
}

function Legend({ times, lines, at, text }: { times: number[]; lines: Line[]; at: number | null; text: (value: number) => string }) {
  return (
    <ul className="flex min-h-5 flex-wrap items-center gap-x-3 gap-y-1 px-4 pt-3 text-xs text-soft">
      {lines.map((line) => (
        <li key={line.name} className="flex items-center gap-1.5">
          <span className={`h-0.5 w-3 rounded ${grounds[line.colour]}`} />
          {line.name}
          <span className="font-medium text-ink tabular-nums">{shownOf(line, at, text)}</span>
        </li>
      ))}
      {at !== null && times[at] !== undefined && <li className="ml-auto tabular-nums">{timeText(times[at] / 1000, 1)}</li>}
    </ul>
  );
}

/** `label` says for those who cannot see it what is drawn; the legend has the newest figures as text. `times` in milliseconds. */
export function Chart({ label, times: taken, lines: given, ...look }: { label: string; times: number[]; lines: Line[] } & Look) {
  const { times, lines } = useMemo(() => {
    const drawn = broken(taken, given.map((line) => line.values), look.everyMs);
    return { times: drawn.times, lines: given.map((line, i): Line => ({ ...line, values: drawn.lines[i]! })) };
  }, [taken, given, look.everyMs]);
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [at, setAt] = useState<number | null>(null);
  const latest = useRef({ times, lines, look });
  latest.current = { times, lines, look };
  const height = heightOf(look);
  useEffect(() => {
    const box = place.current!; // of now: an observer may speak up when it is gone already
    const draw = () => {
      const now = latest.current;
      plot.current?.destroy();
      plot.current = new uPlot(options(now.lines, box.clientWidth, { ...now.look, text: (value) => latest.current.look.text(value) }, setAt),
        dataOf(now.times, now.lines), box);
    };
    draw();
    const onSize = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height }));
    onSize.observe(box);
    // Colours are read when it is drawn, so a change of theme draws it again.
    const onTheme = new MutationObserver(draw);
    onTheme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => {
      onSize.disconnect();
      onTheme.disconnect();
      dark.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [height]);
  useEffect(() => plot.current?.setData(dataOf(times, lines)), [times, lines]);
  return (
    <>
      {!look.isBare && <Legend times={times} lines={lines} at={at} text={look.legend ?? look.text} />}
      <div ref={place} role="img" aria-label={label} className={`w-full overflow-hidden ${look.isBare ? "h-10" : "h-42"}`} />
    </>
  );
}
