/** Plays answers of a backend to clients of a gateway, and holds what the clients are given to the oracle; then asks again. */
import { setImmediate as turn } from 'node:timers/promises'
import { keys, sha256, startTestGateway } from '../support/gateway.ts'
import { until } from '../support/raw-backend.ts'
import { openRawClient, type ParsedResponse, type RawExchange } from '../support/raw-client.ts'
import type { Method, Script } from './answer-grammar.ts'
import { PASSED_ON, readAnswer, type AnswerReading } from './answer-oracle.ts'
import { Violation, type World } from './fuzzing.ts'
import { startScriptedBackend } from './scripted-backend.ts'

const LIMIT_MS = 15_000
/** Statuses of a refusal, where the backend's answer is not passed on. */
const REFUSALS = new Set([502, 504])

/** Fields of which the client must see the gateway's alone. */
const OURS = /^(?:x-request-id|x-ratelimit-remaining|ratelimit)$/i

export async function startAnswerWorld(engine: string): Promise<World<Script>> {
  const backend = await startScriptedBackend()
  let internalError: string | undefined
  const gateway = await startTestGateway({
    upstreams: [],
    blocks: {
      server: 'server: { listen: "127.0.0.1:0", timeouts: { drain: 1s }, overload: { lag: 1m } }',
      upstream: `upstream: { urls: ["${backend.url}"], engine: ${engine}, timeouts: { response: 20s } }`,
      plans: `plans: { free: { perMinute: 60, perDay: 1000 }, pro: { perMinute: 60, perDay: 1000 }, business: { perMinute: 60, perDay: 1000 }, enterprise: { custom: true, concurrent: 1000000 } }`,
      clients: `clients: [{ id: fuzz, plan: enterprise, limits: { perMinute: 1000000000, perDay: 1000000000 }, keys: [{ id: fuzz-1, sha256: ${sha256(keys.enterprise)} }] }]`,
    },
    onLogLine: (line) => {
      if (line.includes('"event":"internalError"')) internalError ??= line
    },
  })
  let count = 0
  const nextId = (): string => (count++).toString(36).padStart(5, '0')
  return {
    play: async (batch, explored) => {
      const problems: string[] = []
      let guilty: number | undefined
      const callers = await Promise.all(batch.map(() => openCaller(gateway.port)))
      const asked = batch.map((script) => {
        const id = nextId()
        backend.scripts.set(id, script)
        return id
      })
      await Promise.all(
        batch.map(async (script, index) => {
          const id = asked[index] ?? ''
          const heard = await callers[index]?.ask(script.method, id)
          // It never came there, or on a connection on which another script is still being played.
          const isJudged = backend.received.has(id)
          if (isJudged) explored.add('judged')
          const problem = isJudged ? wrongWith(heard, script, id) : undefined
          explored.add('answers')
          explored.add(
            `heard ${typeof heard === 'string' || heard === undefined ? String(heard) : heard.complete ? heard.status : 'cut off'}`,
          )
          if (problem === undefined) return
          problems.push(`${script.method}, ${script.end}: ${problem}`)
          guilty = index
        }),
      )
      await until(() => backend.atRest(), 'scripts to end')
      // What came behind an answer, and the end of the connection, is read before anybody uses it again.
      for (let turns = 0; turns < 5; turns++) await turn()
      await Promise.all(
        callers.map(async (caller, index) => {
          const id = nextId()
          const heard = await caller.ask('GET', id)
          caller.close()
          if (
            typeof heard !== 'string' &&
            heard.complete &&
            heard.status === 200 &&
            isOf(id, heard)
          )
            return
          problems.push(
            `the next answer: ${typeof heard === 'string' ? heard : `${heard.status} ${heard.headers.join()} ${heard.body.toString('latin1', 0, 300)}`}`,
          )
          guilty ??= index
        }),
      )
      backend.scripts.clear()
      backend.received.clear()
      problems.push(...backend.takeProblems())
      if (internalError !== undefined) problems.push(internalError)
      if (problems.length > 0) throw new Violation(problems, guilty)
    },
  }
}

const isOf = (id: string, { headers, body }: ParsedResponse): boolean =>
  headers[headers.indexOf('X-Token') + 1] === id && body.toString('latin1') === id

/** undefined: nothing is. */
function wrongWith(
  heard: ParsedResponse | string | undefined,
  script: Script,
  id: string,
): string | undefined {
  const text = script.steps
    .filter((step) => typeof step === 'string')
    .join('')
    .replaceAll('TOKEN', id)
  const reading: AnswerReading = readAnswer(text, script.method === 'HEAD', script.end)
  const { whole, isSound } = reading
  if (heard === 'closed') return isSound ? 'closed instead of answered' : undefined
  if (typeof heard === 'string' || heard === undefined) return heard ?? 'nobody asked'
  const isHop = /^connection: x-hop\r$/im.test(text)
  for (let at = 0; at < heard.headers.length; at += 2) {
    const name = heard.headers[at] ?? ''
    const isStolen = OURS.test(name) || (isHop && name === 'X-Hop')
    if (isStolen && heard.headers[at + 1]?.includes('EVIL')) return `the backend's ${name}`
  }
  if (!heard.complete) return isSound ? 'cut off' : undefined
  if (REFUSALS.has(heard.status) && heard.header('x-token') === undefined)
    return isSound ? `refused with ${heard.status}` : undefined
  if (whole === undefined) return `${heard.status}, complete, of an answer that is none`
  if (heard.status !== whole.status) return `${heard.status} instead of ${whole.status}`
  const body = heard.body.toString('latin1')
  if (body !== whole.body)
    return `another body: ${body.slice(0, 200)} instead of ${whole.body.slice(0, 200)}`
  const fields = heard.headers.flatMap((name, at) =>
    at % 2 === 0 && PASSED_ON.test(name) ? [`${name}: ${heard.headers[at + 1]}`] : [],
  )
  if (isSound && fields.join() !== whole.fields.join())
    return `other fields: ${fields.join()} instead of ${whole.fields.join()}`
  const tokens = heard.all('x-token')
  // A byte may have gone wrong in the field itself.
  if (tokens.some((token) => token !== id) && text.includes(`X-Token: ${id}\r\n`))
    return `the token ${tokens.join()}`
  return undefined
}

/** One connection of a client, which asks one thing after the other, on a new connection where the last has gone. */
async function openCaller(port: number) {
  let methods: Method[] = []
  let client = await openRawClient(port, { methods })
  return {
    close: () => client.destroy(),
    /** What comes of it: an answer, whole or cut off, or why there is none. */
    ask: async (method: Method, id: string): Promise<ParsedResponse | string> => {
      if (client.received().closed) {
        client.destroy()
        methods = []
        client = await openRawClient(port, { methods })
      }
      methods.push(method)
      const body = method === 'POST' ? 'Content-Length: 2\r\n\r\n{}' : '\r\n'
      client.send(
        `${method} /v1/fuzz/${id} HTTP/1.1\r\nHost: fuzz.example\r\nAuthorization: Bearer ${keys.enterprise}\r\n${body}`,
      )
      const told = ({ responses, problem, closed }: RawExchange) => {
        const finals = responses.filter(({ status }) => status >= 200)
        const last = finals[methods.length - 1]
        if (problem !== undefined && !closed) return `no answer at all: ${problem}`
        if (responses.length > finals.length) return 'an interim answer that nobody asked for'
        return closed || last?.complete === true ? (last ?? 'closed') : undefined
      }
      try {
        const exchange = await client.waitFor((one) => told(one) !== undefined, LIMIT_MS)
        return told(exchange) ?? ''
      } catch (error) {
        client.destroy()
        return (error as Error).message
      }
    },
  }
}
