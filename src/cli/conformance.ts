/** `tollgate conformance`: checks any rate-limiting gateway from outside against what it should promise. */
import { readFileSync } from 'node:fs'
import { byLimit, windows, type FixedWindow } from '../config/time.ts'
import { columns, reportPage } from '../tools/conformance/html.ts'
import { groupNames } from '../tools/conformance/rules.ts'
import { countOf, inOneLine, runSuite, type Report } from '../tools/conformance/suite.ts'
import { FAILED, OK, usageFault } from './terminal/fault.ts'
import { lookOf, safe, type Look } from './terminal/look.ts'
import { writePage } from './terminal/page-file.ts'
import { table } from './terminal/table.ts'
import type { Output, Texts } from './edge.ts'

type ConformanceOptions = Readonly<Record<'target' | 'keys' | 'limits', string>> &
  Texts<'path' | 'only' | 'html'> & { readonly json?: boolean }

const NEEDED_KEYS = 20
/** Below, a burst of ten leaves nothing to count; above, a minute is too short for one connection. */
const [LEAST, MOST] = [20, 1_000]

/** Prints the report; where a rule is broken the work has failed. */
export async function conformanceCommand(
  edge: Output,
  { target, keys: file, limits: given, path = '/v1/pets', only, json, html }: ConformanceOptions,
): Promise<number> {
  const limits = limitsOf(given)
  const keys = keysOf(file)
  if (!/^\/[!-~]*$/.test(path)) throw usageFault(`--path ${path} does not begin with /`)
  const groups = only?.split(',') ?? []
  const unknown = groups.find((group) => !groupNames.includes(group))
  if (unknown !== undefined)
    throw usageFault(`--only ${unknown}: there are ${groupNames.join(', ')}`)
  edge.complain(`${target}: this takes up to three minutes, most of it waiting`)
  const order = { url: new URL(target), path, limits, keys, only: groups }
  const report = await runSuite(order)
  if (json === true) edge.print(JSON.stringify(report, undefined, 2))
  else {
    const look = lookOf(edge)
    for await (const line of reportLines(report, look)) edge.print(line)
    if (look === undefined) edge.complain(inOneLine(report))
  }
  // The page comes last: results that took minutes are printed even where no file can be written.
  if (html !== undefined) writePage(edge, html, reportPage(report))
  return countOf(report, 'broken') === 0 ? OK : FAILED
}

function limitsOf(text: string) {
  const form = windows.map(({ limit }, at) => `(?<${limit}>\\d{1,${at === 0 ? 6 : 12}})`)
  const { groups } = new RegExp(`^${form.join('/')}$`).exec(text) ?? {}
  if (groups === undefined) throw usageFault(`--limits ${text}: write 60/1000`)
  const limits = byLimit(({ limit }) => Number(groups[limit]))
  if (limits.perMinute < LEAST || limits.perMinute > MOST)
    throw usageFault(`--limits ${text}: the minute must be from ${LEAST} to ${MOST}`)
  let shorter: FixedWindow = windows[0]
  for (const longer of windows.slice(1)) {
    if (limits[longer.limit] <= limits[shorter.limit])
      throw usageFault(`--limits ${text}: the ${longer.name} must be above the ${shorter.name}`)
    shorter = longer
  }
  return limits
}

function keysOf(file: string): string[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw usageFault(`--keys ${file} cannot be read: ${(error as Error).message}`)
  }
  const lines = text.split(/\r?\n/)
  const bad = lines.findIndex((line) => !/^[!-~]*$/.test(line))
  if (bad >= 0) throw usageFault(`--keys ${file}: line ${bad + 1} is no key`)
  const keys = [...new Set(lines.filter((line) => line !== ''))]
  if (keys.length < NEEDED_KEYS)
    throw usageFault(`--keys ${file} has ${keys.length} keys; ${NEEDED_KEYS} are needed`)
  return keys
}

/** A table with broken rules in full for a person, a line for each check for a program. look: undefined for a program. */
export async function* reportLines(report: Report, look: Look | undefined): AsyncGenerator<string> {
  yield* table(look === undefined ? columns : columns.slice(0, 3), report.checks, look)
  if (look === undefined) return
  for (const { verdict, name, rule, source, seen } of report.checks)
    if (verdict === 'broken') {
      yield ''
      yield `${look.paint('red', name)}: ${safe(seen)}`
      yield* `${rule} (${source})`.match(/\S.{0,76}(?=\s|$)/g)?.map((line) => `  ${line}`) ?? []
    }
  yield ''
  yield inOneLine(report)
}
