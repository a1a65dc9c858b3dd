// A chart of samples over time, drawn by uPlot on a canvas: an hour of seconds costs nothing.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Column, Samples } from "../lib/figures";

export interface Line {
  column: Column;
  name: string;
  colour: "accent" | "good" | "warn" | "bad" | "soft";
}

const HEIGHT = 180;

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function options(lines: Line[], width: number, text: (value: number) => string): uPlot.Options {
  const soft = colourOf("soft");
  const grid = { stroke: colourOf("line"), width: 1 };
  return {
    width,
    height: HEIGHT,
    cursor: { y: false },
    legend: { live: true },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [
      { stroke: soft, grid: { show: false }, ticks: grid },
      { stroke: soft, grid, ticks: { show: false }, size: 64, values: (_plot, values) => values.map(text) },
    ],
    series: [
      { label: "Time", value: (_plot, value) => (value === null ? "–" : new Date(value * 1000).toLocaleTimeString()) },
      ...lines.map((line) => ({
        label: line.name,
        stroke: colourOf(line.colour),
        width: 1.75,
        points: { show: false },
        value: (_plot: uPlot, value: number | null) => (value === null ? "–" : text(value)),
      })),
    ],
  };
}

function dataOf(samples: Samples, lines: Line[]): uPlot.AlignedData {
  return [samples.time.map((time) => (time ?? 0) / 1000), ...lines.map((line) => samples[line.column])] as uPlot.AlignedData;
}

/** `label` says for those who cannot see it what is drawn; the newest figures stand beside the chart as text. */
export function Chart({ label, samples, lines, text }: {
  label: string;
  samples: Samples;
  lines: Line[];
  text: (value: number) => string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const latest = useRef({ samples, lines, text });
  latest.current = { samples, lines, text };
  useEffect(() => {
    const draw = () => {
      const now = latest.current;
      plot.current?.destroy();
      plot.current = new uPlot(options(now.lines, place.current!.clientWidth, (value) => latest.current.text(value)),
        dataOf(now.samples, now.lines), place.current!);
    };
    draw();
    const onSize = new ResizeObserver(() => plot.current?.setSize({ width: place.current!.clientWidth, height: HEIGHT }));
    onSize.observe(place.current!);
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
  }, []);
  useEffect(() => plot.current?.setData(dataOf(samples, lines)), [samples, lines]);
  return <div ref={place} role="img" aria-label={label} className="chart min-h-[212px] w-full" />;
}
