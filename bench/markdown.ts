/** Tables, numbers and places in a page that a run may replace. */
import { readFileSync, writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'

/** The first column is text, the others are numbers and stand to the right, unless all are text. */
export function table(
  head: readonly string[],
  lines: readonly (readonly string[])[],
  columns: 'numbers' | 'text' = 'numbers',
): string {
  const rule = head.map((_, column) => (column === 0 || columns === 'text' ? '---' : '--:'))
  const row = (cells: readonly string[]): string =>
    `| ${head.map((_, column) => cells[column] ?? '').join(' | ')} |`
  return [head, rule, ...lines].map(row).join('\n')
}

export function range(values: readonly number[], digits: number): string {
  return `${grouped(Math.min(...values), digits)} to ${grouped(Math.max(...values), digits)}`
}

/** As the format check wants it; `file` says how. */
export async function formatted(file: string, markdown: string): Promise<string> {
  return format(markdown, { ...(await resolveConfig(file)), filepath: file })
}

/** Replaces what stands between `<!-- NAME -->` and `<!-- /NAME -->`; throws if the file has no such place. */
export async function replaceBlock(file: string, name: string, markdown: string): Promise<void> {
  const [start, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const page = readFileSync(file, 'utf8')
  const [from, to] = [page.indexOf(start), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${file} has no place marked ${start} … ${end}`)
  const text = `${page.slice(0, from + start.length)}\n\n${markdown}\n\n${page.slice(to)}`
  writeFileSync(file, await formatted(file, text))
}

/** 100000 as 100,000; with so many digits behind the point. */
export function grouped(value: number, digits = 0): string {
  const [minimumFractionDigits, maximumFractionDigits] = [digits, digits]
  return value.toLocaleString('en-US', { minimumFractionDigits, maximumFractionDigits })
}

/** A number with at most three figures that count, such as 0.0123, 1.2 or 4,560. */
export function three(value: number): string {
  if (!Number.isFinite(value)) return '–'
  if (Math.abs(value) >= 1000) return grouped(Number(value.toPrecision(3)))
  return String(Number(value.toPrecision(3)))
}

export const percent = (share: number): string => `${(share * 100).toFixed(1)} %`
