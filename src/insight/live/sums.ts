/** Adds up what several gateways have counted, each by itself. */
import { LISTED_DECISIONS, type Decision } from '../../core/record/recent.ts'

/** Makes one row of those that are the same `by` these fields: numbers add up, of all else the first counts, unless `rest` has it. */
export const summed = <Row extends object>(
  rows: readonly Row[],
  by: readonly (keyof Row)[],
  rest: (both: readonly [Row, Row]) => Partial<Row>,
): Row[] => {
  const same = Map.groupBy(rows, (row) => JSON.stringify(by.map((name) => row[name])))
  const sum = (one: Row, other: Row): Row => ({ ...plus(one, other), ...rest([one, other]) })
  return Array.from(same.values(), (alike) => alike.reduce(sum))
}

function plus<Value>(one: Value, other: Value): Value {
  // Rates have one decimal.
  if (typeof one === 'number') return (Math.round(10 * (one + Number(other))) / 10) as Value
  if (typeof one !== 'object' || one === null) return one
  const more = new Map<string, unknown>(Object.entries(other ?? {}))
  const sums = Object.entries(one).map(([name, value]) => [name, plus(value, more.get(name))])
  return Object.fromEntries(sums) as Value
}

/** Returns the time since which all of them count. */
export const latestOf = (parts: readonly { readonly since: string }[]): string =>
  parts.reduce((latest, { since }) => (since > latest ? since : latest), '')

/** The latest decisions of several processes or gateways, newest first. */
export const newestOf = (all: readonly (readonly Decision[])[]): Decision[] =>
  all
    .flat()
    .sort((one, other) => Date.parse(other.at) - Date.parse(one.at))
    .slice(0, LISTED_DECISIONS)
