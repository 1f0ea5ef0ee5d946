/** What a tool gave back: a sentence, a table, a report, files. */

import { useEffect, useRef } from "preact/hooks";
import type { JobResult } from "../project/session";
import { Icon } from "../shell/icons";
import { readable, unitOf } from "./fields";

export function Results({ result }: { result: JobResult }) {
  const { text, table, report, files } = result;
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.scrollIntoView({ block: "nearest" }), [result]);
  const facts = Object.entries(report ?? {}).filter(([, value]) => typeof value !== "object" || value === null);
  return (
    <div class="result" aria-live="polite" ref={place}>
      {text !== undefined && text !== "" && <p>{text}</p>}
      {table !== undefined && table.length > 0 && <DataTable rows={table} />}
      {facts.length > 0 && (
        <table class="facts">
          <tbody>{facts.map(([name, value]) => <tr key={name}><td>{readable(name)}</td><td class={typeof value === "string" ? "" : "n"}>{show(value)} {unitOf(name)}</td></tr>)}</tbody>
        </table>
      )}
      {files?.map((file) => (
        <a key={file.url} class="file" href={file.url} download={file.name}>
          <Icon name="export" size={16} />
          <span class="grow cut">{file.name}</span>
          <span class="muted num">{formatBytes(file.size)}</span>
        </a>
      ))}
    </div>
  );
}

export function DataTable({ rows }: { rows: Record<string, unknown>[] }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    <div class="scroll-x">
      <table class="facts">
        <thead><tr>{columns.map((column) => <th key={column} class={typeof rows[0][column] === "number" ? "n" : ""}>{readable(column)} <span class="unit">{unitOf(column)}</span></th>)}</tr></thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>{columns.map((column) => <td key={column} class={typeof row[column] === "number" ? "n" : ""}>{column === columns[0] && typeof row[column] === "string" ? readable(row[column]) : show(row[column])}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A value for people: numbers to four digits, rounding as zero, switches in words. */
export function show(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Math.abs(value) < 1e-9 ? "0" : String(Number(value.toPrecision(Number.isInteger(value) ? 15 : 4)));
  return Array.isArray(value) ? value.map(show).join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function formatBytes(bytes: number): string {
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Seconds as "12 s" or "3 min". */
export function formatLeft(seconds: number): string {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} s left` : `${Math.round(seconds / 60)} min left`;
}
