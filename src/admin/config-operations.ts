/** Operations on the configuration: show and reload. */
import type { ReloadOutcome, ReloadWish } from '../config/changes/reload-outcome.ts'
import type { Config } from '../config/config.ts'
import { fault, invalidRequest, json, type Answer } from './answers.ts'
import { effectiveConfig } from './effective-config.ts'
import { keysPage } from './keys-page.ts'
import type { Call, Changed } from './operation.ts'
import { isAnswer, isRecord, readJson } from './read-json.ts'

export interface ConfigNeeds {
  readonly reloads: {
    /** Configuration in force. */
    readonly config: Config
    reload(wish: ReloadWish): Promise<ReloadOutcome>
  }
}

/** The answer is made once for each configuration, as making it holds up requests. */
const shown = new WeakMap<Config, Answer>()

export function getConfig({ reloads: { config } }: ConfigNeeds): Answer {
  const made = shown.get(config)
  if (made !== undefined) return made
  const { body, ...answer } = json(200, effectiveConfig(config))
  const inBytes = { ...answer, body: Buffer.from(body) }
  shown.set(config, inBytes)
  return inBytes
}

export const getKeys = ({ reloads }: ConfigNeeds, { query }: Call): Answer =>
  keysPage(reloads.config, query)

export async function reload({ reloads }: ConfigNeeds, { request }: Call): Promise<Changed> {
  const before = reloads.config.revision
  const settle = (answer: Answer, details: object): Changed => ({
    answer,
    audit: { ...details, before, after: reloads.config.revision },
  })
  const body = await readJson(request)
  if (isAnswer(body)) return settle(body, {})
  const wish = body === undefined ? {} : wishOf(body)
  if (wish === undefined) return settle(malformedWish, {})
  const outcome = await reloads.reload(wish)
  return settle(answerOf(outcome), { ...wish, outcome: outcome.outcome })
}

/** undefined: the body is malformed. */
function wishOf(body: unknown): ReloadWish | undefined {
  if (!isRecord(body)) return undefined
  const { dryRun = false, revision, ...unknown } = body
  if (Object.keys(unknown).length > 0 || typeof dryRun !== 'boolean') return undefined
  if (revision === undefined) return { dryRun }
  const isRevision = typeof revision === 'string' && /^[0-9a-f]{1,64}$/.test(revision)
  return isRevision ? { dryRun, revision } : undefined
}

const malformedWish = invalidRequest(
  'Send no body, or one of {"dryRun":true} and {"revision":"REVISION"}.',
)

function answerOf(outcome: ReloadOutcome): Answer {
  if (outcome.outcome === 'refused')
    return fault(
      {
        status: 422,
        code: 'config_refused',
        message: 'The configuration cannot be taken; the one in force stays.',
      },
      { ...outcome },
    )
  if (outcome.outcome === 'filesChanged')
    return fault(
      {
        status: 409,
        code: 'files_changed',
        message: 'The files hold another revision by now; look at what it changes first.',
      },
      { ...outcome },
    )
  return json(200, outcome)
}
