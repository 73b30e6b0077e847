/** Runs the checks against a gateway, all at the same time, so that they share its minutes. */
import { admission, isolation } from './admission.ts'
import { Fault } from '../fault.ts'
import { Caller } from './caller.ts'
import { cannotTell, verdicts, worstOf } from './check.ts'
import type { Check, Checks, Finding, Setup, Verdict } from './check.ts'
import { Unexpected } from './connection.ts'
import { framing } from './framing.ts'
import { headers } from './headers.ts'
import { GatewayClock, thisMachine, type Machine } from './machine.ts'
import { responses } from './responses.ts'
import { rules } from './rules.ts'
import type { Limits } from './standing.ts'
import { windows } from './windows.ts'

const checks: Checks = { ...admission, ...windows, ...headers, ...responses, ...framing }
const ALL_WITHIN_MS = 225_000

interface Options {
  readonly url: URL
  readonly path: string
  readonly limits: Limits
  /** 20 keys or more of one plan, each of another client. */
  readonly keys: readonly string[]
  /** Names of groups; empty for all. */
  readonly only: readonly string[]
}

export type Row = Finding & Omit<(typeof rules)[number], 'keys'>

export interface Report {
  readonly target: string
  readonly limits: Limits
  readonly startedAt: string
  readonly seconds: number
  readonly requests: number
  readonly checks: readonly Row[]
}

export const countOf = ({ checks }: Report, verdict: Verdict): number =>
  checks.filter((row) => row.verdict === verdict).length

export const inOneLine = (report: Report): string => {
  const counts = verdicts.map((verdict) => `${countOf(report, verdict)} ${verdict}`).join(', ')
  return `${counts}; ${report.requests} requests in ${report.seconds} s`
}

/** Runs the checks and reports their findings. Rejects, with what helps, where the gateway cannot be reached or refuses the keys. */
export async function runSuite(options: Options, machine: Machine = thisMachine): Promise<Report> {
  const { url, path, limits } = options
  const startedMs = machine.now()
  const target = { url, path, limits, clock: new GatewayClock(machine), machine }
  const [sampleKey = '', ...keys] = options.keys
  const [anonymous, spare] = [new Caller(target, undefined), new Caller(target, sampleKey)]
  const journals = [spare]
  const nextCaller = (): Caller => {
    const caller = new Caller(target, keys.shift())
    journals.push(caller)
    return caller
  }
  const { promise: tooLate, resolve } = Promise.withResolvers<Finding>()
  const inTime = machine.after(ALL_WITHIN_MS, () => resolve(cannotTell('it took too long')))
  try {
    await spare.ask().catch((error: Error) => {
      const remedy =
        error.cause instanceof Error // There was no connection.
          ? 'start the gateway, or correct --target'
          : 'give a --path that it answers below 400, and keys that it knows'
      const message = `the first request to ${url.origin + path} failed`
      throw new Fault('unusable_target', message, { reason: error.message, remedy, cause: error })
    })
    const setup = { ...target, spare, anonymous, sampleKey, journals }
    const found = await play(setup, nextCaller, options.only, tooLate)
    return {
      target: url.origin + path,
      limits,
      startedAt: new Date(startedMs).toISOString(),
      seconds: Math.round((machine.now() - startedMs) / 1_000),
      requests: [anonymous, ...journals].reduce((sum, { journal }) => sum + journal.length, 0),
      checks: found,
    }
  } finally {
    inTime()
    for (const caller of [anonymous, ...journals]) caller.close()
  }
}

async function play(
  given: Omit<Setup, 'base' | 'setBase' | 'resetFault'>,
  nextCaller: () => Caller,
  only: readonly string[],
  tooLate: Promise<Finding>,
): Promise<Row[]> {
  const findings = new Map<string, Promise<Finding>>()
  const { promise: base, resolve: setBase } = Promise.withResolvers<number>()
  const setup: Setup = {
    ...given,
    base,
    setBase,
    // Checks read this while they run, when all have begun.
    get resetFault() {
      return faultOf(findings.get('reset'))
    },
  }
  const find = async (check: Check, callers: readonly Caller[]): Promise<Finding> => {
    const all = Promise.all(callers.map(async (caller) => check(setup, caller)))
    return Promise.race([all.then(worstOf), tooLate]).catch((error: unknown) => {
      if (error instanceof Unexpected) return cannotTell(error.message)
      throw error
    })
  }
  const [one, other] = [nextCaller(), nextCaller()]
  const first = await find(() => isolation(setup, one, other), [one])
  const isAsked = (group: string): boolean => only.length === 0 || only.includes(group)
  const rows = rules.filter(({ group, name }) => isAsked(group) || name === 'isolation')
  for (const last of [false, true]) {
    for (const { keys, name } of rows) {
      const check = checks[name]
      if (check === undefined || (keys === 'last') !== last) continue
      const isMoot = first.verdict === 'broken' && keys !== '0'
      const moot = cannotTell('the keys share their counters')
      const own = last ? [] : Array.from({ length: Number(keys) }, nextCaller)
      const callers = own.length > 0 ? own : [given.spare]
      findings.set(name, isMoot ? Promise.resolve(moot) : find(check, callers))
    }
    // Where nothing was found the limit itself is the base.
    void Promise.resolve(findings.get('exact')).then(() => setBase(given.limits.perMinute))
    await Promise.all(findings.values())
  }
  return Promise.all(
    rows.map(async (row) => {
      const { keys: _, ...said } = row
      return { ...said, ...((await findings.get(said.name)) ?? first) }
    }),
  )
}

/** Other checks cannot rely on a reset that does not hold. */
async function faultOf(reset: Promise<Finding> | undefined): Promise<string | undefined> {
  const { verdict, seen } = (await reset) ?? {}
  return verdict === 'broken' || verdict === 'cannot tell' ? `reset: ${seen}` : undefined
}
