/** Tables and figures as the report prints them. */

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2
}

export function range(values: readonly number[], digits: number): string {
  return `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`
}

/** Aligned as prettier would. The first column is text, the others are numbers and stand to the right. */
export function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(4, title.length, ...lines.map((line) => line[column]?.length ?? 0)),
  )
  const row = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (column === 0 ? (cells[column] ?? '').padEnd(width) : (cells[column] ?? '').padStart(width))).join(' | ')} |`
  const rule = widths.map((width, column) =>
    column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  )
  return [row(head), row(rule), ...lines.map(row)].join('\n')
}
