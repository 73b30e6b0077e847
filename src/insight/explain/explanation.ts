/** Builds an explanation from the answers of the stages. */
import type { ExplainedStage, Explanation, StageName } from '../api/explain.ts'
import { locationOf } from '../../config/locations.ts'
import { perWindow, windowNames } from '../../config/time.ts'
import { refusalKinds } from '../../core/rules/refusals.ts'
import { clock, duration } from '../format.js'
import { finders, isoOf, ordinal, setting, type Material } from './findings.ts'
import { stageNames } from './walk.ts'

export const NOT_REACHED = { verdict: 'notReached', rule: '', config: null, numbers: {} } as const

export function explanationOf(material: Material): Explanation {
  const explained = explanationBy(material)
  const { config, callerKnown, verdicts } = material
  if (!callerKnown.isAway || !verdicts.has('take-quota')) return explained
  const quotaAt = stageNames.indexOf('take-quota')
  const rule = `the store is away: store.onOutage (${config.store.onOutage}) decides, in each process`
  const decides = locationOf(config, setting('store', 'onOutage'))
  const unknown = { ...NOT_REACHED, verdict: 'unknown', rule, config: decides } as const
  const stages = explained.stages.map((found, at) =>
    at < quotaAt ? found : { stage: found.stage, ...(at > quotaAt ? NOT_REACHED : unknown) },
  )
  const none = { status: null, code: null, window: null, retryAfterSeconds: null, assumed: null }
  return { ...explained, ...none, stages, decidedBy: 'take-quota', charged: false, change: [] }
}

function explanationBy(material: Material): Explanation {
  const { question, exchange, verdicts, refusal, decidedBy } = material
  const { caller } = exchange
  const owner = caller ?? exchange.refusedCaller
  const kind = refusal && refusalKinds[refusal.code]
  const limits = caller?.limits
  const { use } = material.callerKnown
  const isReached = verdicts.has('take-quota')
  return {
    at: isoOf(question.atMs),
    method: question.method,
    target: question.target,
    key: owner?.keyId ?? question.keyId ?? null,
    client: owner?.clientId ?? null,
    plan: owner?.plan ?? null,
    route: exchange.route?.name ?? null,
    status: kind?.status ?? (decidedBy === 'forward' ? null : exchange.status),
    code: refusal?.code ?? null,
    window: refusal?.window ?? null,
    retryAfterSeconds: refusal?.retryAfterSeconds ?? null,
    backend: null,
    stages: stageNames.map((stage) => stageOf(stage, material)),
    decidedBy,
    charged: exchange.admission !== undefined,
    change: changesOf(material),
    assumed:
      limits === undefined || !isReached || (use !== undefined && use.isAssumed !== true)
        ? null
        : perWindow(({ name, limit }) => ({ used: use?.[name] ?? 0, limit: limits[limit] })),
    recorded: [],
  }
}

function stageOf(stage: StageName, material: Material): ExplainedStage {
  const { verdicts } = material
  if (!verdicts.has(stage)) return { stage, ...NOT_REACHED }
  const refusal = verdicts.get(stage)
  const passed = stage === 'forward' ? 'sent' : 'pass'
  const verdict = refusal === undefined ? passed : 'refuse'
  const { rule, config = null, numbers = {} } = finders[stage](material, refusal)
  return { stage, verdict, rule, config: config && locationOf(material.config, config), numbers }
}

function changesOf(material: Material): readonly string[] {
  const { config, refusal, verdicts, decidedBy } = material
  if (refusal === undefined) return untilRefused(material)
  const { code, retryAfterSeconds: wait } = refusal
  const { change = [] } = finders[decidedBy](material, verdicts.get(decidedBy))
  const lag = `server.overload.lag above ${config.server.overload.lagMs} ms`
  const changes = code === 'overloaded' ? [lag] : change
  return [...(wait === undefined ? [] : [`wait ${duration(wait * 1000)}`]), ...changes]
}

/** Says which of the requests after this one, which is not refused, is refused first. */
function untilRefused({ exchange, question: { atMs } }: Material): readonly string[] {
  const { quota, admission } = exchange
  if (quota === undefined || admission === undefined) return []
  // A window that has no less left than a longer one is not used up before that.
  const due = windowNames.filter((name, at) =>
    windowNames.slice(at + 1).every((longer) => quota[name].remaining < quota[longer].remaining),
  )
  return due.map((name, at) => {
    const { remaining, resetAtSeconds } = quota[name]
    const here = at < due.length - 1 ? ' from here' : ''
    const until = clock(resetAtSeconds * 1000, atMs)
    return `the ${ordinal(remaining + 1)}${here} before ${until}${at === 0 ? ' is refused' : ''} (${name})`
  })
}
