/** Builds an explanation from the answers of the stages. */
import type { ExplainedStage, Explanation, StageName } from '../api/explain.ts'
import type { AskedPlace, PlacesFound } from '../../config/clients/setting-locations.ts'
import { refusalKinds } from '../../core/rules/refusals.ts'
import { duration } from '../format.js'
import { untilRefused } from './changes.ts'
import { finders, setting, type Finding, type Material } from './findings.ts'
import { stageNames } from './walk.ts'
import { isoOf } from './words.ts'

export const NOT_REACHED = { verdict: 'notReached', rule: '', config: null, numbers: {} } as const

/** undefined: the locations are not known. */
export type FindLocations = (asked: readonly AskedPlace[]) => Promise<PlacesFound | undefined>

/** An explanation whose settings are named, but not yet located in the files. */
type Unlocated = Omit<Explanation, 'stages'> & {
  readonly stages: readonly (Omit<ExplainedStage, 'config'> & Finding)[]
}

/** Locates all settings that the explanation names in one reading of the files. */
export async function explanationOf(
  material: Material,
  find: FindLocations | undefined,
): Promise<Explanation> {
  const explained = unlocated(material)
  const asked = explained.stages.flatMap(({ config }) => config ?? [])
  const found = await find?.(asked)
  const locations = new Map(asked.map((place, at) => [place, found?.[at] ?? null]))
  const stages = explained.stages.map((stage) => ({
    ...stage,
    config: stage.config && (locations.get(stage.config) ?? null),
  }))
  return { ...explained, stages }
}

function unlocated(material: Material): Unlocated {
  const explained = explanationBy(material)
  const { config, callerKnown, walked } = material
  if (!callerKnown.isAway || !walked.verdicts.has('take-quota')) return explained
  const quotaAt = stageNames.indexOf('take-quota')
  const rule = `the store is away: store.onOutage (${config.store.onOutage}) decides, in each process`
  const decides = setting('store', 'onOutage')
  const unknown = { ...NOT_REACHED, verdict: 'unknown', rule, config: decides } as const
  const stages = explained.stages.map((found, at) =>
    at < quotaAt ? found : { stage: found.stage, ...(at > quotaAt ? NOT_REACHED : unknown) },
  )
  const none = { status: null, code: null, window: null, retryAfterSeconds: null, assumed: null }
  return { ...explained, ...none, stages, decidedBy: 'take-quota', charged: false, change: [] }
}

function explanationBy(material: Material): Unlocated {
  const { question, walked, caller } = material
  const { exchange, verdicts, refusal, decidedBy } = walked
  const kind = refusal && refusalKinds[refusal.code]
  const limits = caller?.limits
  const { use } = material.callerKnown
  const isReached = verdicts.has('take-quota')
  return {
    at: isoOf(question.atMs),
    method: question.method,
    target: question.target,
    key: caller?.keyId ?? exchange.refusedCaller?.keyId ?? question.keyId ?? null,
    client: caller?.clientId ?? exchange.refusedCaller?.clientId ?? null,
    plan: caller?.plan ?? exchange.refusedCaller?.plan ?? null,
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
        : {
            minute: { used: use?.minute ?? 0, limit: limits.perMinute },
            day: { used: use?.day ?? 0, limit: limits.perDay },
          },
    recorded: [],
  }
}

function stageOf(stage: StageName, material: Material): Unlocated['stages'][number] {
  const { verdicts } = material.walked
  if (!verdicts.has(stage)) return { stage, ...NOT_REACHED }
  const refusal = verdicts.get(stage)
  const passed = stage === 'forward' ? 'sent' : 'pass'
  const verdict = refusal === undefined ? passed : 'refuse'
  const { change: _, ...finding } = finders[stage](material, refusal)
  return { stage, verdict, config: null, numbers: {}, ...finding }
}

/** Changes that would lead to another answer; each suffices alone. */
function changesOf(material: Material): readonly string[] {
  const { walked, config, question } = material
  const { refusal, verdicts, decidedBy } = walked
  if (refusal === undefined) return untilRefused(walked, question)
  const { code, retryAfterSeconds: wait } = refusal
  const { change = [] } = finders[decidedBy](material, verdicts.get(decidedBy))
  const lag = `server.overload.lag above ${config.server.overload.lagMs} ms`
  const changes = code === 'overloaded' ? [lag] : change
  return [...(wait === undefined ? [] : [`wait ${duration(wait * 1000)}`]), ...changes]
}
