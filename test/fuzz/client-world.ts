/** Plays conversations against a gateway in front of a recording backend, and holds both sides and the counters to the oracle. */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { keys, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import type { ClientKeys, Conversation } from './client-grammar.ts'
import { answersDue, differences, finalAnswers, judge, type Played } from './client-judge.ts'
import { converse } from './conversation.ts'
import { Violation, type Explored, type World } from './fuzzing.ts'
import { startRecordingBackend, type Seen } from './recording-backend.ts'
import { readConnection, type OracleWorld, type Reading } from './request-oracle.ts'

const plans = ['free', 'pro', 'business', 'enterprise'] as const
export const clientKeys: ClientKeys = {
  valid: plans.map((plan) => keys[plan]),
  expired: keys.expired,
}
const oracle: OracleWorld = {
  basePath: '/v1',
  limits: { headerBytes: 2_048, headerCount: 30, bodyBytes: 4_096, urlBytes: 512 },
  clients: new Map(plans.map((plan) => [keys[plan], `${plan}-client`])),
}

const PLENTY = 1_000_000_000
const LIMIT_MS = 15_000

/** Small limits of size, none of quota. */
const blocks = (engine: string, backend: string): Record<string, string> => ({
  server: `server:
  listen: "127.0.0.1:0"
  limits: { headerBytes: 2KiB, headerCount: 30, bodyBytes: 4KiB, urlBytes: 512B, bufferedBody: 512B }
  timeouts: { drain: 1s }
  overload: { lag: 1m }`,
  upstream: `upstream: { urls: ["${backend}"], engine: ${engine} }`,
  plans: `plans:
  free: { perMinute: ${PLENTY}, perDay: ${PLENTY}, concurrent: 1000000 }
  pro: { perMinute: ${PLENTY}, perDay: ${PLENTY}, concurrent: 1000000 }
  business: { perMinute: ${PLENTY}, perDay: ${PLENTY}, concurrent: 1000000 }
  enterprise: { custom: true, concurrent: 1000000 }`,
  anonymous: `anonymous: { perMinute: ${PLENTY} }`,
})

export async function startClientWorld(engine: string): Promise<World<Conversation>> {
  const backend = await startRecordingBackend()
  const log = readAccessLog()
  const gateway = await startTestGateway({
    upstreams: [],
    blocks: blocks(engine, backend.url),
    onLogLine: log.read,
  })
  const wrongCharges = await countCharges(gateway.port)
  backend.take()
  return {
    play: async (batch, explored) => {
      log.clear()
      const played = await Promise.all(
        batch.map((conversation) => playOne(gateway.port, conversation, explored)),
      )
      await nothingInFlight(gateway)
      const { seen, problems } = backend.take()
      problems.push(...log.compare(seen))
      const received = Array.from(
        seen.values(),
        ({ request }) => request.header('x-client-id') ?? '',
      )
      const unanswered: Reading[] = []
      let guilty: number | undefined
      for (const [index, one] of played.entries()) {
        const judged = judge(one, seen)
        if (judged.problems.length > 0) guilty = index
        problems.push(...judged.problems)
        if (judged.problems.length > 0) problems.push(one.heard.raw.toString('latin1'))
        unanswered.push(...judged.unanswered)
        unanswered.push(...one.readings.filter(({ brokenOff }) => brokenOff))
        for (const status of judged.statuses) explored.add(`answer ${status}`)
      }
      // What is left was asked for by those who did not wait for the answer.
      for (const { request, whole } of seen.values()) {
        const at = unanswered.findIndex(
          ({ forward, brokenOff }) =>
            differences(whole ? forward : (brokenOff ?? forward), request, { isWhole: whole })
              .length === 0,
        )
        if (at < 0)
          problems.push(
            `the backend received ${request.method} ${request.target}, which nobody asked for`,
          )
      }
      explored.add('received by the backend', received.length)
      problems.push(...(await wrongCharges(received, unanswered)))
      backend.take()
      if (problems.length > 0) throw new Violation(problems, guilty)
    },
  }
}

async function playOne(
  port: number,
  conversation: Conversation,
  explored: Explored,
): Promise<Played> {
  const { steps, ending } = conversation
  const readings = readConnection(steps.filter((step) => typeof step === 'string').join(''), oracle)
  explored.add('connections')
  explored.add(`ending ${ending}`)
  explored.add('requests', readings.length)
  explored.add('requests to be forwarded', readings.filter(({ forward }) => forward).length)
  const due = answersDue(readings)
  const isLeftOpen = readings.at(-1)?.last !== true || readings.at(-1)?.unfinished === true
  const heard = await converse(port, conversation, {
    limitMs: LIMIT_MS,
    goesAway: readings.at(-1)?.isSilent === true,
    enough: (raw) => isLeftOpen && finalAnswers(raw, readings) >= due,
  })
  return { readings, ending, heard }
}

async function nothingInFlight(gateway: TestGateway): Promise<void> {
  const deadline = Date.now() + LIMIT_MS
  while ((await gateway.metric('tollgate_requests_in_flight')) !== 0) {
    if (Date.now() > deadline) throw new Violation(['requests stay in flight'])
    await sleep(2)
  }
  // What was written to the backend before it broke off is read by it in a later turn.
  for (let turns = 0; turns < 5; turns++) await turn()
}

/** The access lines by request id. */
function readAccessLog() {
  const paths = new Map<string, string>()
  const problems: string[] = []
  return {
    /** One line and its end. */
    read: (text: string): void => {
      const { event, id = '', path = '', client = '' } = JSON.parse(text) as Record<string, string>
      if (event === 'internalError') problems.push(text)
      if (event !== 'access') return
      if (paths.has(id)) problems.push(`two access lines of ${id}`)
      paths.set(id, `${client} ${path}`)
    },
    clear: (): void => {
      paths.clear()
      problems.length = 0
    },
    /** The path that was routed, charged and logged is the one that the backend received. */
    compare: (seen: ReadonlyMap<string, Seen>): string[] => [
      ...problems,
      ...[...seen].flatMap(([id, { request }]) => {
        const decided = paths.get(id)
        const received = `${request.header('x-client-id') ?? ''} ${request.target.replace(/\?.*/, '')}`
        // Long ones are cut in the log.
        const isSame = decided !== undefined && received.startsWith(decided.replace(/\.\.\.$/, ''))
        return isSame ? [] : [`decided on ${String(decided)}, sent ${received}`]
      }),
    ],
  }
}

/** What each client was charged, as a normal request on a new connection tells. */
async function countCharges(port: number) {
  const left = new Map<string, { day: number; resetSeconds: number }>()
  const question = plans.map(
    (plan) =>
      `GET /v1/normal HTTP/1.1\r\nHost: normal.example\r\nAuthorization: Bearer ${keys[plan]}\r\n\r\n`,
  )
  /** Charged since the last call, without the questions themselves; undefined where the day has changed. */
  const charged = async (): Promise<Map<string, number | undefined>> => {
    const { responses, problem } = await rawExchange(port, question.join(''), {
      responses: plans.length,
      timeoutMs: LIMIT_MS,
    })
    const counts = new Map<string, number | undefined>()
    for (const [index, plan] of plans.entries()) {
      const response = responses[index]
      if (response?.status !== 200 || response.body.toString() !== '/v1/normal')
        throw new Violation([
          `a normal request on a new connection: ${response?.status ?? problem ?? 'no answer'}`,
        ])
      const [, day, seconds] =
        /"day";r=(\d+);t=(\d+)/.exec(response.header('ratelimit') ?? '') ?? []
      const now = { day: Number(day), resetSeconds: Number(seconds) }
      const before = left.get(plan)
      left.set(plan, now)
      const isSameDay = before !== undefined && now.resetSeconds <= before.resetSeconds
      counts.set(`${plan}-client`, isSameDay ? before.day - now.day - 1 : undefined)
    }
    return counts
  }
  await charged()
  /** received: client of each request that the backend has seen any of. */
  return async (received: readonly string[], unanswered: readonly Reading[]): Promise<string[]> => {
    const problems: string[] = []
    for (const [client, count] of await charged()) {
      const seen = received.filter((each) => each === client).length
      // Of a request that broke off or was left alone, the backend may have been about to see something.
      const asked = unanswered.filter(
        ({ forward, brokenOff }) => (forward ?? brokenOff)?.client === client,
      )
      if (count !== undefined && (count < seen || count > seen + asked.length))
        problems.push(`${client} was charged ${count}, of which the backend has seen ${seen}`)
    }
    return problems
  }
}
