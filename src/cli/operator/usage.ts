/** `tollgate usage`: what a client has used, now and by day; or everyone's day, for billing. `usage reset` sets its use back to 0, on all gateways within a second. */
import type { ClientDetail, ResetDone, WindowUse } from '../../admin/clients/operations.ts'
import type { ClientUsage, DayTotals, DayUsage, PlanTotals } from '../../admin/usage/operations.ts'
import { usageLines } from '../../admin/usage/words.ts'
import { usageFault } from '../terminal/fault.ts'
import { id, note, number, text } from '../../tools/columns.ts'
import { count, duration, limitsText, percent, usage as used } from '../../insight/format.js'
import type { Declaration } from '../program.ts'
import { ask, askAndPrint, askForText, asking, gatewayOf, listing, printView } from './asking.ts'
import type { Asking } from './asking.ts'
import { share } from './clients.ts'
import type { Output, Texts } from '../edge.ts'
import { DAY_MS, type WindowName } from '../../config/time.ts'

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
  asking(group, 'reset <client>', 'set what a client has used back to 0, on all gateways')
    .option('--minute', 'its use in this minute')
    .option('--day', 'its use today (UTC)')
    .action(once(() => resetCommand))
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
  const { limits, minute, day } = client
  const nowMs = Date.parse(asOf)
  print(`${client.id}  ${client.plan}  ${limitsText(limits)}`)
  print(`now  ${inWords('minute', minute, nowMs)}  ${inWords('day', day, nowMs)}`)
}

function inWords(window: WindowName, use: WindowUse | null, nowMs: number): string {
  if (use === null) return `${window} not known, as the store is away`
  const left = duration(Math.max(0, Date.parse(use.resetsAt) - nowMs))
  return `${window} ${used(use, window)} (${percent(share(use))}), ${left} left`
}

type Figures = Pick<PlanTotals, 'admitted' | 'refused'>

const figures = [
  number('ADMITTED', ({ admitted }: Figures) => admitted, { write: count }),
  number('REFUSED MINUTE', ({ refused }: Figures) => refused.minute, { write: count }),
  number('REFUSED DAY', ({ refused }: Figures) => refused.day, { write: count }),
  number('REFUSED BAN', ({ refused }: Figures) => refused.ban, { write: count }),
]

const summed = (one: DayTotals, other: DayTotals): DayTotals => ({
  plan: other.plan,
  day: 'total',
  admitted: one.admitted + other.admitted,
  refused: {
    minute: one.refused.minute + other.refused.minute,
    day: one.refused.day + other.refused.day,
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

interface ResetOptions extends Asking {
  readonly client: string
  readonly minute?: boolean
  readonly day?: boolean
}

async function resetCommand(output: Output, options: ResetOptions): Promise<void> {
  const { client, minute = false, day = false } = options
  if (!minute && !day)
    throw usageFault('which windows? Give --minute, --day or both; a reset cannot be undone')
  const window: ResetDone['window'] = minute && day ? 'both' : minute ? 'minute' : 'day'
  const path = `/api/clients/${encodeURIComponent(client)}/reset`
  const call = { method: 'POST', body: { window } } as const
  await askAndPrint<ResetDone>(output, options, [path, call], (done) => {
    for (const when of ['before', 'after'] as const)
      output.print(
        `${when.padEnd(7)} ${client} minute ${count(done[when].minute)}  day ${count(done[when].day)}`,
      )
    output.complain('undo    this cannot be undone; the totals by day, for billing, stay')
  })
}
