/** Numbers as the pages show them, and the places in a page that a run may replace. */
import { readFileSync, writeFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'

/** Replaces what stands between `<!-- NAME -->` and `<!-- /NAME -->`; throws if the file has no such place. */
export async function replaceBlock(file: string, name: string, markdown: string): Promise<void> {
  const [start, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
  const page = readFileSync(file, 'utf8')
  const from = page.indexOf(start)
  const to = page.indexOf(end)
  if (from < 0 || to < from) throw new Error(`${file} has no place marked ${start} … ${end}`)
  const text = `${page.slice(0, from + start.length)}\n\n${markdown}\n\n${page.slice(to)}`
  await writeFormatted(file, text)
}

/** Writes the page as the format check wants it. */
export async function writeFormatted(file: string, markdown: string): Promise<void> {
  writeFileSync(file, await format(markdown, { ...(await resolveConfig(file)), filepath: file }))
}

/** 100000 as 100,000. */
export function grouped(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 })
}

/** A number with at most three figures that count, such as 0.0123, 1.2 or 4,560. */
export function three(value: number): string {
  if (!Number.isFinite(value)) return '–'
  if (Math.abs(value) >= 1000) return grouped(Number(value.toPrecision(3)))
  return String(Number(value.toPrecision(3)))
}

export function mebibytes(bytes: number): string {
  return three(bytes / 2 ** 20)
}

export function percent(share: number, digits = 2): string {
  return `${(share * 100).toFixed(digits)} %`
}
