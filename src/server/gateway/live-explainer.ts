/** Explains requests from the current state of this gateway: it reads everything, charges nothing, and delays no caller. */
import type {
  Explained,
  ExplainNeeds,
  HypotheticalRequest,
} from '../../admin/explain/operations.ts'
import type { Explanation } from '../../insight/api/explain.ts'
import type { FindLocations } from '../../insight/explain/explanation.ts'
import type { Known, Question } from '../../insight/explain/question.ts'
import type { Shed } from '../../core/rules/overload.ts'
import type { ClientCounters } from '../../state/memory/client-counters.ts'
import { explain, explainPast } from './explaining.ts'
import type { Gateway } from './gateway.ts'
import { tokenVerifier } from './read-token.ts'
import { readTokenIn, seenBy, standingsIn } from './worker-link.ts'

/** Limit of explanations under way, as each may wait for the store. */
const AT_ONCE = 8
/** Each takes a few ms of a process that may serve. */
const PER_SECOND = 10

/** Reading the client files of a million clients takes less. */
const LOCATIONS_MS = 5_000
const OTHER_FILES = 'lines of the files, which have changed since they were taken'
const LATE_FILES = `where settings stand: the files could not be read within ${LOCATIONS_MS / 1000} s`

/** Runs one reading at a time. missing: receives the reason where places are left out. */
function locationsFinder({ reloads, settingLocations }: Gateway) {
  let last: Promise<unknown> = Promise.resolve()
  return (missing: string[]): FindLocations | undefined =>
    settingLocations &&
    (async (asked) => {
      const { revision } = reloads.config
      const reading = last.then(() => settingLocations({ revision, asked }, LOCATIONS_MS))
      last = reading.catch(() => undefined)
      const found = await reading.catch(() => void missing.push(LATE_FILES))
      return found === 'otherFiles' ? void missing.push(OTHER_FILES) : found
    })
}

const STORE_AWAY = 'the store is away: what take-quota would say cannot be foretold'

export function createLiveExplainer(gateway: Gateway): ExplainNeeds['explain'] {
  const { reloads, workers } = gateway
  const finder = locationsFinder(gateway)
  const verifier = tokenVerifier((token) => readTokenIn(workers.links, token))
  let underway = 0
  let latest = { second: 0, begun: 0 }
  const explained = async (
    scope: 'store' | 'gateway',
    make: (missing: string[], findLocations?: FindLocations) => Promise<Explanation>,
  ): Promise<Explained> => {
    const missing: string[] = []
    underway += 1
    latest.begun += 1
    const explanation = await make(missing, finder(missing)).finally(() => (underway -= 1))
    return {
      scope: missing.includes(STORE_AWAY) ? 'gateway' : scope,
      ...(missing.length > 0 && { missing }),
      explanation,
    }
  }
  return {
    mayAsk() {
      const second = Math.floor(performance.now() / 1000)
      if (second !== latest.second) latest = { second, begun: 0 }
      return underway < AT_ONCE && latest.begun < PER_SECOND
    },
    async hypothetical(query) {
      const { config } = reloads
      const { keyId } = query
      if (keyId !== undefined && config.clients.keyById(keyId) === undefined) return undefined
      return explained('store', (missing, findLocations) => {
        const known = knownNow(gateway, missing)
        const parts = { verifier: config.jwt && verifier, findLocations }
        return explain(config, questionOf(query), known, parts)
      })
    },
    recorded(decision) {
      const ban = decision.key === null ? undefined : workers.operatorBans.all.get(decision.key)
      return explained('gateway', (_, findLocations) =>
        explainPast(reloads.config, decision, { ban, findLocations }),
      )
    },
  }
}

const questionOf = ({
  method,
  target,
  keyId,
  token,
  headers = {},
}: HypotheticalRequest): Question => ({
  method,
  target,
  headers: [
    ...Object.entries(headers).flat(),
    ...(token === undefined ? [] : ['Authorization', `Bearer ${token}`]),
  ],
  keyId,
  atMs: Date.now(),
})

/** missing: receives what cannot be known. */
function knownNow(gateway: Gateway, missing: string[]): Known {
  const { links, operatorBans: bans, stores } = gateway.workers
  return {
    shed: worstShed(seenBy(links).sheds),
    anonymousUsed: gateway.addresses.add({ address: '127.0.0.1', points: 0 }).total,
    backends: seenBy(links).backends.map(({ name, state, fault = null }) => ({
      name,
      state,
      cause: fault,
    })),
    async ofCaller({ clientId, keyId, limits }) {
      const { answers, missing: silent } = await standingsIn(links, { clientId, keyId })
      missing.push(...silent)
      const standings = answers.toSorted((one, other) => (one.worker ?? 0) - (other.worker ?? 0))
      const own = { ban: bans.all.get(keyId), ...(answers.length > 0 && { standings }) }
      try {
        const [counted] = await stores.counters.look([{ id: clientId, limits }])
        missing.push(...unstated(counted))
        const use = { minute: counted?.minute.used ?? 0, day: counted?.day.used ?? 0 }
        return { ...own, use, countedAtMs: counted?.nowMs }
      } catch {
        missing.push(STORE_AWAY)
        return { ...own, isAway: true, countedAtMs: bans.nowMs }
      }
    },
  }
}

/** Bounds on what processes may have spent since their last statement: what they hold was deducted before. */
function unstated(counted: ClientCounters | undefined): readonly string[] {
  if (counted === undefined) return []
  const [minute, day] = [counted.minute, counted.day].map(({ taken, used }) => taken - used)
  return minute === 0 && day === 0
    ? []
    : [
        `use of which the store has not heard yet: at most ${minute} of the minute, ${day} of the day`,
      ]
}

const worstShed = (sheds: readonly Shed[]): Shed =>
  (['everything', 'anonymous'] as const).find((shed) => sheds.includes(shed)) ?? 'nothing'
