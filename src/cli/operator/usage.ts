/** `tollgate usage`: what a client has used, now and by day; or everyone's day, for billing. `usage reset` sets its use back to 0, on all gateways within a second. */
import type { ClientDetail, ResetDone, WindowUse } from '../../admin/clients/operations.ts'
import type { ClientUsage, DayTotals, DayUsage, PlanTotals } from '../../admin/usage/operations.ts'
import { usageLines } from '../../admin/usage/words.ts'
import { usageFault } from '../terminal/fault.ts'
import { id, note, number, text } from '../../tools/columns.ts'
import { count, duration, limitsText, percent, refusers } from '../../insight/format.js'
import { usage as used } from '../../insight/format.js'
import type { Declaration } from '../program.ts'
import { ask, askAndPrint, askForText, asking, gatewayOf, listing, printView } from './asking.ts'
import type { Asking } from './asking.ts'
import { share } from './clients.ts'
import type { Output, Texts } from '../edge.ts'
import { DAY_MS, perWindow, windowNames } from '../../config/time.ts'
import type { PerWindow, WindowName } from '../../config/time.ts'

export const usage: Declaration = (program, { once }) => {
  const group = asking(
    program,
    'usage [client]',
    'what a client has used, now and by day; or everyone',
  )
    .option('--day <date>', 'one day, as 2026-11-03')
    .option('--from <date>', 'the first day')
    .option('--to <date>', 'the last day (default: today)')
    .option('--csv', 'as CSV, for billing')
    .action(once(() => usageCommand))
  const about = 'set what a client has used back to 0, on all gateways'
  const reset = asking(group, 'reset <client>', about).action(once(() => resetCommand))
  for (const name of windowNames)
    reset.option(`--${name}`, `its use ${name === 'day' ? 'today (UTC)' : `in this ${name}`}`)
}

/** client: undefined for everyone. */
interface UsageOptions extends Asking, Texts<'client' | 'from' | 'to' | 'day'> {
  readonly csv?: boolean
}

export async function usageCommand(output: Output, options: UsageOptions): Promise<void> {
  const { client, day, from = day, to = day, csv = false, json = false } = options
  if (day !== undefined && (from !== day || to !== day))
    throw usageFault('--day stands alone; leave out --from and --to')
  if (csv && json) throw usageFault('--csv and --json: give one of them')
  dateIn('--day', day)
  const days = daysBetween(dateIn('--from', from) ?? dateIn('--to', to), to)
  if (client !== undefined) return ofClient(output, { ...options, client, from, to })
  if (!csv && days.length > 1)
    throw usageFault('several days of everyone are told with --csv; or name a client')
  return csv ? ofEveryone(output, options, days) : dayCommand(output, { ...options, days })
}

function dateIn(option: string, written: string | undefined): string | undefined {
  const atMs = Date.parse(`${written}T00:00Z`)
  // Date.parse would read the 30th of February as a day of March.
  const isDate = Number.isFinite(atMs) && new Date(atMs).toISOString().slice(0, 10) === written
  if (written === undefined || isDate) return written
  throw usageFault(`${option} is not a date; write it as 2026-11-03`)
}

/** Days from first to last, both included; left out: today. */
function daysBetween(first: string | undefined, last: string | undefined): string[] {
  const days: string[] = []
  const endMs = dateIn('--to', last) === undefined ? Date.now() : Date.parse(last ?? '')
  for (let atMs = first === undefined ? endMs : Date.parse(first); atMs <= endMs; atMs += DAY_MS)
    days.push(new Date(atMs).toISOString().slice(0, 10))
  if (days.length > 0) return days
  throw usageFault('--from is after the last day; exchange them')
}

async function ofClient(
  output: Output,
  { client, from, to, ...options }: UsageOptions & { readonly client: string },
): Promise<void> {
  const path = `/api/clients/${encodeURIComponent(client)}`
  const query = new URLSearchParams({ ...(from && { from }), ...(to && { to }) }).toString()
  await askAndPrint<ClientUsage>(output, options, [`${path}/usage?${query}`], async (used) => {
    const { days, plan, asOf } = used
    if (options.csv === true) {
      for (const line of usageLines(used)) output.print(`${line}\r`)
      return
    }
    // What is left is for persons; a client that is no longer configured has history alone.
    if (output.screen !== undefined && plan !== null)
      printNow(output, await ask<ClientDetail>(gatewayOf(output, options), path))
    const total = days.length > 1 && output.screen !== undefined ? [days.reduce(summed)] : []
    await printView<DayTotals>(output, {
      columns: [
        id('DAY', ({ day }) => day),
        ...figures,
        note('', ({ day, plans = [] }) =>
          [
            ...(asOf.startsWith(day) ? ['so far'] : []),
            ...plans.map((one) => `${one.plan} ${count(one.admitted)}`),
          ].join(', '),
        ),
      ],
      rows: [...days, ...total],
      none: `${client} has made no request from ${used.from} to ${used.to}.`,
    })
  })
}

function printNow({ print }: Output, { client, asOf }: ClientDetail): void {
  const nowMs = Date.parse(asOf)
  print(`${client.id}  ${client.plan}  ${limitsText(client.limits)}`)
  print(`now  ${windowNames.map((name) => inWords(name, client[name], nowMs)).join('  ')}`)
}

function inWords(window: WindowName, use: WindowUse | null, nowMs: number): string {
  if (use === null) return `${window} not known, as the store is away`
  const left = duration(Math.max(0, Date.parse(use.resetsAt) - nowMs))
  return `${window} ${used(use, window)} (${percent(share(use))}), ${left} left`
}

type Figures = Pick<PlanTotals, 'admitted' | 'refused'>

const figures = [
  number('ADMITTED', ({ admitted }: Figures) => admitted, { write: count }),
  ...refusers.map((by) =>
    number(`REFUSED ${by.toUpperCase()}`, ({ refused }: Figures) => refused[by], { write: count }),
  ),
]

const summed = (one: DayTotals, other: DayTotals): DayTotals => ({
  plan: other.plan,
  day: 'total',
  admitted: one.admitted + other.admitted,
  refused: {
    ...perWindow(({ name }) => one.refused[name] + other.refused[name]),
    ban: one.refused.ban + other.refused.ban,
  },
})

const dayCommand = listing<
  DayUsage,
  DayUsage['clients'][number],
  Asking & { readonly days: readonly string[] }
>(
  ({ days }) => `/api/usage?day=${days[0]}`,
  ({ clients, day }) => ({
    rows: clients,
    none: `Nobody has made a request on ${day}.`,
    columns: [
      id('CLIENT', ({ client }) => client),
      text('PLAN', ({ plan }) => plan, { drop: 1 }),
      ...figures,
    ],
  }),
)

/** Prints the CSV of the gateway, one day after the other under one head. */
async function ofEveryone(output: Output, options: Asking, days: readonly string[]) {
  const gateway = gatewayOf(output, options)
  for (const [at, day] of days.entries()) {
    const whole = await askForText(gateway, `/api/usage?day=${day}`, { accept: 'text/csv' })
    const lines = whole.replace(/\n$/, '').split('\n')
    for (const line of lines.slice(at === 0 ? 0 : 1)) output.print(line)
  }
}

type ResetOptions = Asking & Partial<PerWindow<boolean>> & { readonly client: string }

async function resetCommand(output: Output, { client, ...options }: ResetOptions): Promise<void> {
  const chosen = windowNames.filter((name) => options[name])
  if (chosen.length === 0) {
    const all = windowNames.map((name) => `--${name}`).join(', ')
    throw usageFault(`which windows? Give ${all} or both; a reset cannot be undone`)
  }
  const path = `/api/clients/${encodeURIComponent(client)}/reset`
  for (const window of chosen.length === windowNames.length ? (['both'] as const) : chosen) {
    const call = { method: 'POST', body: { window } } as const
    await askAndPrint<ResetDone>(output, options, [path, call], (done) => {
      for (const when of ['before', 'after'] as const) {
        const used = windowNames.map((name) => `${name} ${count(done[when][name])}`)
        output.print(`${when.padEnd(7)} ${client} ${used.join('  ')}`)
      }
      output.complain('undo    this cannot be undone; the totals by day, for billing, stay')
    })
  }
}
