/** `tollgate bans list`, `add` and `lift`: who is banned, why, and until when; all gateways apply a change within a second. */
import type { BanChange, Bans } from '../../admin/bans/operations.ts'
import type { Ban } from '../../insight/api/live.ts'
import type { ClientDetail } from '../../admin/clients/operations.ts'
import { Fault, usageFault, readOption } from '../terminal/fault.ts'
import { id, text } from '../../tools/columns.ts'
import { clock, relative } from '../../insight/format.js'
import { NeededOption, type Declaration } from '../program.ts'
import type { Output, Texts } from '../edge.ts'
import { ask, askAndPrint, asking, gatewayOf, listing, type Asking } from './asking.ts'

export const bans: Declaration = (program, { once }) => {
  const group = program.command('bans').description('list, impose and lift bans of API keys')
  asking(group, 'list', 'which keys are banned, why, and until when').action(
    once(() => bansListCommand),
  )
  asking(group, 'add [key-id]', 'ban one key, or every key of a client, on all gateways')
    .addOption(new NeededOption('--for <duration>', 'how long, such as 1h; at most 400d'))
    .option('--reason <text>', 'a note for operators; clients never see it')
    .option('--client <id>', 'ban every key of this client')
    .action(once(() => bansAddCommand))
  asking(group, 'lift <key-id>', 'end a ban now, and forget the strikes that led to it').action(
    once(() => bansLiftCommand),
  )
}

const bansListCommand = listing<Bans, Ban>(
  () => '/api/bans',
  ({ bans }, nowMs) => {
    const write = (at: string): string => relative(Date.parse(at), nowMs)
    return {
      rows: bans,
      none: 'No key is banned.',
      next: 'Lift one: tollgate bans lift KEY_ID',
      columns: [
        id('KEY', ({ key }) => key),
        id('CLIENT', ({ client }) => client),
        text('BY', ({ by }) => by, { drop: 2 }),
        text('SINCE', ({ since }) => since, { write, drop: 1 }),
        text('ENDS', ({ until }) => until, { write }),
        text('REASON', ({ reason }) => reason),
      ],
    }
  },
)

interface BansAddOptions extends Asking, Texts<'key' | 'client' | 'reason'> {
  readonly for: string
}

/** With --json the answers for a client's keys are one list, which has those before a failure. */
async function bansAddCommand(output: Output, options: BansAddOptions): Promise<void> {
  const { key, client, for: length, reason } = options
  if ((key === undefined) === (client === undefined))
    throw usageFault('KEY_ID and --client: give one of them')
  // What reads values of the configuration takes time to load.
  const { duration } = await import('../../config/scalars.ts')
  readOption('for', duration('1s', '400d'), length)
  const body = { for: length, ...(reason !== undefined && { reason }) }
  const keys = key === undefined ? await keysOf(output, options, client ?? '') : [key]
  const answers: string[] = []
  const listed = { ...output, print: (line: string) => void answers.push(line) }
  const isList = key === undefined && options.json === true
  try {
    for (const one of keys)
      await change(isList ? listed : output, { ...options, key: one }, { method: 'PUT', body })
  } finally {
    if (isList) output.print(`[${answers.join(',\n')}]`)
  }
}

type OneKey = Asking & { readonly key: string }

const bansLiftCommand = (output: Output, options: OneKey) =>
  change(output, options, { method: 'DELETE' })

async function keysOf(output: Output, options: Asking, id: string): Promise<string[]> {
  const path = `/api/clients/${encodeURIComponent(id)}`
  const { client } = await ask<ClientDetail>(gatewayOf(output, options), path)
  if (client.keys.length > 0) return client.keys.map((key) => key.id)
  throw new Fault('no_keys', `${id} has no key that could be banned`)
}

/** Prints what was before, what is after, and how to undo it. */
async function change(output: Output, options: OneKey, call: Parameters<typeof ask>[2]) {
  const { key } = options
  const path = `/api/bans/${encodeURIComponent(key)}`
  await askAndPrint<BanChange>(output, options, [path, call], ({ before, after, asOf }) => {
    // An answer takes a moment: an hour must still be printed as an hour.
    const nowMs = Math.floor(Date.parse(asOf) / 1_000) * 1_000
    output.print(`before  ${key} ${inWords(before, nowMs)}`)
    output.print(`after   ${key} ${inWords(after, nowMs)}`)
    // This is not longer than what was left: more than the longest ban would be refused.
    const leftMs = before === null ? 0 : Date.parse(before.until) - Date.parse(asOf)
    const leftSeconds = Math.max(1, Math.ceil(leftMs / 1_000) - 1)
    const again = leftMs > 0 ? `bans add ${key} --for ${leftSeconds}s` : undefined
    if (after !== null) output.complain(`undo    tollgate ${again ?? `bans lift ${key}`}`)
    else if (again !== undefined)
      output.complain(`undo    tollgate ${again}; its strikes stay forgotten`)
  })
}

function inWords(ban: Ban | null, nowMs: number): string {
  if (ban === null) return 'not banned'
  const untilMs = Date.parse(ban.until)
  const until = `until ${clock(untilMs, nowMs)}, ${relative(untilMs, nowMs)}`
  return `banned ${until}, by ${ban.by}${ban.reason === null ? '' : `: ${ban.reason}`}`
}
