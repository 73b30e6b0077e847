/** Wording of an explanation, for the page and the command line. Nothing here reads a clock or the document. */
import { clock, usage, windowsText } from '../../insight/format.js'
import type { Explanation } from '../../insight/api/explain.ts'

const isUnknown = ({ decidedBy, code }: Explanation) => decidedBy === 'take-quota' && code === null

function answerOf(explanation: Explanation) {
  const { status, code, window, retryAfterSeconds, backend, route, decidedBy } = explanation
  const by = decidedBy === 'forward' ? (backend ?? 'a backend') : 'the gateway itself'
  const sent = `${status ?? 'sent'}${status === null ? ' to' : ' from'} ${by}`
  const refused = `${status ?? ''} ${code}${window === null ? '' : ` by ${window}`}`
  const known = code === null ? sent : refused
  return [
    isUnknown(explanation) ? `not to be foretold: see ${decidedBy}` : known,
    retryAfterSeconds !== null && `Retry-After ${retryAfterSeconds}`,
    route !== null && `route ${route}`,
  ]
    .filter((part) => part !== false)
    .join(', ')
}

/** Says who requested what, how it was answered, the verdict of each stage, and what else is known. */
export function wordsOf(explanation: Explanation, nowMs: number) {
  const { method, target, key, client, at, code, charged, change, assumed, recorded } = explanation
  const asked = [
    `${method} ${target}`,
    key !== null && `key ${key}`,
    client !== null && `client ${client}`,
    clock(Date.parse(at), nowMs),
  ].filter((part) => part !== false)
  const more = {
    Charged: isUnknown(explanation) ? '' : charged ? 'one in each window.' : 'no.',
    Otherwise: change.join(code === null ? ', ' : '; or '),
    Assumed: assumed === null ? '' : windowsText((name) => usage(assumed[name], name)),
    'Recorded then, not derived': recorded.join('; '),
  }
  return {
    asked,
    answer: answerOf(explanation),
    stages: explanation.stages.map(({ stage, verdict, rule, config }) => ({
      stage,
      decides: stage === explanation.decidedBy,
      verdict: verdict === 'notReached' ? '–' : verdict,
      rule,
      config: config ?? '',
    })),
    more: Object.entries(more).filter(([, text]) => text !== ''),
  }
}
