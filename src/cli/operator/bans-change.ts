/** `tollgate bans add` and `bans lift`: all gateways apply the change within a second. */
import type { Ban, BanChange } from '../../insight/api/state.ts'
import type { ClientDetail } from '../../insight/api/usage.ts'
import { duration, faultIn } from '../../config/scalars.ts'
import { Fault, usageFault } from '../terminal/fault.ts'
import { clock, relative } from '../../insight/format.js'
import { ask } from './admin-client.ts'
import { gatewayOf, printAnswer, type Asking, type Output } from './asking.ts'
import { OK } from '../terminal/fault.ts'

const banLength = duration({ min: 1_000, max: 400 * 24 * 60 * 60 * 1_000 })

interface BansAddOptions extends Asking {
  /** Exactly one of key and client is given. */
  readonly key: string | undefined
  readonly client?: string
  readonly for: string
  readonly reason?: string
}

/** With --json the answers for a client's keys are one list, which has those before a failure. */
export async function bansAddCommand(output: Output, options: BansAddOptions): Promise<number> {
  const { key, client, for: length, reason } = options
  if ((key === undefined) === (client === undefined))
    throw usageFault('KEY_ID and --client: give one of them')
  const fault = faultIn(banLength, length)
  if (fault !== undefined) throw usageFault(`--for ${fault}`)
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
  return OK
}

type OneKey = Asking & { readonly key: string }

export async function bansLiftCommand(output: Output, options: OneKey): Promise<number> {
  await change(output, options, { method: 'DELETE' })
  return OK
}

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
  const answer = await ask<BanChange>(gatewayOf(output, options), path, call)
  const { before, after, asOf } = answer
  // An answer takes a moment: an hour must still be printed as an hour.
  const nowMs = Math.floor(Date.parse(asOf) / 1_000) * 1_000
  await printAnswer(output, options, answer, () => {
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
