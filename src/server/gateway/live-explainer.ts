/** Explains requests from the current state of this gateway: it reads everything, charges nothing, and delays no caller. */
import type { ExplainNeeds, HypotheticalRequest } from '../../admin/explain/operations.ts'
import type { Known, Question } from '../../insight/explain/question.ts'
import { perWindow, windowNames } from '../../config/time.ts'
import type { Shed } from '../../core/rules/overload.ts'
import type { ClientCounters } from '../../state/counters.ts'
import { explain, explainPast } from './explaining.ts'
import type { Gateway } from './gateway.ts'
import { tokenVerifier } from './read-token.ts'
import { readTokenIn, seenBy, standingsIn } from './worker-link.ts'

/** Each takes a few ms of a process that may serve, and is soon over: no answer is waited for long. */
const PER_SECOND = 10

const STORE_AWAY = 'the store is away: what take-quota would say cannot be foretold'

export function createLiveExplainer(gateway: Gateway): ExplainNeeds['explain'] {
  const { reloads, workers } = gateway
  const verifier = tokenVerifier((token) => readTokenIn(workers.links, token))
  let latest = { second: 0, begun: 0 }
  return {
    mayAsk() {
      const second = Math.floor(performance.now() / 1000)
      if (second !== latest.second) latest = { second, begun: 0 }
      return latest.begun < PER_SECOND
    },
    async hypothetical(query) {
      const { config } = reloads
      const { keyId } = query
      if (keyId !== undefined && config.clients.keyById(keyId) === undefined) return undefined
      latest.begun += 1
      const missing: string[] = []
      const known = knownNow(gateway, missing)
      const explanation = await explain(config, questionOf(query), known, config.jwt && verifier)
      return {
        scope: missing.includes(STORE_AWAY) ? 'gateway' : 'store',
        ...(missing.length > 0 && { missing }),
        explanation,
      }
    },
    async recorded(decision) {
      latest.begun += 1
      const ban = decision.key === null ? undefined : workers.operatorBans.all.get(decision.key)
      return { scope: 'gateway', explanation: await explainPast(reloads.config, decision, ban) }
    },
  }
}

function questionOf({ token, headers, ...asked }: HypotheticalRequest): Question {
  const credential = token === undefined ? [] : ['Authorization', `Bearer ${token}`]
  return { ...asked, headers: [...Object.entries(headers).flat(), ...credential], atMs: Date.now() }
}

/** missing: receives what cannot be known. */
function knownNow(gateway: Gateway, missing: string[]): Known {
  const { links, operatorBans: bans } = gateway.workers
  return {
    shed: worstShed(seenBy(links).sheds),
    anonymousUsed: gateway.addresses.add({ address: '127.0.0.1', points: 0 }).total,
    backends: seenBy(links).backends,
    async ofCaller({ clientId, keyId, limits }) {
      const { answers, missing: silent } = await standingsIn(links, { clientId, keyId })
      missing.push(...silent)
      const standings = answers.toSorted((one, other) => (one.worker ?? 0) - (other.worker ?? 0))
      const own = { ban: bans.all.get(keyId), ...(answers.length > 0 && { standings }) }
      try {
        const [counted] = await gateway.counters.look([{ id: clientId, limits }])
        missing.push(...unstated(counted))
        const use = perWindow(({ name }) => counted?.[name].used ?? 0)
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
  const held = windowNames.map((name) => counted[name].taken - counted[name].used)
  if (held.every((tokens) => tokens === 0)) return []
  const most = windowNames.map((name, at) => `${held[at]} of the ${name}`).join(', ')
  return [`use of which the store has not heard yet: at most ${most}`]
}

const worstShed = (sheds: readonly Shed[]): Shed =>
  (['everything', 'anonymous'] as const).find((shed) => sheds.includes(shed)) ?? 'nothing'
