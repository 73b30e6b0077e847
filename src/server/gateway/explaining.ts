/** Explains why a request is or was answered as it is: it runs the stages of a configuration on a scratch of the current state. */
import type { Explanation } from '../../insight/api/explain.ts'
import type { Config } from '../../config/config.ts'
import { createKeyRing } from '../../core/credentials/callers.ts'
import { explanationOf } from '../../insight/explain/explanation.ts'
import { knownThen, questionThen, withRecord } from '../../insight/explain/past.ts'
import type { PastRequest } from '../../insight/explain/past.ts'
import type { Known, Question } from '../../insight/explain/question.ts'
import { STAND_IN, walkThrough, type Walked } from '../../insight/explain/walk.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Policy } from '../../core/pipeline/exchange.ts'
import { tokenVerifier } from './read-token.ts'
import { createScratch } from './scratch.ts'

/** Charges and changes nothing but the scratch. verifier: undefined: tokens are not accepted. */
export async function explain(
  config: Config,
  question: Question,
  known: Known,
  verifier?: Policy['verifier'],
): Promise<Explanation> {
  const { atMs } = question
  const { shed = 'nothing', anonymousUsed = 0 } = known
  const keyRing = ringWith(config, question.keyId)
  const walkOn = async ({ policy, close }: ReturnType<typeof createScratch>): Promise<Walked> => {
    const deciding = { ...policy, keyRing, verifier, load: { shed } }
    const walked = await walkThrough(deciding, question, config)
    await close()
    return walked
  }
  const now = (): number => atMs
  // The first walk finds whose request it is, the second what becomes of it.
  const { caller, sender } = (await walkOn(createScratch({ config, now }))).exchange
  const callerKnown = (caller && (await known.ofCaller?.(caller))) ?? {}
  const { use, ban, standings, countedAtMs = atMs } = callerKnown
  const scratch = createScratch({ config, now, countedAtMs: () => countedAtMs })
  const { seed, policy } = scratch
  seed.anonymous(sender.key, anonymousUsed)
  if (caller !== undefined) {
    const { clientId, limits, keyId } = caller
    if (use !== undefined) seed.use(clientId, limits, use)
    if (ban !== undefined) seed.ban(keyId, ban)
    // A ban is answered from the known use of the windows, without asking.
    if (ban !== undefined) await policy.lessee.peek(clientId, limits)
  }
  // The request may come to the process that has the most left.
  if (standings !== undefined) seed.turns(Math.min(...standings.map(({ taken }) => taken)))
  return explanationOf({ ...(await walkOn(scratch)), config, question, known, callerKnown })
}

/** Explains a past request from what was recorded. ban: the known ban of its key. */
export async function explainPast(
  config: Config,
  past: PastRequest,
  ban: BanRecord | undefined,
): Promise<Explanation> {
  const plan = past.plan ?? undefined
  const statement = { kid: undefined, clientId: past.client ?? '', plan, expiresAtMs: Infinity }
  const verifier = tokenVerifier(() => Promise.resolve({ statement }))
  const [question, known] = [questionThen(past), knownThen(past, ban, config)]
  const explained = await explain(config, question, known, verifier)
  return withRecord(explained, past, config.revision)
}

/** Finds the key that was named by its id, as if it had been sent. */
function ringWith({ clients, server }: Config, keyId: string | undefined): Policy['keyRing'] {
  const ring = createKeyRing(clients, new Map(), server.structuredQuotaHeaders)
  const named = keyId === undefined ? undefined : clients.keyById(keyId)
  return {
    find: (token) =>
      token === STAND_IN ? named && ring.findDigest(named.key.sha256) : ring.find(token),
  }
}
